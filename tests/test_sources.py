"""Text in, text out: encodings and newlines, finding files, suppressions."""

from __future__ import annotations

import codecs
import os
import random
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shardlint.config.certainty import Certainty
from shardlint.engine.results import FileReport, Options
from shardlint.engine.run import check_paths
from shardlint.rewrite.fix import fix_files
from shardlint.source.decoding import decode_file
from shardlint.source.find import _Ignore, find_python_files, survey_folder
from shardlint.source.searches import search_holds
from shardlint.source.suppress import Suppression, find_suppressions
from shardlint.source.text import MAX_BYTES, Source, Unreadable, read_bytes
from shardlint.source.tree import Tree

HERE = Path("x.py")


# decoding


@pytest.mark.parametrize(
    ("data", "text"),
    [
        pytest.param(b"", "", id="empty"),
        pytest.param(b"x = 1", "x = 1", id="no-final-newline"),
        pytest.param(b"x = 1\r\ny = 2\r\n", "x = 1\r\ny = 2\r\n", id="crlf"),
        pytest.param(b"x = 1\ry = 2\r", "x = 1\ry = 2\r", id="lone-cr"),
        pytest.param(b"x = 1\n\x0c\ny = 2\n", "x = 1\n\x0c\ny = 2\n", id="form-feed"),
        pytest.param("x = 'ä→🐍'\n".encode(), "x = 'ä→🐍'\n", id="utf-8"),
        pytest.param(codecs.BOM_UTF8 + "x = 'ä'\n".encode(), "x = 'ä'\n", id="bom"),
        pytest.param(codecs.BOM_UTF8, "", id="only-a-bom"),
        pytest.param(
            b"# -*- coding: latin-1 -*-\nx = '\xe4'\n", "# -*- coding: latin-1 -*-\nx = 'ä'\n", id="latin-1"
        ),
        pytest.param(
            b"#!/usr/bin/python\n# vim: set fileencoding=cp1252 :\n'\x80'", None, id="cookie-on-line-2"
        ),
        pytest.param(
            "# coding: shift_jis\nx = '漢'\n".encode("shift_jis"),
            "# coding: shift_jis\nx = '漢'\n",
            id="sjis",
        ),
    ],
)
def test_text_goes_out_as_it_came_in(data: bytes, text: str | None) -> None:
    source = decode_file(HERE, data)
    if text is not None:
        assert source.text == text
    assert source.encode_file() == data


@pytest.mark.parametrize(
    ("data", "says"),
    [
        pytest.param(b"ok = 1\nx = '\xe4'\n", "line 2 is not utf-8 (byte 0xe4)", id="latin-1-without-cookie"),
        pytest.param(b"# coding: utf-8\nx = '\xff'\n", "line 2 is not utf-8 (byte 0xff)", id="wrong-cookie"),
        pytest.param(b"# coding: klingon\n", "cannot tell the encoding", id="unknown-cookie"),
        pytest.param(
            codecs.BOM_UTF8 + b"# coding: latin-1\n", "cannot tell the encoding", id="bom-against-cookie"
        ),
        pytest.param(b"# coding: rot13\n", "rot13", id="cookie-that-is-no-text-encoding"),
        pytest.param(b"# coding: idna\nx = '\xff..'\n", "", id="codec-with-errors-of-its-own"),
        pytest.param(b"# coding: unicode_escape\nx = '\\x'\n", "", id="escape-codec"),
        pytest.param(b"a\nb\0c\n", "line 2 contains a NUL byte", id="nul"),
        pytest.param("x = 1\n".encode("utf-16"), "NUL", id="utf-16"),
        pytest.param(b"#" * (MAX_BYTES + 1), "8,000,001 bytes", id="too-large"),
        pytest.param(b"x = 1\n\n\nx = '\xe2\x82", "line 4 is not utf-8", id="cut-in-a-character"),
    ],
)
def test_what_is_not_text_is_told_in_one_line(data: bytes, says: str) -> None:
    with pytest.raises(Unreadable) as error:
        decode_file(HERE, data)
    assert says in str(error.value)
    assert "\n" not in str(error.value)


