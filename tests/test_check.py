"""From files to findings: which rules run, where settings hold, and what becomes of files that cannot be checked."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from shardlint.config.certainty import Certainty
from shardlint.config.settings import BadSettings
from shardlint.config.targets import KNOWN
from shardlint.engine import one_file, rule_limit
from shardlint.engine.results import Options, Report
from shardlint.engine.run import check_paths
from shardlint.rules_api import registry
from shardlint.rules_api.registry import UnknownRule, codes_matching, import_rules, rule_entries, select_rules
from shardlint.rules_api.rule import Finding, Rule
from shardlint.rules_api.site import Site
from shardlint.source.packs import BrokenPack
from tests.conftest import PACK, Ran

Write = Callable[..., Path]
pytestmark = pytest.mark.usefixtures("pack")

PUT = "import jax\njax.device_put(1)\n"
BROKEN = "import jax\njax.device_put(\n"


def found(report: Report) -> list[str]:
    return [
        f"{file.path.name}:{file.source.position_of(finding.start)[0]} {finding.rule.code}"
        for file in report.reports
        for finding in file.findings
    ]


def run(*paths: Path, **options: object) -> Report:
    return check_paths(paths, Options(**options))


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
        (["XT2"], ["XT201", "XT202", "XT203", "XT204", "XT205", "XT206", "XT207", "XT208", "XT209", "XT210"]),
        (["asarray-moved"], ["XT102"]),
        (["silent"], ["XT101"]),
        (["Silent"], ["XT101"]),
        (["removed", "XT101"], ["XT101", "XT102", "XT107"]),
        (["XT105"], ["XT105"]),
        (["max-quiet"], ["XT105"]),
    ],
)
def test_rules_are_chosen_by_code_prefix_name_and_harm(chosen: list[str], codes: list[str]) -> None:
    assert [rule.code for rule in select_rules(chosen, ())] == codes


def test_all_are_all_and_the_default_leaves_some_out() -> None:
    going = [code for code in rule_entries() if rule_entries()[code].load_rule().deprecated]
    assert going == ["XT108"]
    every = [code for code in rule_entries() if code not in going]
    assert [rule.code for rule in select_rules(["all"], ())] == every
    assert [rule.code for rule in select_rules(["ALL"], ())] == every
    left_out = set(rule_entries()) - {rule.code for rule in select_rules([], ())}
    assert left_out == {"XT105", "XT108", "XT401", "XT402", "XT403", "SL003"}


def test_ignoring_wins() -> None:
    assert [rule.code for rule in select_rules(["XT1"], ["XT101", "removed", "max-quiet"])] == [
        "XT103",
        "XT104",
        "XT106",
    ]


@pytest.mark.parametrize(
    ("selector", "hint"),
    [
        ("XT999", "did you mean XT101, XT102, XT103?"),
        ("QQ1", "lists them"),
        ("XT10l", "did you mean XT10"),
        ("asarray-move", "asarray-moved"),
        ("silnt", "silent"),
        ("xt901", "XT101"),
        ("", "lists them"),
        ("nonsense!", "lists them"),
    ],
)
def test_what_is_no_rule_is_told_with_what_is_near(selector: str, hint: str) -> None:
    with pytest.raises(UnknownRule) as error:
        list(codes_matching([selector]))
    assert repr(selector) in str(error.value)
    assert hint in str(error.value)


def test_harm_narrows_and_pedantic_widens(write: Write) -> None:
    text = "import jax\nimport numpy as np\njax.device_put(1)\njax.numpy.sum(1)\nnp.asarray(1)\njax.numpy.max(1)\n"
    root = write({"x.py": text})
    assert found(run(root)) == ["x.py:3 XT101", "x.py:5 XT102"]
    assert found(run(root, harm=("silent",))) == ["x.py:3 XT101"]
    assert found(run(root, certainty=Certainty.POSSIBLE)) == ["x.py:3 XT101", "x.py:4 XT104", "x.py:5 XT102"]
    assert found(run(root, select=("XT1",))) == ["x.py:3 XT101", "x.py:5 XT102", "x.py:6 XT105"]


def test_a_rule_is_silent_where_it_does_not_hold(write: Write) -> None:
    root = write({"x.py": "import numpy as np\nnp.cos(1)\n"})
    assert found(run(root, targets={"jax": "0.8"})) == []
    assert found(run(root, targets={"jax": "0.4.38"})) == ["x.py:2 XT106"]


def test_packs_may_not_claim_the_same_code(monkeypatch: pytest.MonkeyPatch) -> None:
    import shardlint_testpack

    monkeypatch.setitem(shardlint_testpack.RULES, "SL001", "shardlint_testpack:Told")
    registry.forget_packs()
    with pytest.raises(BrokenPack, match="SL001 is claimed by"):
        rule_entries()


def test_a_pack_whose_table_is_wrong_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    import shardlint_testpack

    monkeypatch.setitem(shardlint_testpack.RULES, "XT999", "shardlint_testpack:Told")
    registry.forget_packs()
    with pytest.raises(BrokenPack, match="shardlint_testpack:Told is not the rule XT999"):
        import_rules()


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
    assert [targets.versions_by_package()["jax"] for targets in report.targets.values()] == ["0.4.38"]
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
        (b"import jax\njax.device_put(1)\0\n", "Line 2 contains a NUL byte", 1),
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
        "a newer Python can parse it: run shardlint with the project's Python"
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
    columns = [file.source.position_of(f.start)[1] for file in report.reports for f in file.findings]
    assert columns == [text.index("jax.dev") - 10, text.rindex("jax.dev") - 10]


def test_files_nothing_is_asked_of_get_no_tree(write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    import shardlint.syntax.file as facts

    monkeypatch.setattr(facts, "parse_module", lambda _: pytest.fail("parsed"))
    report = run(write({"x.py": "import torch\nprint('new', device_putter, my_device_put)\n"}))
    assert (found(report), report.files) == ([], 1)


@pytest.mark.parametrize(
    "text", ["def f(:\n", "import torch\nprint 'old'\n", "\udcff".encode("utf-8", "surrogatepass")]
)
def test_a_file_that_cannot_be_read_is_told_whatever_it_says(
    write: Write, text: str | bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = write({"x.py": text})
    monkeypatch.setenv("SHARDLINT_CACHE_DIR", str(folder / "cache"))
    for _ in range(3):
        report = check_paths([folder / "x.py"], Options(), cached=True)
        assert [codes.split()[-1] for codes in found(report)] == ["SL001"]


def test_a_file_that_vanishes_is_told(write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    import shardlint.engine.one_file as checking
    from shardlint.source.text import Unreadable, read_bytes

    def read(path: Path, named: bool = False) -> bytes:
        if path.name == "b.py":
            raise Unreadable("no such file")
        return read_bytes(path, named)

    monkeypatch.setattr(checking, "read_bytes", read)
    report = run(write({"a.py": PUT, "b.py": PUT, "c.py": PUT}))
    assert found(report) == ["a.py:2 XT101", "b.py:1 SL001", "c.py:2 XT101"]


def test_a_rule_with_a_bug_stops_nothing_else(write: Write) -> None:
    report = run(write({"a.py": "import numpy as np\nnp.exp(1)\n", "b.py": PUT}))
    assert found(report) == ["b.py:2 XT101"]
    ((path, (code, reason)),) = report.faults
    assert (path.name, code) == ("a.py", "XT206")
    assert reason.startswith(
        "XT206 (rule pack 'shardlint_testpack' of shardlint-testpack 1.0) failed at line 2: "
    )
    assert "KeyError: 'a bug in a rule'. Its findings in this file are missing" in reason
    assert report.failed and not report.skipped


def test_a_rule_that_fails_loses_its_own_findings_in_that_file_only(
    write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    faulty = rule_entries()["XT206"].load_rule()

    def sometimes(self: Rule, site: Site) -> Iterator[Finding]:
        if site.text(site.call.args[0]) == "2":
            raise OSError("gone")
        yield site.finding(site.call, "told")

    monkeypatch.setattr(faulty, "check", sometimes)
    text = "import numpy as np\nnp.exp(1)\nnp.asarray(1)\nnp.exp(2)\nnp.exp(3)\nnp.asarray(2)\n"
    report = run(write({"a.py": text, "b.py": "import numpy as np\nnp.exp(1)\n"}))
    assert found(report) == ["a.py:3 XT102", "a.py:6 XT102", "b.py:2 XT206"]
    ((_, (_, reason)),) = report.faults
    assert "failed at line 4: OSError: gone" in reason


class Panic(BaseException):
    pass


def throw(error: BaseException) -> object:
    raise error


@pytest.mark.parametrize(
    "wrong",
    [
        pytest.param(lambda site: [None], id="no-finding"),
        pytest.param(lambda site: [Finding(site.rule, 5, 1, "a", "b")], id="turned-around"),
        pytest.param(lambda site: [Finding(site.rule, 0, 10_000, "a", "b")], id="beyond-the-end"),
        pytest.param(lambda site: sys.exit(0), id="leaves"),
        pytest.param(lambda site: (lambda f: f(f))(lambda f: f(f)), id="without-end"),
        pytest.param(lambda site: 1, id="no-iterator"),
        pytest.param(lambda site: throw(GeneratorExit()), id="generator-exit"),
        pytest.param(lambda site: throw(Panic("as pyo3 raises")), id="panic"),
        pytest.param(lambda site: (throw(Panic("late")) for _ in "x"), id="panics-in-a-generator"),
        pytest.param(lambda site: throw(asyncio.CancelledError()), id="cancelled"),
    ],
)
def test_whatever_a_rule_does_wrong_is_its_own_loss(
    write: Write, monkeypatch: pytest.MonkeyPatch, wrong: Callable[[Site], object]
) -> None:
    monkeypatch.setattr(rule_entries()["XT206"].load_rule(), "check", lambda self, site: wrong(site))
    report = run(write({"a.py": "import numpy as np\nnp.exp(1)\nnp.asarray(1)\n"}))
    assert found(report) == ["a.py:3 XT102"]
    assert [fault.code for _, fault in report.faults] == ["XT206"]


def _waits(site: Site) -> Iterator[Finding]:
    if site.text(site.call.args[0]) == "2":
        threading.Event().wait()
    yield site.finding(site.call, "told")


def _runs_on(site: Site) -> Iterator[Finding]:
    while site.text(site.call.args[0]) == "2":
        try:
            list(range(1000))
        except Exception:  # what stops it is no `Exception`
            continue
    yield site.finding(site.call, "told")


@pytest.mark.skipif(sys.platform == "win32", reason="limits are kept by a signal")
@pytest.mark.parametrize("without_end", [_waits, _runs_on])
def test_a_rule_without_end_is_stopped_in_that_file_only(
    write: Write, monkeypatch: pytest.MonkeyPatch, without_end: Callable[[Site], Iterator[Finding]]
) -> None:
    before = signal.getsignal(signal.SIGALRM)
    monkeypatch.setattr(one_file, "SECONDS", 0.2)
    monkeypatch.setattr(rule_limit, "SECONDS", 0.2)
    monkeypatch.setattr(rule_entries()["XT206"].load_rule(), "check", lambda self, site: without_end(site))
    text = "import numpy as np\nnp.exp(1)\nnp.asarray(1)\nnp.exp(2)\n"
    report = run(write({"a.py": text, "b.py": "import numpy as np\nnp.exp(1)\n"}))
    assert found(report) == ["a.py:3 XT102", "b.py:2 XT206"]
    ((path, (code, reason)),) = report.faults
    assert (path.name, code) == ("a.py", "XT206")
    assert "was stopped at line 4 after 0.2 seconds" in reason
    assert report.failed and report.is_incomplete
    assert signal.getsignal(signal.SIGALRM) is before
    assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)



def test_no_suppression_is_called_unused_where_a_rule_failed(write: Write) -> None:
    text = "import numpy as np\nnp.exp(1)  # shardlint: ignore[XT206] why\nnp.cos(1)  # shardlint: ignore[XT102] why\n"
    report = run(write({"a.py": text}))
    assert found(report) == []
    assert [fault.code for _, fault in report.faults] == ["XT206"]


def test_what_rests_on_a_failure_is_not_remembered(write: Write) -> None:
    root = write({"a.py": "import numpy as np\nnp.exp(1)\nnp.asarray(1)\n"})
    for _ in range(2):
        report = check_paths([root], Options(), cached=True)
        assert (found(report), len(report.faults)) == (["a.py:3 XT102"], 1)


def test_missing_paths_are_told(write: Write) -> None:
    root = write({"a.py": PUT})
    report = run(root / "no.py", root / "a.py")
    assert (report.missing, found(report)) == ([root / "no.py"], ["a.py:2 XT101"])


def test_a_file_named_twice_is_checked_once(write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    root = write({"a.py": PUT, "b.py": PUT})
    monkeypatch.chdir(root)
    report = check_paths([Path("a.py"), Path(), Path("a.py"), root / "a.py"], Options())
    assert (report.files, found(report)) == (2, ["a.py:2 XT101", "b.py:2 XT101"])


def test_text_from_elsewhere_is_checked_in_the_place_of_a_file(write: Write) -> None:
    root = write(
        {"a.py": "x = 1\n", "b.py": "from jax import device_put\n", "shardlint.toml": "ignore = ['XT102']\n"}
    )
    report = check_paths(
        [],
        Options(),
        (root / "a.py", b"import numpy as np\nfrom b import device_put\ndevice_put(np.array(1))\n"),
    )
    assert found(report) == ["a.py:3 XT101"]
    broken = check_paths([], Options(), (root / "a.py", b"import jax\njax.device_put('\xff')\n"))
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
    from shardlint.rewrite.fix import fix_files

    root = write({"x.py": before.encode()})
    fix_files([root], Options(), unsafe=False, write=True)
    assert (root / "x.py").read_bytes().decode() == after


PROD = "import jax.numpy as jnp\njnp.prod()\njnp.prod(1)\njnp.prod(1, 2)\n"


@pytest.mark.parametrize(
    ("settings", "asked", "lines"),
    [
        ("", None, [2, 4]),
        ("", Certainty.PROVEN, [2]),
        ("", Certainty.LIKELY, [2, 4]),
        ("", Certainty.POSSIBLE, [2, 3, 4]),
        ("certainty = 'proven'\n", None, [2]),
        ("certainty = 'proven'\n", Certainty.POSSIBLE, [2, 3, 4]),
        ("pedantic = true\n", None, [2, 3, 4]),
        ("pedantic = true\n", Certainty.PROVEN, [2]),
    ],
)
def test_what_is_sure_enough_is_reported(
    write: Write, settings: str, asked: Certainty | None, lines: list[int]
) -> None:
    root = write({"x.py": PROD, "shardlint.toml": settings})
    assert found(run(root, select=("XT301",), certainty=asked)) == [f"x.py:{line} XT301" for line in lines]


def test_a_finding_has_its_form_and_why_it_is_believed(write: Write) -> None:
    report = run(write({"x.py": PROD}), select=("XT301",), certainty=Certainty.POSSIBLE)
    told = [(f.certainty, f.form, f.why) for file in report.reports for f in file.findings]
    assert told == [
        ("proven", "", "0 arguments"),
        ("possible", "one", "1 arguments"),
        ("likely", "two", "2 arguments"),
    ]


def test_a_rule_that_finds_nothing_so_sure_is_not_run(write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    from shardlint.rules_api.registry import rule_entries

    asked: list[str] = []
    perhaps = rule_entries()["XT104"].load_rule()
    monkeypatch.setattr(perhaps, "check", lambda self, site: asked.append("XT104") or iter(()))
    root = write({"x.py": "import jax\njax.numpy.sum(1)\n"})
    for certainty in (None, Certainty.PROVEN, Certainty.LIKELY):
        run(root, certainty=certainty)
    assert asked == []
    run(root, certainty=Certainty.POSSIBLE)
    assert asked == ["XT104"]
    monkeypatch.setattr(perhaps, "likely", ("",))
    registry.forget_packs()
    run(root)
    assert asked == ["XT104"] * 2


# the engine's own rules, chosen by name

TOLD = {
    "used.py": "import jax\njax.device_put(1)  # shardlint: ignore[XT101]\n",
    "unused.py": "import jax\nx = 1  # shardlint: ignore[XT101] why\n",
    "broken.py": BROKEN,
    "bad.py": PUT,
}
PUT_FOUND = "bad.py:2 XT101"
UNUSED, TORN, REASON = "unused.py:2 SL002", "broken.py:2 SL001", "used.py:2 SL003"


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, [PUT_FOUND, TORN, UNUSED]),
        ({"select": ("SL0",)}, [TORN, UNUSED, REASON]),
        ({"select": ("SL",)}, [TORN, UNUSED, REASON]),
        ({"select": ("sl0",)}, [TORN, UNUSED, REASON]),
        ({"select": ("SL002",)}, [UNUSED]),
        ({"select": ("unused-suppression",)}, [UNUSED]),
        ({"select": ("SL001",)}, [TORN]),
        ({"select": ("SL003",)}, [REASON]),
        ({"select": ("SL00", "XT101")}, [PUT_FOUND, TORN, UNUSED, REASON]),
        ({"select": ("all",)}, [PUT_FOUND, TORN, UNUSED, REASON]),
        ({"select": ("XT101",)}, [PUT_FOUND]),
        ({"ignore": ("SL0",)}, [PUT_FOUND]),
        ({"ignore": ("SL002",)}, [PUT_FOUND, TORN]),
        ({"ignore": ("SL",), "select": ("all",)}, [PUT_FOUND]),
        ({"ignore": ("all",)}, []),
        ({"harm": ("cost",)}, [UNUSED]),
        ({"harm": ("crash",)}, [TORN]),
    ],
)
@pytest.mark.parametrize("written", ["command line", "settings"])
def test_the_engine_s_own_rules_are_chosen_as_any(
    write: Write, options: dict[str, tuple[str, ...]], expected: list[str], written: str
) -> None:
    if written == "settings" and "harm" in options:
        return
    root = write(TOLD)
    if written == "settings":
        lines = [f"{key} = {list(value)}\n" for key, value in options.items()]
        (root / "shardlint.toml").write_text("".join(lines))
        options = {}
    assert found(run(root, **options)) == sorted(expected)


def test_own_rules_are_left_out_by_file_too(write: Write) -> None:
    root = write(
        {**TOLD, "shardlint.toml": "per-file-ignores = {'unused.py' = ['SL0'], 'broken.py' = ['SL']}\n"}
    )
    assert found(run(root)) == ["bad.py:2 XT101"]


@pytest.mark.parametrize(
    ("setting", "key"),
    [
        ("select = ['XT1O1']", "select"),
        ("ignore = ['XT1O1']", "ignore"),
        ("per-file-ignores = {'a.py' = ['XT1O1']}", "per-file-ignores.a.py"),
    ],
)
def test_an_unknown_rule_in_settings_names_file_and_setting(write: Write, setting: str, key: str) -> None:
    root = write({"shardlint.toml": setting, "x.py": PUT})
    for cached in (False, True):
        with pytest.raises(UnknownRule) as error:
            check_paths([root], Options(), cached=cached)
        assert str(error.value).startswith(
            f"{root / 'shardlint.toml'}: {key}: no rule, prefix, name or harm is"
        )
        assert "did you mean XT101" in str(error.value)


# files that are named


@pytest.mark.parametrize(
    ("name", "data", "says"),
    [
        ("a.py", b"def f(:\n", "cannot parse line 1"),
        ("a.py", b"import jax\ndef f():\n    return jax.device_put(1, (\n", "cannot parse line 3"),
        ("script", b"#!/bin/sh\necho one two\n", "cannot parse line 2"),
        ("a.py", b"\n\nx = '\xff'\n", "line 3 is not utf-8"),
        ("a.py", b"\x7fELF\0\1", "line 1 contains a NUL byte"),
        ("program", b"\x7fELF\0\1", "line 1 contains a NUL byte"),
        ("a.ipynb", b"{", "is not a notebook"),
        ("README.md", b"jax\n", "it is text, not Python"),
        ("data.JSON", b"{}", "it is data, not Python"),
    ],
)
def test_a_named_file_that_cannot_be_checked_is_no_success(
    write: Write, run: Callable[..., Ran], name: str, data: bytes, says: str
) -> None:
    root = write({name: data})
    for chosen in ((), ("--select", "XT101")):
        for _ in range(2):  # the second time from what is remembered
            ran = run("check", *chosen, name, cwd=root)
            assert (ran.code, says in ran.out.replace("Line", "line")) == (2, True), ran.out
            assert "No findings" not in ran.out
            assert ran.out.splitlines()[-1].endswith(", 1 not checked.")
            told = json.loads(run("check", *chosen, name, "--output-format", "json", cwd=root).out)
            assert ([entry["path"] for entry in told["skipped"]], told["files"]) == ([name], 0)
            assert says in told["skipped"][0]["reason"]


def test_a_named_script_without_a_suffix_is_checked(write: Write) -> None:
    root = write({"train": "#!/usr/bin/env python3\n" + PUT})
    assert found(run(root / "train")) == ["train:3 XT101"]


def test_the_other_named_files_are_checked(write: Write, run: Callable[..., Ran]) -> None:
    root = write({"a.py": "x = 1\n", "b.py": "def f(:\n", "c.py": PUT, "README.md": ""})
    ran = run("check", "a.py", "b.py", "c.py", "README.md", cwd=root)
    assert ran.code == 2
    assert ran.out.splitlines()[-1].startswith("2 findings in 2 files, 2 not checked.")


def test_notebooks_in_folders_are_checked(write: Write, run: Callable[..., Ran]) -> None:
    notebooks = {f"n/{number}.ipynb": '{"cells": []}' for number in range(5)}
    root = write({"a.py": "x = 1\n", ".gitignore": "ignored.ipynb\n", "ignored.ipynb": "", **notebooks})
    ran = run("check", cwd=root)
    assert (ran.code, ran.out) == (0, "No findings in 6 files.\n")
    assert run("check", "n", cwd=root).code == 0


@pytest.mark.parametrize("command", ["check", "fix"])
def test_where_there_is_nothing_to_check_is_no_success(
    write: Write, run: Callable[..., Ran], command: str
) -> None:
    root = write({"empty/x.txt": "", "shardlint.toml": "exclude = ['gen/']\n", "gen/a.py": PUT})
    ran = run(command, "empty", cwd=root)
    assert ran.code == 2
    assert "no Python files found" in ran.out + ran.err
    assert run(command, "gen/a.py", cwd=root).code == 0, "pre-commit names files that the settings exclude"
    assert run(command, "gen", cwd=root).code == 2


def test_a_pipe_is_read_once(write: Write, start: Callable[..., object]) -> None:
    root = write({})
    os.mkfifo(root / "pipe.py")
    writer = subprocess.Popen(["sh", "-c", "echo 'import jax; jax.device_put(1)' > pipe.py"], cwd=root)
    done = start("check", "--select", "XT101", "pipe.py", cwd=root)
    writer.wait(60)
    assert (done.returncode, b"XT101" in done.stdout) == (1, True), done.stdout


# releases


def test_releases_that_nothing_pins_are_said_to_be_assumed(write: Write, run: Callable[..., Ran]) -> None:
    root = write({"a/setup.cfg": "", "a/x.py": PUT, "b/setup.cfg": "", "b/x.py": PUT})
    line = f"Checked for jax {KNOWN['jax'][-1]} (assumed: no file pins it)"
    assert f"{line}; --target says another release.\n" in run("check", "a", cwd=root).out
    assert f"{line} in a, b; --target" in run("check", "a", "b", cwd=root).out
    (root / "b" / "requirements.txt").write_text("jax==0.6.2\n")
    assert f"{line} in a; --target" in run("check", "a", "b", "--output-format", "concise", cwd=root).out
    assert "assumed" not in run("check", "b", cwd=root).out
    assert "assumed" not in run("check", "a", "--target", "jax=0.8", cwd=root).out


def test_what_was_assumed_is_said_in_one_line_where_nothing_is_found(
    write: Write, run: Callable[..., Ran]
) -> None:
    clean = "import jax\njax.device_put\n"
    root = write(
        {"a/setup.cfg": "", "a/x.py": clean, "b/setup.cfg": "", "b/x.py": clean, "b/y.py": "y = 1\n"}
    )
    assumed = f"for jax {KNOWN['jax'][-1]} (assumed: no file pins it"
    for _ in range(2):  # with what the first run found
        assert run("check", "a", "b", cwd=root).out == f"No findings {assumed}) in 3 files.\n"
        assert run("check", "b/y.py", cwd=root).out == "No findings in 1 file.\n", "jax is no matter there"
    (root / "b" / "requirements.txt").write_text("jax==0.6.2\n")
    assert run("check", "a", "b", cwd=root).out == f"No findings {assumed} in a) in 3 files.\n"
    assert run("check", "b", cwd=root).out == "No findings in 2 files.\n"
    assert run("check", "a", "--target", "jax=0.8", cwd=root).out == "No findings in 1 file.\n"


def test_json_has_the_releases_of_each_project(write: Write, run: Callable[..., Ran]) -> None:
    root = write(
        {"a/setup.cfg": "", "a/x.py": PUT, "b/setup.cfg": "", "b/x.py": "x = 1\n", "c.py": "x = 1\n"}
    )
    (root / "requirements.txt").write_text("jax<0.9\n")
    (root / "b" / "requirements.txt").write_text("jax==0.6.2\n")
    ranged = {"release": "0.8.3", "source": "newest that <0.9 in requirements.txt allows", "assumed": False}
    told = json.loads(run("check", "--output-format", "json", ".", cwd=root).out)["targets"]
    newest = {"release": KNOWN["jax"][-1], "source": "assumed: no file pins it", "assumed": True}
    pinned = {"release": "0.6.2", "source": "pinned in requirements.txt", "assumed": False}
    assert {folder: targets["jax"] for folder, targets in told.items()} == {
        ".": ranged,
        "a": newest,
        "b": pinned,
    }
    told = json.loads(run("check", "--output-format", "json", "../b", cwd=root / "a").out)["targets"]
    assert list(told) == [(root / "b").as_posix()]


# packs


def _pack(folder: Path, text: str) -> str:
    """A third party's pack that is installed beside the others."""
    (folder / "their_pack.py").write_text(text)
    info = folder / "their_rules-2.5.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: their-rules\nVersion: 2.5\n")
    (info / "entry_points.txt").write_text("[shardlint.rules]\ntheirs = their_pack\n")
    return os.pathsep.join([str(PACK), str(folder)])


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("import not_there\n", "cannot be imported: ModuleNotFoundError: No module named 'not_there'"),
        ("def f(:\n", "cannot be imported: SyntaxError"),
        ("1 / 0\n", "cannot be imported: ZeroDivisionError"),
        ("raise SystemExit(0)\n", "cannot be imported: SystemExit"),
        ("", "has no table RULES"),
        ("RULES = ['TP1']\n", "has no table RULES"),
    ],
)
def test_a_pack_that_cannot_be_imported_is_named(
    tmp_path: Path, write: Write, start: Callable[..., object], text: str, says: str
) -> None:
    path = _pack(tmp_path, text)
    root = write({"x.py": PUT})
    for _ in range(2):
        done = start("check", ".", cwd=root, PYTHONPATH=path)
        assert (done.returncode, done.stdout) == (2, b"")
        assert done.stderr.startswith(f"shardlint: rule pack 'their_pack' of their-rules 2.5 {says}".encode())
        assert b"Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("rule", "says"),
    [
        (
            "nowhere:Rule",
            "cannot load rule TP101 from nowhere:Rule, of rule pack 'their_pack' of their-rules 2.5: No",
        ),
        ("their_pack:Missing", "cannot load rule TP101"),
        (
            "their_pack:Other",
            "is not the rule TP101 that rule pack 'their_pack' of their-rules 2.5 says it is",
        ),
        (
            "their_pack:Nameless",
            "rule TP101 of rule pack 'their_pack' of their-rules 2.5 has no name or no harm",
        ),
        (
            "their_pack:Woken",
            "cannot make rule TP101 of rule pack 'their_pack' of their-rules 2.5: TypeError",
        ),
    ],
)
def test_a_rule_that_is_none_names_its_pack(
    tmp_path: Path, write: Write, start: Callable[..., object], rule: str, says: str
) -> None:
    text = f"""
from shardlint.rules_api.rule import Harm, Rule
RULES = {{"TP101": "{rule}"}}
class Other:
    pass
class Nameless(Rule):
    code = "TP101"
    def check(self, site): return []
class Woken(Nameless):
    name, harm, triggers = "triggered", Harm.COST, ("jax.jit",)
"""
    done = start("check", ".", cwd=write({"x.py": PUT}), PYTHONPATH=_pack(tmp_path, text))
    assert (done.returncode, done.stdout) == (2, b"")
    assert says.encode() in done.stderr
    assert b"Traceback" not in done.stderr


