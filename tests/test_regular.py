"""Files that a project names or holds: what is no regular file is not opened, what is too large is not read."""

from __future__ import annotations

import ast
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from shardlint.config.settings import BadSettings, given_settings, settings_in
from shardlint.rewrite.line_length import configured_length
from shardlint.source import regular_files
from shardlint.source.regular_files import NotRegular, TooLarge, parse_toml, read_beginning, read_regular

Write = Callable[..., Path]
ROOT = Path(__file__).parent.parent
posix = pytest.mark.skipif(os.name != "posix", reason="pipes and devices of POSIX")
NAMES = ("ruff.toml", ".ruff.toml", "pyproject.toml", "setup.cfg", ".style.yapf", ".pre-commit-config.yaml")


@pytest.fixture
def no_reading(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: object) -> bytes:
        raise AssertionError("something is read")

    monkeypatch.setattr("os.read", refused)


@posix
def test_a_pipe_is_not_opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    os.mkfifo(tmp_path / "pipe")

    def opened(*_: object) -> int:
        raise AssertionError("it is opened")

    monkeypatch.setattr("os.open", opened)
    for path in (tmp_path / "pipe", Path("/dev/zero"), Path("/dev/null")):
        with pytest.raises(NotRegular):
            read_regular(path, 10)
        with pytest.raises(NotRegular):
            read_beginning(path, 10)
    with pytest.raises(IsADirectoryError):
        read_regular(tmp_path, 10)


@posix
def test_a_pipe_that_takes_the_place_of_a_file_is_not_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, no_reading: None
) -> None:
    (tmp_path / "file").write_text("x")
    os.mkfifo(tmp_path / "pipe")
    status = (tmp_path / "file").stat()
    monkeypatch.setattr("os.stat", lambda _: status)
    with pytest.raises(NotRegular):  # opened without waiting for a writer
        read_regular(tmp_path / "pipe", 10)


def test_a_file_above_its_limit_is_not_read(tmp_path: Path, no_reading: None) -> None:
    (tmp_path / "file").write_bytes(b"12345")
    with pytest.raises(TooLarge, match="5 bytes"):
        read_regular(tmp_path / "file", 4)


def test_a_file_at_its_limit_is_read_whole(tmp_path: Path) -> None:
    data = os.urandom(300_000)
    (tmp_path / "file").write_bytes(data)
    assert read_regular(tmp_path / "file", len(data)) == data
    assert read_beginning(tmp_path / "file", 7) == data[:7]
    (tmp_path / "file").write_bytes(b"")
    assert read_regular(tmp_path / "file", 0) == b""


@pytest.mark.skipif(not Path("/proc/self/maps").exists(), reason="files whose size is 0 until they are read")
def test_a_file_without_a_size_is_read_to_the_limit() -> None:
    assert read_regular("/proc/self/status", 100_000).startswith(b"Name:")
    with pytest.raises(TooLarge):
        read_regular("/proc/self/maps", 10)


@pytest.mark.parametrize(
    "text",
    [
        "a." * 101 + "a = 1",
        "[" + "a." * 500 + "a]",
        "x = {" + "'a' . " * 101 + "a = 1}",
        "y = 1\n" + '"a".' * 101 + "a = 1",
        "a = " + "[" * 5000 + "]" * 5000,
        "a = " + "9" * 5000,
    ],
    ids=lambda text: text[:12],
)
def test_what_takes_too_long_to_parse_is_no_toml(text: str) -> None:
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(1000)  # a run may have raised it
    try:
        with pytest.raises(ValueError, match=r"100 parts|too deeply|digits"):
            parse_toml(text)
    finally:
        sys.setrecursionlimit(limit)


def test_dots_outside_of_keys_are_no_parts() -> None:
    text = 'a.b.c = 1\nversions = ["1.2.3", "4.5.6"]\nsaid = "' + "so. " * 500 + '"\n'
    assert parse_toml(text)["a"] == {"b": {"c": 1}}


# the files that state a line length