def test_text_that_does_not_fit_the_encoding_is_not_written() -> None:
    source = decode_file(HERE, b"# coding: latin-1\nx = 1\n")
    with pytest.raises(Unreadable, match="cannot be written in the file's encoding iso-8859-1"):
        source.with_text("# coding: latin-1\nx = '→'\n").encode_file()


@pytest.mark.parametrize(
    ("text", "newline"),
    [
        ("", "\n"),
        ("x", "\n"),
        ("a\nb\n", "\n"),
        ("a\r\nb\r\n", "\r\n"),
        ("a\rb\r", "\r"),
        ("a\r\nb\r\nc\n", "\r\n"),
    ],
)
def test_the_newline_is_the_one_most_lines_have(text: str, newline: str) -> None:
    assert Source(HERE, text).common_newline == newline


def test_positions_count_characters_and_ast_columns_count_bytes() -> None:
    source = Source(HERE, "x = 'ä→🐍'; y\r\nz\x0c = 1\r\n")
    assert source.position_of(source.text.index("y")) == (1, 12)
    assert source.offset_of(1, len("x = 'ä→🐍'; ".encode())) == source.text.index("y")
    assert source.position_of(source.text.index("z")) == (2, 1)
    assert [source.line_text(n) for n in (1, 2, 3)] == ["x = 'ä→🐍'; y", "z\x0c = 1", ""]


@given(st.text(alphabet="aä→🐍 \t\x0c\n\r\u2028", max_size=40))
@settings(derandomize=True, deadline=None, max_examples=150)
def test_every_offset_has_one_position(text: str) -> None:
    source = Source(HERE, text)
    for offset in range(len(text) + 1):
        line, column = source.position_of(offset)
        assert source.line_starts[line - 1] + column - 1 == offset
        before = text[source.line_starts[line - 1] : offset]
        if "\r" not in before and "\n" not in before:
            assert source.offset_of(line, len(before.encode())) == offset


@pytest.mark.parametrize(("make", "says"), [("folder", "is a directory"), ("nothing", "no such file")])
def test_a_file_that_cannot_be_read_is_told(tmp_path: Path, make: str, says: str) -> None:
    path = tmp_path / "x.py"
    if make == "folder":
        path.mkdir()
    with pytest.raises(Unreadable, match=says):
        read_bytes(path)


def test_permission_denied_is_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def denied(path: str, flags: int) -> int:
        raise PermissionError(13, "Permission denied")

    (tmp_path / "x.py").touch()
    monkeypatch.setattr("os.open", denied)
    with pytest.raises(Unreadable, match="permission denied"):
        read_bytes(tmp_path / "x.py")


# finding


def _names(root: Path, *paths: Path, exclude: tuple[str, ...] = ()) -> list[str]:
    return [path.relative_to(root).as_posix() for path in find_python_files(paths or (root,), exclude, root).file_paths]


def test_only_python_files_are_found_in_a_stable_order(write: Callable[..., Path]) -> None:
    root = write(
        {"b.py": "", "a.pyi": "", "c.txt": "", "a/z.py": "", "a/py": "", ".hidden.py": "", "d.PY": ""}
    )
    assert _names(root) == [".hidden.py", "a/z.py", "a.pyi", "b.py"]


def test_places_nobody_means_are_left_out(write: Callable[..., Path]) -> None:
    root = write(
        {
            ".venv/x.py": "",
            "node_modules/x.py": "",
            "a/__pycache__/x.py": "",
            ".git/hooks/x.py": "",
            "ok.py": "",
        }
    )
    assert _names(root) == ["ok.py"]
    assert _names(root, root / ".venv") == [".venv/x.py"], "but named, they are meant"


def test_a_named_file_is_checked_whatever_it_is_called(write: Callable[..., Path]) -> None:
    root = write({"script": "", ".gitignore": "script\nx.py\n", "x.py": ""})
    assert _names(root, root / "script", root / "x.py") == ["script", "x.py"]