@pytest.mark.parametrize("exclude", ["*", "**", "*.py", "gen/", "/gen"])
def test_a_folder_of_which_all_is_excluded_is_not_checked(write: Write, run: Callable[..., Ran], exclude: str) -> None:
    root = write({"shardlint.toml": f"exclude = ['{exclude}']\n", "gen/a.py": PUT})
    ran = run("check", ".", cwd=root)
    assert ran.code == 2 and "the settings exclude every Python file" in ran.out + ran.err


def _never_stops(site: Site) -> Iterator[Finding]:
    while True:
        try:
            threading.Event().wait()
        except BaseException:
            yield from ()


@pytest.mark.skipif(sys.platform != "linux", reason="a process that is forked")
def test_a_rule_that_catches_what_stops_it_ends_the_run_with_its_name(
    write: Write, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(rule_limit, "SECONDS", 0.1)
    monkeypatch.setattr(rule_limit, "_TICK", 0.05)
    monkeypatch.setattr(rule_entries()["XT206"].load_rule(), "check", lambda self, site: _never_stops(site))
    root = write({"a.py": "import numpy as np\nnp.exp(1)\n"})
    child = os.fork()
    if not child:
        run(root)
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 2
    said = capfd.readouterr().err
    assert "not complete: XT206" in said and "a.py takes too long and does not stop" in said