@posix
@pytest.mark.parametrize("name", NAMES)
def test_a_pipe_or_device_states_no_line_length(tmp_path: Path, name: str) -> None:
    os.mkfifo(tmp_path / name)
    assert configured_length(tmp_path) is None
    (tmp_path / name).unlink()
    (tmp_path / name).symlink_to("/dev/zero")
    assert configured_length(tmp_path) is None


@pytest.mark.parametrize("name", NAMES)
def test_a_large_file_states_no_line_length(tmp_path: Path, name: str, no_reading: None) -> None:
    with (tmp_path / name).open("wb") as file:
        file.truncate(regular_files.CONFIGURATION_BYTES + 1)
    assert configured_length(tmp_path) is None


@pytest.mark.parametrize(
    ("name", "text"),
    [
        (".style.yapf", f"[style]\ncolumn_limit = {'9' * 5000}\n"),
        ("setup.cfg", f"[yapf]\ncolumn_limit = {'9' * 5000}\n"),
        ("setup.cfg", "[yapf]\ncolumn_limit = ²\n"),
        (".style.yapf", "[other]\ncolumn_limit = 90\n"),
        ("ruff.toml", f"line-length = {'9' * 5000}\n"),
        ("ruff.toml", "a = " + "[" * 20_000 + "]" * 20_000),
        ("pyproject.toml", "a = " + "{a = " * 20_000 + "1" + "}" * 20_000),
        ("pyproject.toml", "tool = 3\n"),
        (".pre-commit-config.yaml", f"- id: flake8\n  args: [--line-length={'9' * 5000}]\n"),
        (".pre-commit-config.yaml", "\n" * 200_000 + "- id: flake8\n"),
        ("setup.cfg", "[yapf]\n" + "x" + " " * 200_000 + "x\n"),
    ],
    ids=range(11),
)
def test_odd_settings_of_formatters_state_no_line_length(write: Write, name: str, text: str) -> None:
    assert configured_length(write({name: text})) is None


@pytest.mark.parametrize(
    "text",
    [
        f"- id: black\n  args: [--line-length={'9' * 5000}]\n",
        f"- id: black\n  args: [-l{' ' * 200_000}x]\n",
        "\n" * 200_000 + "- id: black\n",
        "- id: black\n  args: [" + "-l " * 50_000 + "]\n",
        "- id: black\n" * 20_000,
    ],
    ids=range(5),
)
def test_a_hook_that_is_told_no_length_has_its_usual_one(write: Write, text: str) -> None:
    assert configured_length(write({".pre-commit-config.yaml": text})) == 88


@posix
def test_settings_are_no_pipe_or_device(tmp_path: Path) -> None:
    with pytest.raises(BadSettings, match="it is a pipe or a device"):
        given_settings(Path("/dev/zero"))
    os.mkfifo(tmp_path / "shardlint.toml")
    with pytest.raises(BadSettings, match="it is a pipe or a device"):
        given_settings(tmp_path / "shardlint.toml")
    assert settings_in(tmp_path) is None


# one door

# What is read there is the data of shardlint and of rule packs, or the user's own pipe.
_ALLOWED = {"source/regular_files.py", "source/files.py", "source/text.py", "rules_api/ledger.py", "rules_api/pages.py"}
_FOLDERS = ("config", "source", "syntax", "model", "rules_api", "engine", "rewrite")


def test_files_are_read_in_one_place() -> None:
    files = [path for folder in _FOLDERS for path in (ROOT / "shardlint" / folder).rglob("*.py")]
    reading = {path.relative_to(ROOT / "shardlint").as_posix() for path in files if any(_reads(path))}
    assert reading == _ALLOWED


def _reads(path: Path) -> Iterator[bool]:
    """Each call in a file, whether it opens or reads a file by itself."""
    for node in ast.walk(ast.parse(path.read_bytes())):
        match node:
            case ast.Call(func=ast.Name(id="open")):
                yield not any(isinstance(one, ast.Constant) and one.value == "xb" for one in node.args)
            case ast.Call(func=ast.Attribute(value=ast.Name(id="os"), attr="open" | "fdopen")):
                yield True
            case ast.Call(func=ast.Attribute(attr="read_text" | "read_bytes" | "open")):
                yield True