def test_a_folder_named_like_a_file_is_walked(write: Callable[..., Path]) -> None:
    root = write({"x.py/y.py": "", "x.py/z.txt": ""})
    assert _names(root) == ["x.py/y.py"]
    assert _names(root, root / "x.py") == ["x.py/y.py"]


@pytest.mark.parametrize(
    ("ignores", "found"),
    [
        pytest.param({".gitignore": "a.py\n"}, ["sub/b.py", "sub/deep/c.py"], id="name"),
        pytest.param({".gitignore": "# a.py\n\n"}, ["a.py", "sub/b.py", "sub/deep/c.py"], id="comment"),
        pytest.param({".gitignore": "sub/\n"}, ["a.py"], id="folder"),
        pytest.param({".gitignore": "/b.py\n"}, ["a.py", "sub/b.py", "sub/deep/c.py"], id="anchored"),
        pytest.param({".gitignore": "*.py\n!b.py\n"}, ["sub/b.py"], id="negation"),
        pytest.param(
            {".gitignore": "*.py\n", "sub/.gitignore": "!b.py\n"}, ["sub/b.py"], id="negation-further-in"
        ),
        pytest.param({"sub/.gitignore": "/b.py\n"}, ["a.py", "sub/deep/c.py"], id="nested"),
        pytest.param(
            {".gitignore": "!b.py\n", "sub/.gitignore": "b.py\n"}, ["a.py", "sub/deep/c.py"], id="nested-wins"
        ),
        pytest.param(
            {".gitignore": "sub/*\n!sub/deep/\n"}, ["a.py", "sub/deep/c.py"], id="folder-taken-back"
        ),
        pytest.param({".gitignore": "sub/\n!sub/b.py\n"}, ["a.py"], id="not-back-from-an-ignored-folder"),
        pytest.param({".gitignore": "sub/**\n!sub/b.py\n"}, ["a.py", "sub/b.py"], id="stars"),
        pytest.param({".gitignore": "[\na.py\n"}, ["sub/b.py", "sub/deep/c.py"], id="broken-pattern"),
        pytest.param({".gitignore": b"\xff\xfe\na.py\n"}, ["sub/b.py", "sub/deep/c.py"], id="not-text"),
    ],
)
def test_gitignore_means_what_it_means_to_git(
    write: Callable[..., Path], ignores: dict[str, str | bytes], found: list[str]
) -> None:
    root = write({"a.py": "", "sub/b.py": "", "sub/deep/c.py": "", ".git/HEAD": "", **ignores})
    assert _names(root) == found


def test_patterns_that_are_ruled_out_unread_say_nothing() -> None:
    """Whatever stands in the lines and paths: the same as with all patterns read."""
    draw = random.Random(5)
    atoms = [*"ab*?/!# ", "ab", "**", "[ab]", "[!a]", "[a-c]", ".py", "*.py[cod]", "build", "\\*", "[]a]", "[a", "a]"]
    names = ["a", "b", "ab", "build", "c.py", "c.pyc", "x y", "*", "abc", ".py", "#", "!a"]
    spoken = 0
    for _ in range(3_000):
        ignore = _Ignore(["".join(draw.choices(atoms, k=draw.randint(1, 4))) for _ in range(draw.randint(1, 3))])
        for _ in range(4):
            path = "/".join(draw.choices(names, k=draw.randint(1, 3))) + draw.choice(["", "/"])
            said = ignore._combined_spec.check_file(path).include
            assert ignore.is_path_ignored(path) is said, (ignore._lines, path)
            spoken += said is not None
    assert spoken > 1_000


def test_ignore_files_above_count_inside_a_repository_only(write: Callable[..., Path]) -> None:
    root = write({".gitignore": "b.py\n", "sub/b.py": "", "sub/c.py": ""})
    assert _names(root, root / "sub") == ["sub/b.py", "sub/c.py"]
    write({".git/HEAD": ""})
    assert _names(root, root / "sub") == ["sub/c.py"]


def test_a_gitignore_that_is_a_folder_ignores_nothing(write: Callable[..., Path]) -> None:
    root = write({".gitignore/x.txt": "", "a.py": ""})
    assert _names(root) == ["a.py"]


