"""Settings: where they come from, and what is wrong with them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from shardlint.config.certainty import Certainty
from shardlint.config.folders import find_settings
from shardlint.config.settings import BadSettings, Settings, read_settings

Write = Callable[..., Path]


@pytest.mark.parametrize(
    "files",
    [
        {},
        {"pyproject.toml": "[project]\nname = 'x'\n"},
        {"pyproject.toml": "[tool.other]\nshardlint = 1\n"},
        {"pyproject.toml": "[project]\nname = 'x'\ndependencies = ['shardlint']\n"},
        {"pyproject.toml": "broken = = toml, but none of ours\n"},
        {"sub/shardlint.toml": "pedantic = true\n"},
        {"shardlint.toml/x": ""},
    ],
)
def test_without_settings_the_defaults_hold(write: Write, files: dict[str, str]) -> None:
    assert find_settings(write(files)) == Settings()


def test_all_that_can_be_said(write: Write) -> None:
    text = """\
select = ["SL2", "silent"]
ignore = ["SL203"]
certainty = "possible"
pedantic = true
exclude = ["gen/"]
jit-decorators = ["tools.fast"]
[targets]
jax = "0.8"
[per-file-ignores]
"tests/**" = ["SL2"]
[verify]
anything = 1
[mesh-makers]
"tools.mesh" = ["data", "model"]
"""
    root = write({"shardlint.toml": text})
    expected = Settings(
        ("SL2", "silent"), ("SL203",), Certainty.POSSIBLE, True, ("gen/",), {"jax": "0.8"}, {"tests/**": ("SL2",)}, ("tools.fast",),
        root / "shardlint.toml", mesh_makers={"tools.mesh": ("data", "model")},
    )  # fmt: skip
    assert find_settings(root) == expected
    head, _, tables = text.partition("[targets]")
    inside = (
        "[tool.shardlint]\n" + head + "[tool.shardlint.targets]" + tables.replace("\n[", "\n[tool.shardlint.")
    )
    (root / "shardlint.toml").unlink()
    write({"pyproject.toml": inside})
    assert find_settings(root) == Settings(**{**expected.__dict__, "path": root / "pyproject.toml"})


def test_the_nearest_file_wins_and_nothing_is_merged(write: Write) -> None:
    root = write(
        {
            "pyproject.toml": "[tool.shardlint]\npedantic = true\nignore = ['SL2']\n",
            "sub/pyproject.toml": "[tool.shardlint]\nignore = ['SL3']\n",
            "sub/deep/pyproject.toml": "[project]\nname = 'x'\n",
            "own/pyproject.toml": "[tool.shardlint]\nignore = ['SL4']\n",
            "own/shardlint.toml": "ignore = ['SL5']\n",
        }
    )
    assert find_settings(root).ignore == ("SL2",)
    assert (find_settings(root / "sub").ignore, find_settings(root / "sub").pedantic) == (("SL3",), False)
    assert find_settings(root / "sub" / "deep").ignore == ("SL3",), (
        "a pyproject.toml without our table is passed by"
    )
    assert find_settings(root / "own").ignore == ("SL5",)


@pytest.mark.parametrize(
    "table",
    [
        "[tool.shardlint]\npedantic = true\n",
        "[tool]\nshardlint = {pedantic = true}\n",
        "[ tool . shardlint ]\npedantic = true\n",
        "[\"tool\".'shardlint']\npedantic = true\n",
        "tool.shardlint.pedantic = true\n",
    ],
)
def test_the_table_counts_however_toml_lets_it_be_written(write: Write, table: str) -> None:
    assert find_settings(write({"pyproject.toml": table})).pedantic


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (
            b"\xef\xbb\xbfpedantic = true",
            "line 1 begins with a byte order mark; save it as UTF-8 without one",
        ),
        ("select = [", "not valid TOML"),
        (b"select = ['\xff']", "not valid TOML"),
        ("select = ['SL2']".encode("utf-16"), "byte 1 is not UTF-8; save it as UTF-8"),
        ("select = ['SL2']".encode("utf-16-le"), "it contains NUL, as UTF-16 does; save it as UTF-8"),
        ("selct = ['SL2']", "unknown setting 'selct'; did you mean select?"),
        ("per_file_ignores = {}", "unknown setting 'per_file_ignores'; did you mean per-file-ignores?"),
        ("Exclude = []", "unknown setting 'Exclude'; did you mean exclude?"),
        ("target = {}", "unknown setting 'target'; did you mean targets?"),
        ("line-length = 100", "unknown setting 'line-length'; there are select, ignore"),
        ("select = 'SL2'", 'select is \'SL2\'; write a list of strings such as ["SL2", "silent"]'),
        ("exclude = 'x'", "exclude is 'x'; write a list of strings such as [\"vendored/\"]"),
        ("ignore = [2]", "ignore is [2]; write a list of strings"),
        ("exclude = {}", "exclude is {}; write a list"),
        ("ignore = 'SL2'", "ignore is 'SL2'; write a list of strings such as [\"SL214\"]"),
        ("pedantic = 'yes'", "pedantic is 'yes'; write true or false"),
        ("pedantic = 1", "pedantic is 1; write true or false"),
        ("certainty = 'sure'", "certainty is 'sure'; write one of proven, likely, possible"),
        ("certainty = ['likely']", "write one of proven, likely, possible"),
        (
            "certainty = 'proven'\npedantic = true",
            'pedantic means certainty = "possible"; remove one of the two',
        ),
        ("targets = ['jax']", "targets is ['jax']; write a table such as {jax = \"0.8\"}"),
        ("targets = {jax = 0.8}", 'targets.jax is 0.8; the value must be a string, as in {jax = "0.8"}'),
        ("targets = {jax = '99'}", "target 'jax=99': this shardlint knows jax 0.3 to 0.12"),
        ("targets = {torch = '2'}", "is not a target"),
        ("targets = {jax = 'new'}", "is not a version"),
        ("per-file-ignores = ['a']", "write a table such as"),
        ("per-file-ignores = {'a' = 'SL2'}", "per-file-ignores.a is 'SL2'; write a list"),
        ("mesh-makers = ['make']", 'write a table such as {"mylib.mesh.make" = ["data", "model"]}'),
        ("mesh-makers = {make = 'data'}", 'write a list of strings such as ["data", "model"]'),
        ("jit-decorators = 'f'", 'write a list of strings such as ["mylib.utils.my_jit"]'),
    ],
)
def test_what_is_wrong_is_told_with_file_and_key(write: Write, text: str | bytes, says: str) -> None:
    root = write({"shardlint.toml": text})
    with pytest.raises(BadSettings) as error:
        find_settings(root)
    assert str(error.value).startswith(str(root / "shardlint.toml"))
    assert says in str(error.value)


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "latin-1"])
def test_a_pyproject_that_is_not_utf8_is_told_and_not_passed_by(write: Write, encoding: str) -> None:
    text = "# né\n[tool.shardlint]\nignore = ['SL2']\n"
    root = write({"pyproject.toml": text.encode(encoding)})
    with pytest.raises(BadSettings, match=r"pyproject.toml: not valid TOML: .*save it as UTF-8"):
        find_settings(root)


def test_a_table_that_is_none(write: Write) -> None:
    root = write({"pyproject.toml": "[tool]\n'shardlint' = 1 # tool.shardlint\n"})
    with pytest.raises(BadSettings, match=r"\[tool.shardlint\] is not a table"):
        read_settings(root / "pyproject.toml")


def test_settings_that_cannot_be_read_are_told(write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    root = write({"shardlint.toml": ""})

    def denied(path: str, flags: int) -> int:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("os.open", denied)
    with pytest.raises(BadSettings, match=r"shardlint.toml: cannot be read: Permission denied"):
        find_settings(root)
