"""From files to findings: which rules run, where settings hold, and what becomes of files that cannot be checked."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from shardlint import registry
from shardlint.check import Options, Report, check
from shardlint.registry import BrokenPack, UnknownRule, entries, matching, rules, select
from shardlint.settings import BadSettings

Write = Callable[..., Path]
pytestmark = pytest.mark.usefixtures("pack")

PUT = "import jax\njax.device_put(1)\n"
BROKEN = "import jax\njax.device_put(\n"


def found(report: Report) -> list[str]:
    return [
        f"{file.path.name}:{file.source.position(finding.start)[0]} {finding.rule.code}"
        for file in report.reports
        for finding in file.findings
    ]


def run(*paths: Path, **options: object) -> Report:
    return check(paths, Options(**options))


# the screen and the sites


@pytest.mark.parametrize(
    "text",
    [
        "",
        "\n",
        "# jax.device_put(1)\n",
        "'jax.device_put(1)'\n",
        "device_put(1)\n",
        "import torch as jax\njax.device_put(1)\n",
        "import jax\njax.device_put\n",
        "import jax\nx = jax.device_put\n",
        "import jax\ndef f(jax): jax.device_put(1)\n",
        "def f(x, device_put): device_put(x)\n",
        "import jax\nwith pytest.raises(E): jax.device_put(1)\n",
        "import jax\nif jax.__version__ < '0.5': jax.device_put(1)\n",
    ],
)
def test_quiet(write: Write, text: str) -> None:
    assert found(run(write({"x.py": text}), select=("XT101",))) == []


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        (PUT, [2]),
        ("from jax import device_put as put\nput(1)\nput(2)\n", [2, 3]),
        ("import jax\nput = jax.device_put\nput(1)\n", [3]),
        ("import jax\nfrom functools import partial\nput = partial(jax.device_put, device=d)\nput(1)\n", [3]),
        (
            "import jax\nclass C:\n    def __init__(self): self.put = jax.device_put\n"
            "    def f(self): self.put(1)\n",
            [4],
        ),
        ("import jax\nf(lambda: [jax.device_put(x) for x in y])\n", [2]),
        ("import jax\n@jax.device_put(1)\ndef f(x=jax.device_put(2)): pass\n", [2, 3]),
        ("import jax\njax.device_put(jax.device_put(1))\n", [2, 2]),
        (
            "try:\n    from jax import device_put\nexcept ImportError:\n"
            "    from jax.api import device_put\ndevice_put(1)\n",
            [5],
        ),
        ("import jax\r\njax.device_put(1)\r\n", [2]),
        ("\ufeffimport jax\njax.device_put(1)\n", [2]),
    ],
)
def test_found(write: Write, text: str, lines: list[int]) -> None:
    report = run(write({"x.py": text.encode()}), select=("XT101",))
    assert found(report) == [f"x.py:{line} XT101" for line in lines]


def test_names_as_they_are_written(write: Write) -> None:
    text = (
        "from jax import tree_map\nimport jax\njax.tree_map(f, x)\nfrom jax.experimental import pjit\n"
        "from jax.experimental.pjit import pjit\njax.tree.map(f, x)\n"
    )
    assert found(run(write({"x.py": text}))) == [
        "x.py:1 XT107",
        "x.py:3 XT107",
        "x.py:4 XT107",
        "x.py:5 XT107",
    ]


def test_each_place_is_told_once_and_in_order(write: Write) -> None:
    text = (
        "import jax\nimport jax as j\nif a:\n    put = jax.device_put\n"
        "else:\n    put = j.device_put\nput(1)\njax.device_put(2)\n"
    )
    assert found(run(write({"x.py": text}))) == ["x.py:7 XT101", "x.py:8 XT101"]


# choosing rules


@pytest.mark.parametrize(
    ("chosen", "codes"),
    [
        (["XT101"], ["XT101"]),
        (["XT2"], ["XT201", "XT202", "XT203", "XT204", "XT205", "XT206", "XT207", "XT208"]),
        (["asarray-moved"], ["XT102"]),
        (["silent"], ["XT101"]),
        (["Silent"], ["XT101"]),
        (["removed", "XT101"], ["XT101", "XT102", "XT107"]),
        (["XT105"], ["XT105"]),
        (["max-quiet"], ["XT105"]),
    ],
)
def test_rules_are_chosen_by_code_prefix_name_and_harm(chosen: list[str], codes: list[str]) -> None:
    assert [rule.code for rule in select(chosen, ())] == codes


def test_all_are_all_and_the_default_leaves_some_out() -> None:
    assert [rule.code for rule in select(["all"], ())] == list(entries())
    assert [rule.code for rule in select(["ALL"], ())] == list(entries())
    left_out = set(entries()) - {rule.code for rule in select([], ())}
    assert left_out == {"XT105", "SL003"}


def test_ignoring_wins() -> None:
    assert [rule.code for rule in select(["XT1"], ["XT101", "removed", "max-quiet"])] == [
        "XT103",
        "XT104",
        "XT106",
    ]


@pytest.mark.parametrize(
    ("selector", "hint"),
    [
        ("XT999", "lists them"),
        ("XT10l", "did you mean XT10"),
        ("asarray-move", "asarray-moved"),
        ("silnt", "silent"),
        ("xt101", "XT101"),
        ("", "lists them"),
        ("nonsense!", "lists them"),
    ],
)
def test_what_is_no_rule_is_told_with_what_is_near(selector: str, hint: str) -> None:
    with pytest.raises(UnknownRule) as error:
        list(matching([selector]))
    assert repr(selector) in str(error.value)
    assert hint in str(error.value)


def test_harm_narrows_and_pedantic_widens(write: Write) -> None:
    text = "import jax\nimport numpy as np\njax.device_put(1)\njax.numpy.sum(1)\nnp.asarray(1)\njax.numpy.max(1)\n"
    root = write({"x.py": text})
    assert found(run(root)) == ["x.py:3 XT101", "x.py:5 XT102"]
    assert found(run(root, harm=("silent",))) == ["x.py:3 XT101"]
    assert found(run(root, pedantic=True)) == ["x.py:3 XT101", "x.py:4 XT104", "x.py:5 XT102"]
    assert found(run(root, select=("XT1",))) == ["x.py:3 XT101", "x.py:5 XT102", "x.py:6 XT105"]


def test_a_rule_is_silent_where_it_does_not_hold(write: Write) -> None:
    root = write({"x.py": "import numpy as np\nnp.cos(1)\n"})
    assert found(run(root, targets={"jax": "0.8"})) == []
    assert found(run(root, targets={"jax": "0.4.38"})) == ["x.py:2 XT106"]


def test_packs_may_not_claim_the_same_code(monkeypatch: pytest.MonkeyPatch) -> None:
    import shardlint_testpack

    monkeypatch.setitem(shardlint_testpack.RULES, "SL001", "shardlint_testpack:Told")
    registry.entries.cache_clear()
    with pytest.raises(BrokenPack, match="SL001 is claimed by"):
        entries()


def test_a_pack_whose_table_is_wrong_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    import shardlint_testpack

    monkeypatch.setitem(shardlint_testpack.RULES, "XT999", "shardlint_testpack:Told")
    registry.entries.cache_clear()
    registry.rules.cache_clear()
    with pytest.raises(BrokenPack, match="shardlint_testpack:Told is not the rule XT999"):
        rules()


# settings


def test_settings_choose_too_and_the_command_line_wins(write: Write) -> None:
    root = write(
        {
            "shardlint.toml": "select = ['XT101', 'XT104']\nignore = ['XT101']\npedantic = true\n"
            "[targets]\njax = '0.4.38'\n",
            "x.py": "import jax, numpy as np\njax.device_put(1)\njax.numpy.sum(1)\nnp.cos(1)\n",
        }
    )
    report = run(root)
    assert found(report) == ["x.py:3 XT104"]
    assert report.targets is not None
    assert report.targets.shown()["jax"] == "0.4.38"
    assert found(run(root, select=("XT101", "XT106"))) == ["x.py:4 XT106"], (
        "what the settings ignore stays ignored"
    )
    assert found(run(root, select=("XT106",), targets={"jax": "0.8"})) == []


def test_each_file_obeys_its_nearest_settings(write: Write) -> None:
    root = write(
        {"shardlint.toml": "", "sub/shardlint.toml": "ignore = ['XT101']\n", "x.py": PUT, "sub/y.py": PUT}
    )
    assert found(run(root)) == ["x.py:2 XT101"]


@pytest.mark.parametrize(
    ("pattern", "left"),
    [
        ("tests/**", ["x.py:2 XT101"]),
        ("tests/", ["x.py:2 XT101"]),
        ("tests/*.py", ["y.py:2 XT101", "x.py:2 XT101"]),
        ("y.py", ["z.py:2 XT101", "x.py:2 XT101"]),
        ("/y.py", ["y.py:2 XT101", "z.py:2 XT101", "x.py:2 XT101"]),
        ("*.pyi", ["y.py:2 XT101", "z.py:2 XT101", "x.py:2 XT101"]),
    ],
)
def test_rules_are_left_out_for_some_files(write: Write, pattern: str, left: list[str]) -> None:
    root = write(
        {
            "shardlint.toml": f"[per-file-ignores]\n'{pattern}' = ['XT1']\n",
            "x.py": PUT,
            "tests/deep/y.py": PUT,
            "tests/z.py": PUT,
        }
    )
    assert found(run(root)) == left


def test_files_that_do_not_parse_and_unused_suppressions_can_be_left_out_too(write: Write) -> None:
    root = write(
        {
            "shardlint.toml": "[per-file-ignores]\n'broken.py' = ['SL001']\n'x.py' = ['unused-suppression']\n",
            "broken.py": BROKEN,
            "x.py": "x = 1  # shardlint: ignore[XT101]\n",
        }
    )
    assert found(run(root)) == []


@pytest.mark.parametrize(
    "text", ["select = ['XT999']", "ignore = ['nope']", "[per-file-ignores]\n'a.py' = ['nope']"]
)
def test_unknown_rules_in_the_settings_stop_the_run(write: Write, text: str) -> None:
    with pytest.raises(UnknownRule):
        run(write({"shardlint.toml": text, "x.py": "x = 1\n"}))


def test_invalid_settings_stop_the_run(write: Write) -> None:
    with pytest.raises(BadSettings):
        run(write({"shardlint.toml": "selct = []", "x.py": "x = 1\n"}))


def test_excluded_files_are_not_checked(write: Write) -> None:
    root = write({"shardlint.toml": "exclude = ['gen/']\n", "gen/x.py": PUT, "y.py": PUT})
    assert found(run(root)) == ["y.py:2 XT101"]
    named = run(root / "gen" / "x.py")
    assert (found(named), named.files, len(named.skipped)) == ([], 0, 1)
    assert found(run(root, exclude=("y.py",))) == []


# files that cannot be checked


@pytest.mark.parametrize(
    ("data", "says", "line"),
    [
        (BROKEN.encode(), "cannot parse line 2", 2),
        (b"import jax\nprint jax.device_put\n", "cannot parse line 2", 2),
        (b"import jax\njax.device_put('\xff')\n", "Line 2 is not utf-8", 1),
        (b"# coding: klingon\nimport jax\njax.device_put(1)\n", "Cannot tell the encoding", 1),
        (b"import jax\njax.device_put(1)\0\n", "Line 2 holds a NUL byte", 1),
        (b"import jax\njax.device_put(" + b"(" * 3000 + b")" * 3000 + b")\n", "", None),
        (b"import jax\njax.device_put(" + b"-" * 100_000 + b"1)\n", "nested too deeply", 1),
    ],
)
def test_a_file_that_cannot_be_checked_is_told_and_the_others_are_checked(
    write: Write, data: bytes, says: str, line: int | None
) -> None:
    root = write({"a.py": PUT, "b.py": data, "c.py": PUT})
    report = run(root)
    codes = [entry.partition(" ")[2] for entry in found(report)]
    assert codes == ["XT101", "SL001", "XT101"]
    (finding,) = next(file for file in report.reports if file.path.name == "b.py").findings
    assert says in finding.message
    assert "Nothing in the file was checked." in finding.message
    assert "\n" not in finding.message
    if line is not None:
        assert found(report)[1] == f"b.py:{line} SL001"
    assert [path.name for path, _ in report.skipped] == ["b.py"]
    assert report.files == 3


def test_syntax_of_a_newer_python_is_told_from_broken_syntax(
    write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    import ast

    def old(*args: object, **kwargs: object) -> ast.Module:
        raise SyntaxError("invalid syntax", ("x.py", 2, 1, "type X = int"))

    monkeypatch.setattr(ast, "parse", old)
    (file,) = run(write({"x.py": "import jax\ntype X = jax.device_put\n"})).reports
    assert (
        "a newer Python can parse it: run shardlint with the Python the project uses"
        in file.findings[0].message
    )
    (file,) = run(write({"x.py": "import jax\ntype X = = jax.device_put\n"})).reports
    assert "newer" not in file.findings[0].message


@pytest.mark.parametrize("text", ["'\\N{NO SUCH}'", "'\\x0'", "b'é'", "'\\u12'", "b'\\x0'"])
def test_what_is_wrong_in_a_string_no_newer_python_can_parse(write: Write, text: str) -> None:
    (file,) = run(write({"x.py": f"import jax\njax.device_put({text})\n"})).reports
    assert file.findings[0].rule.code == "SL001" and "newer" not in file.findings[0].message


def test_a_long_sum_is_no_trouble(write: Write) -> None:
    text = "import jax\nx = " + " + ".join(["jax.device_put(1)"] * 400) + "\n"
    assert len(found(run(write({"x.py": text})))) == 400


def test_a_huge_line_is_no_trouble(write: Write) -> None:
    data = ", ".join(["'漢'"] * 100_000)
    text = f"import jax\nx = [{data}, jax.device_put(1), jax.device_put(2)]\n"
    report = run(write({"x.py": text}))
    columns = [file.source.position(f.start)[1] for file in report.reports for f in file.findings]
    assert columns == [text.index("jax.dev") - 10, text.rindex("jax.dev") - 10]


def test_files_nothing_is_asked_of_are_not_parsed(write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    import ast

    monkeypatch.setattr(ast, "parse", lambda *a, **k: pytest.fail("parsed"))
    report = run(write({"x.py": "import torch\nprint 'old', device_putter, my_device_put\n"}))
    assert (found(report), report.files) == ([], 1)


def test_a_file_that_vanishes_is_told(write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    import shardlint.checker as checking
    from shardlint.sources.text import Unreadable, read_bytes

    def read(path: Path) -> bytes:
        if path.name == "b.py":
            raise Unreadable("no such file")
        return read_bytes(path)

    monkeypatch.setattr(checking, "read_bytes", read)
    report = run(write({"a.py": PUT, "b.py": PUT, "c.py": PUT}))
    assert found(report) == ["a.py:2 XT101", "b.py:1 SL001", "c.py:2 XT101"]


def test_a_rule_with_a_bug_stops_nothing_else(write: Write) -> None:
    report = run(write({"a.py": "import numpy as np\nnp.exp(1)\n", "b.py": PUT}))
    assert found(report) == ["b.py:2 XT101"]
    ((path, reason),) = report.skipped
    assert path.name == "a.py"
    assert "XT206 at line 2: KeyError" in reason
    assert "report" in reason


def test_missing_paths_are_told(write: Write) -> None:
    root = write({"a.py": PUT})
    report = run(root / "no.py", root / "a.py")
    assert (report.missing, found(report)) == ([root / "no.py"], ["a.py:2 XT101"])


def test_a_file_named_twice_is_checked_once(write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    root = write({"a.py": PUT, "b.py": PUT})
    monkeypatch.chdir(root)
    report = check([Path("a.py"), Path(), Path("a.py"), root / "a.py"], Options())
    assert (report.files, found(report)) == (2, ["a.py:2 XT101", "b.py:2 XT101"])


def test_text_from_elsewhere_is_checked_in_the_place_of_a_file(write: Write) -> None:
    root = write(
        {"a.py": "x = 1\n", "b.py": "from jax import device_put\n", "shardlint.toml": "ignore = ['XT102']\n"}
    )
    report = check(
        [],
        Options(),
        (root / "a.py", b"import numpy as np\nfrom b import device_put\ndevice_put(np.array(1))\n"),
    )
    assert found(report) == ["a.py:3 XT101"]
    broken = check([], Options(), (root / "a.py", b"import jax\njax.device_put('\xff')\n"))
    assert found(broken) == ["a.py:1 SL001"]


# fixes of suppressions


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("x = 1  # shardlint: ignore[XT101] why\n", "x = 1\n"),
        ("x = 1  # shardlint: ignore[XT101] see #12  # noqa: E1\n", "x = 1  # noqa: E1\n"),
        ("x = 1  # noqa: E1  # shardlint: ignore[XT101]\n", "x = 1  # noqa: E1\n"),
        ("x = 1  # shardlint: ignore[XT101]# noqa: E1\n", "x = 1  # noqa: E1\n"),
        ("# shardlint: ignore-file[XT101]\nx = 1\n", "x = 1\n"),
        ("if x:\n    # shardlint: ignore\n    y = 1\n", "if x:\n    y = 1\n"),
        ("x = 1  # shardlint: ignore[XT101]", "x = 1"),
        ("x = 1  # shardlint: ignore[XT101]\r\ny = 2\r\n", "x = 1\r\ny = 2\r\n"),
        (
            "import jax\njax.device_put(1)  # shardlint: ignore[XT101, XT103] why\n",
            "import jax\njax.device_put(1)  # shardlint: ignore[XT101] why\n",
        ),
    ],
)
def test_an_unused_suppression_is_taken_away(write: Write, before: str, after: str) -> None:
    from shardlint.fix import fix

    root = write({"x.py": before.encode()})
    fix([root], Options(), unsafe=False, write=True)
    assert (root / "x.py").read_bytes().decode() == after