def test_exclude_holds_for_named_files_too(write: Callable[..., Path]) -> None:
    root = write({"a.py": "", "gen/b.py": "", "gen/keep.py": ""})
    assert _names(root, exclude=("gen/",)) == ["a.py"]
    assert _names(root, exclude=("gen/*", "!gen/keep.py")) == ["a.py", "gen/keep.py"]
    found = find_python_files([root / "gen" / "b.py"], ("gen/",), root)
    assert not found.file_paths
    assert found.excluded == [(root / "gen" / "b.py", "excluded by the settings")]


def test_missing_paths_are_told_and_the_others_found(write: Callable[..., Path]) -> None:
    root = write({"a.py": ""})
    found = find_python_files([root / "no.py", root / "a.py", root / "nowhere" / "x.py"])
    assert found.missing == [root / "no.py", root / "nowhere" / "x.py"]
    assert found.file_paths == [root / "a.py"]


def test_symlinks_to_files_are_followed_and_loops_are_not(write: Callable[..., Path]) -> None:
    root = write({"a.py": "", "sub/b.py": ""})
    (root / "loop.py").symlink_to("loop.py")
    (root / "sub" / "up").symlink_to(root, target_is_directory=True)
    (root / "link.py").symlink_to("a.py")
    (root / "dangling.py").symlink_to("gone.py")
    assert _names(root) == ["a.py", "link.py", "sub/b.py"]
    assert find_python_files([root / "loop.py"]).missing == [root / "loop.py"]


def test_a_folder_that_cannot_be_listed_has_no_files(
    write: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    root = write({"a.py": "", "sub/b.py": ""})
    real = os.scandir

    def scandir(path: str) -> object:
        if str(path).endswith("sub"):
            raise PermissionError(13, "Permission denied")
        return real(path)

    monkeypatch.setattr(os, "scandir", scandir)
    assert _names(root) == ["a.py"]


# suppressions


def _read(text: str) -> list[Suppression]:
    return find_suppressions(text, Source(HERE, text).line_starts)


@pytest.mark.parametrize(
    "text",
    [
        "x = '# shardlint: ignore[XT101]'\n",
        '"""\n# shardlint: ignore[XT101]\n"""\n',
        "x = f'{1} # shardlint: ignore[XT101]'\n",
        "# shardlint is a linter: ignore it\n",
        "# not shardlint: ignored\n",
        "# noqa: XT101\n",
        "x = 1\n",
    ],
)
def test_what_is_no_suppression(text: str) -> None:
    assert _read(text) == []


@pytest.mark.parametrize(
    ("comment", "codes", "whole", "reason"),
    [
        ("# shardlint: ignore[XT101]", ("XT101",), False, ""),
        ("# shardlint: ignore[XT101] it runs eagerly", ("XT101",), False, "it runs eagerly"),
        ("# shardlint: ignore[XT101] see issue #12", ("XT101",), False, "see issue #12"),
        ("# shardlint: ignore[XT101, XT102]", ("XT101", "XT102"), False, ""),
        ("# shardlint: ignore [ XT101 ]", ("XT101",), False, ""),
        ("#shardlint:ignore[XT101]", ("XT101",), False, ""),
        ("# shardlint: ignore", (), False, ""),
        ("# shardlint: ignore-file", (), True, ""),
        ("# shardlint: ignore-file[XT101] generated", ("XT101",), True, "generated"),
        ("# noqa  # shardlint: ignore[XT101] why  # type: ignore", ("XT101",), False, "why"),
        ("# shardlint: ignore[XT101]# noqa: E501", ("XT101",), False, ""),
        ("# shardlint: ignore# noqa: E501", (), False, ""),
    ],
)
def test_suppressions_are_read(comment: str, codes: tuple[str, ...], whole: bool, reason: str) -> None:
    (found,) = _read(f"x = 1  {comment}\n")
    assert (found.codes, found.whole_file, found.reason, found.line) == (codes, whole, reason, 1)


@pytest.mark.parametrize("newline", ["\n", "\r\n", "\r"])
def test_suppressions_stand_on_their_lines_whatever_ends_them(newline: str) -> None:
    text = newline.join(["a = '''", "b'''", "\x0c", "ä = 1  # shardlint: ignore[XT101] why", ""])
    (found,) = _read(text)
    assert found.line == 4
    assert text[found.offset : found.end] == "# shardlint: ignore[XT101] why"


def test_what_stands_before_a_broken_place_still_counts() -> None:
    assert len(_read("x = 1  # shardlint: ignore[XT101]\n'''")) == 1


@pytest.fixture
def told(pack: None, write: Callable[..., Path]) -> Callable[..., list[str]]:
    """The codes found in a file and the lines they are on, with a call of device_put reported by XT101."""

    def run(text: str, **options: object) -> list[str]:
        root = write({"x.py": "import jax\n" + text})
        report = check_paths([root / "x.py"], Options(**options))
        assert not report.skipped
        return [
            f"{found.rule.code}:{_line(file, found.start)}"
            for file in report.reports
            for found in file.findings
        ]

    return run


def _line(file: FileReport, offset: int) -> int:
    return file.source.position_of(offset)[0] - 1


@pytest.mark.parametrize(
    ("text", "left"),
    [
        pytest.param("jax.device_put(1)\n", ["XT101:1"], id="none"),
        pytest.param("jax.device_put(1)  # shardlint: ignore[XT101] eager\n", [], id="line"),
        pytest.param("jax.device_put(1)  # shardlint: ignore eager\n", [], id="no-codes"),
        pytest.param("jax.device_put(1)  # shardlint: ignore[XT101, XT101]\n", [], id="twice"),
        pytest.param(
            "jax.device_put(1)  # shardlint: ignore[XT103]\n", ["XT101:1", "SL002:1"], id="another-code"
        ),
        pytest.param("jax.device_put(1)  # shardlint: ignore[XT101, XT103]\n", ["SL002:1"], id="one-of-two"),
        pytest.param(
            "# shardlint: ignore[XT101]\njax.device_put(1)\n", ["SL002:1", "XT101:2"], id="line-above"
        ),
        pytest.param("jax.device_put(\n    1\n)  # shardlint: ignore[XT101] eager\n", [], id="end-of-a-call"),
        pytest.param(
            "jax.device_put(  # shardlint: ignore[XT101] eager\n    1\n)\n", [], id="start-of-a-call"
        ),
        pytest.param("jax.device_put(\n    1  # shardlint: ignore[XT101] eager\n)\n", [], id="inside-a-call"),
        pytest.param(
            "x = [\n    jax.device_put(1),\n]  # shardlint: ignore[XT101] all\n",
            [],
            id="end-of-the-statement",
        ),
        pytest.param(
            "x = [\n    jax.device_put(1),\n    2,  # shardlint: ignore[XT101]\n]\n",
            ["XT101:2", "SL002:3"],
            id="another-item",
        ),
        pytest.param(
            "def f(\n    x=jax.device_put(1),\n):  # shardlint: ignore[XT101] default\n    jax.device_put(2)\n",
            ["XT101:4"],
            id="end-of-a-header",
        ),
        pytest.param(
            "# shardlint: ignore-file[XT101] generated\njax.device_put(1)\njax.device_put(2)\n", [], id="file"
        ),
        pytest.param("jax.device_put(1)\n# shardlint: ignore-file generated\n", [], id="file-at-its-end"),
        pytest.param(
            "# shardlint: ignore-file[XT103]\njax.device_put(1)\n", ["SL002:1", "XT101:2"], id="file-other"
        ),
        pytest.param("x = 1  # shardlint: ignore[XT101]\n", ["SL002:1"], id="unused"),
        pytest.param("x = 1  # shardlint: ignore[XT999]\n", ["SL002:1"], id="no-such-code"),
        pytest.param("x = '# shardlint: ignore[XT101]'; jax.device_put(1)\n", ["XT101:1"], id="in-a-string"),
    ],
)
def test_what_a_suppression_silences(told: Callable[..., list[str]], text: str, left: list[str]) -> None:
    assert told(text) == left


@pytest.mark.parametrize("kind", ["ignore", "ignore-file"])
@pytest.mark.parametrize(
    "rest",
    "(XT101)| XT101|: XT101|[XT101|s[XT101]|-next-line(XT101)|[ ]|[]|[no-such rule]|[put-rule]".split("|"),
)
def test_a_misspelt_suppression_silences_nothing_and_stays(
    write: Callable[..., Path], told: Callable[..., list[str]], kind: str, rest: str
) -> None:
    if rest.startswith("s["):
        kind = "ignore-file"
    text = f"import jax\njax.device_put(1)  # shardlint: {kind}{rest}\n"
    root = write({"x.py": text})
    (report,) = check_paths([root], Options()).reports
    said = [finding for finding in report.findings if finding.rule.code == "SL002"]
    assert {finding.rule.code for finding in report.findings} == {"XT101", "SL002"}
    assert [(finding.fix, "[SL201]`" in finding.help) for finding in said] == [(None, True)]
    fix_files([root], Options(), unsafe=False, write=True)
    assert (root / "x.py").read_text() == text


@pytest.mark.parametrize("reason", ["eager (see #12)", "(eager)", "- eager", "on 8 devices"])
def test_a_suppression_without_codes_silences_all(told: Callable[..., list[str]], reason: str) -> None:
    assert told(f"jax.device_put(1)  # shardlint: ignore {reason}\n") == []


def test_a_suppression_of_what_only_pedantic_shows_is_used(told: Callable[..., list[str]]) -> None:
    text = "jax.numpy.sum(1)  # shardlint: ignore[XT104] small\n"
    assert told(text) == []
    assert told(text, certainty=Certainty.POSSIBLE) == []
    assert told("jax.numpy.sum(1)\n", certainty=Certainty.POSSIBLE) == ["XT104:1"]


def test_unused_suppressions_are_not_told_of_rules_that_did_not_run(told: Callable[..., list[str]]) -> None:
    text = "x = 1  # shardlint: ignore[XT101]\n"
    assert told(text, select=("XT103",)) == []
    assert told(text, ignore=("XT101",)) == []
    assert told("x = 1  # shardlint: ignore[XT106]\n", targets={"jax": "0.8"}) == [], (
        "it holds for older releases"
    )


def test_reasons_are_asked_for_when_selected(told: Callable[..., list[str]]) -> None:
    text = "jax.device_put(1)  # shardlint: ignore[XT101]{}\n"
    assert told(text.format(""), select=("XT101", "SL003")) == ["SL003:1"]
    assert told(text.format(" eager"), select=("XT101", "SL003")) == []
    assert told(text.format("")) == []


def test_a_survey_of_what_was_walked_finds_the_same(write: Callable[..., Path]) -> None:
    names = [
        "a.py",
        "p/a.py",
        "p/build/b.py",
        "p/q/c.py",
        "r/build/d.py",
        "r/s/build/e.py",
        "r/s/f.py",
        "venv/g.py",
    ]
    root = write(
        {
            **dict.fromkeys(names, ""),
            "p/.gitignore": "build/\n",
            "r/.git/HEAD": "",
            "r/s/.gitignore": "f.py\n",
        }
    )
    folders = [root, *(path for path in root.rglob("*") if path.is_dir())]
    for ignored in ("", "s/\n"):
        (root / ".gitignore").write_text(ignored)
        for exclude in ((), ("q/",)):
            tree = Tree()
            find_python_files([root], exclude, root, tree)
            for folder in folders:
                assert survey_folder(folder, tree) == survey_folder(folder), folder


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (b"import equinox as eqx\n", True),
        (b"x = 1\nimport jax, equinox", True),
        (b"# like equinox\nimport jax\n", False),
        (b"import equinoxes\n", False),
        (b"equinox " * 300_000, False),  # one line: taken for each of its words it would take hours
        (b"equinox " * 300_000 + b"\nfrom equinox import nn\n", True),
    ],
)
def test_a_module_is_imported_on_a_line_that_says_so(text: bytes, found: bool) -> None:
    assert search_holds(("imported", "equinox"), text) is found
