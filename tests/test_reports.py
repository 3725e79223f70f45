"""Tests of the reports for people and for programs."""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from shardlint.config.certainty import Certainty
from shardlint.config.targets import PACKAGES
from shardlint.engine.results import Options, Report
from shardlint.engine.run import check_paths
from shardlint.output import json_, text
from shardlint.rules_api.rule import NO_FIX, TOGETHER
from tests.schemas import jsonschema

Write = Callable[..., Path]
pytestmark = pytest.mark.usefixtures("pack")
SCHEMA = json.loads((Path(__file__).parent / "data" / "report.schema.json").read_text("utf-8"))


def report(write: Write, source: str | bytes, name: str = "x.py", **options: object) -> Report:
    root = write({name: source.encode() if isinstance(source, str) else source})
    return check_paths([root / name], Options(targets={"jax": "0.12"}, **options))


def frame(write: Write, source: str, **options: object) -> list[str]:
    """The first finding's frame, without the folder."""
    made = report(write, source, **options)
    folder = str(made.reports[0].path.parent) + "/"
    return next(text.full_report(made)).replace(folder, "").splitlines()


def columns(line: str) -> int:
    return sum(
        0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in line
    )


# frames


def test_nothing_found(write: Write) -> None:
    made = report(write, "x = 1\n")
    assert list(text.full_report(made)) == list(text.render_concise(made)) == ["No findings in 1 file."]
    assert list(text.full_report(check_paths([write({"empty/x.txt": ""}) / "empty"], Options()))) == [
        "Nothing to check: no Python files found."
    ]


def test_a_whole_frame(write: Write) -> None:
    assert frame(write, "import jax.numpy as jnp\n\nx = jnp.zeros(3) + 1\n") == [
        "x.py:3:5: XT103 zeros-changed  [cost, proven]",
        "   On jax 0.12 this is told.",
        "    3 | x = jnp.zeros(3) + 1",
        "      |     ^^^^^^^^^^^^ here",
        "   Write jnp.ones   (unsafe fix: the numbers change)",
    ]


def test_a_likely_finding_says_why_it_is_believed(write: Write) -> None:
    source = "import jax\njax.numpy.prod(1, 2)\n"
    shown = frame(write, source)
    assert shown[0].endswith("XT301 prod-judged  [cost, likely]")
    assert shown[-1] == "   Why: 2 arguments"
    (row,) = json.loads(json_.dump_report(report(write, source)))["findings"]
    assert (row["certainty"], row["form"], row["why"]) == ("likely", "two", "2 arguments")


def test_a_finding_says_how_sure_it_is(write: Write) -> None:
    assert frame(write, "import jax\njax.numpy.sum(1)\n", certainty=Certainty.POSSIBLE)[0].endswith(
        "XT104 sum-perhaps  [cost, possible]"
    )


@pytest.mark.parametrize(
    ("line", "under"),
    [
        ("jax.device_put(1)", "jax.device_put(1)"),
        ("\tif 1: jax.device_put(1)", "jax.device_put(1)"),
        ("x\t=\tjax.device_put(1)", "jax.device_put(1)"),
        ("x = 'äöü→', jax.device_put(1)", "jax.device_put(1)"),
        ("x = '漢字', jax.device_put(1)", "jax.device_put(1)"),
        ("x = 'e\u0301a\u0308', jax.device_put(1)", "jax.device_put(1)"),
        ("x = '\x1b[31m', jax.device_put(1)", "jax.device_put(1)"),
        ("x = '\x07\x7f\x0c', jax.device_put(1)", "jax.device_put(1)"),
        ("x = '\u200b\u202e\u2028', jax.device_put(1)", "jax.device_put(1)"),
        ("x = '漢', jax.device_put('字')", "jax.device_put('字')"),
        ("x = 1; \x0cjax.device_put(1)", "jax.device_put(1)"),
        (f"x = '{'a' * 500}', jax.device_put(1)", "jax.device_put(1)"),
        (f"x = '{'漢' * 500}', jax.device_put(1)", "jax.device_put(1)"),
        (f"jax.device_put(1), '{'a' * 500}'", "jax.device_put(1)"),
    ],
)
def test_the_code_is_underlined_where_it_stands(write: Write, line: str, under: str) -> None:
    before = "import jax\nif 1:\n" if line.startswith("\t") else "import jax\n"
    shown = frame(write, f"{before}{line}\n", select=("XT101",))
    code, marks = shown[2], shown[3]
    assert code.isprintable() and marks.isprintable()
    start = columns(marks[: marks.index("^")])
    assert marks.count("^") == columns(under)
    assert columns(code[: code.index(under)]) == start
    assert len(code) < 260


def test_a_call_over_several_lines_is_underlined_to_the_end_of_its_first(write: Write) -> None:
    shown = frame(write, "import jax\njax.device_put(  \n    1,\n)\n")
    assert shown[2:4] == ["    2 | jax.device_put(  ", "      | ^^^^^^^^^^^^^^^ here"]


def test_a_very_long_argument_is_cut(write: Write) -> None:
    shown = frame(write, f"import jax\njax.device_put('{'a' * 5000}')\n")
    assert all(len(line) < 260 for line in shown[:4])


def test_a_file_that_cannot_be_checked_has_a_frame_too(write: Write) -> None:
    shown = frame(write, "import jax\nx = jax.device_put(\n")
    assert shown[0].startswith("x.py:2:")
    assert shown[0].endswith("SL001 file-not-parsed  [crash, proven]")
    assert "cannot parse line 2" in shown[1]
    assert "Nothing in the file was checked." in shown[1]
    undecodable = next(text.full_report(report(write, b"import jax\njax.device_put('\xff')\n")))
    assert "Line 2 is not utf-8 (byte 0xff)" in undecodable


def test_names_and_code_cannot_steer_a_terminal(write: Write) -> None:
    name = "a\x1b]0;owned\x07\n\u202eb.py"
    made = report(write, "import jax\njax.device_put('\x1b[2J', '\x9b2J')\n", name)
    for lines in (text.full_report(made), text.render_concise(made)):
        for line in "\n".join(lines).split("\n"):
            assert line.isprintable()
    assert "a\\x1b]0;owned\\x07\\x0a\\u202eb.py:2:1" in next(text.render_concise(made))


@pytest.mark.parametrize(
    ("source", "summary"),
    [
        ("import jax\njax.device_put(1)\n", "1 finding in 1 file."),
        ("import numpy as np\nnp.asarray(np.array(1))\n", "2 findings in 1 file. `shardlint fix` fixes 2."),
        ("import jax\njax.numpy.zeros(1)\n", "1 finding in 1 file. `shardlint fix --unsafe-fixes` fixes 1."),
        ("import jax, numpy\njax.numpy.zeros(numpy.array(1))\n",
         "2 findings in 1 file. `shardlint fix` fixes 1. `shardlint fix --unsafe-fixes` fixes 1 more."),
    ],
)  # fmt: skip
def test_the_summary_says_what_fix_would_do(write: Write, source: str, summary: str) -> None:
    assert list(text.full_report(report(write, source)))[-1] == summary


def test_one_line_each(write: Write) -> None:
    made = report(write, "import jax\njax.device_put(1); jax.device_put(2)\n")
    name = str(made.reports[0].path)
    assert list(text.render_concise(made)) == [
        f"{name}:2:1: XT101 device-put-told [silent, proven] On jax 0.12 this is told.",
        f"{name}:2:20: XT101 device-put-told [silent, proven] On jax 0.12 this is told.",
        "2 findings in 1 file.",
    ]


# json


SOURCES = {
    "clean": "x = 1\n",
    "told": "import jax\njax.device_put('ä→漢')\n",
    "fixed": "import numpy as np\nnp.asarray(np.array(1))\n",
    "unsafe": "import jax\njax.numpy.zeros(1)\n",
    "possible": "import jax\njax.numpy.sum(1)\n",
    "broken": "import jax\njax.device_put(\n",
    "lines": "import jax\njax.device_put(\r\n  1,\r\n)\r\n",
    "suppressed": "x = 1  # shardlint: ignore[XT101]\n",
    "own": "import numpy as np\nnp.exp(1)\n",
    "escapes": "import jax\njax.device_put('\x1b[2J')\n",
}


@pytest.mark.parametrize("source", SOURCES.values(), ids=SOURCES)
def test_json_keeps_its_schema(write: Write, source: str) -> None:
    made = report(write, source, certainty=Certainty.POSSIBLE)
    jsonschema.Draft202012Validator(SCHEMA).validate(json.loads(json_.dump_report(made)))


def test_the_schema_itself_is_valid_and_strict() -> None:
    validator = jsonschema.Draft202012Validator
    validator.check_schema(SCHEMA)
    with pytest.raises(jsonschema.ValidationError):
        validator(SCHEMA).validate(
            {"schema": 1, "version": "0", "targets": {}, "findings": [], "skipped": [], "files": 0}
        )


def test_json_says_where_and_what(write: Write) -> None:
    made = report(write, "import numpy as np\nä = '漢', np.asarray(\n  1)\n")
    (finding,) = json_.report_document(made)["findings"]
    place = {key: finding[key] for key in ("line", "column", "end_line", "end_column")}
    assert place == {"line": 2, "column": 10, "end_line": 3, "end_column": 5}
    assert finding["message"] == "On jax 0.12 this is told."
    assert finding["fix"]["safety"] == "safe"


def test_the_edits_in_json_make_the_fix(write: Write) -> None:
    """The edits are applied as an editor does: lines and columns from 1, in characters, applied last first."""
    source = "import numpy as np\nä = '漢', np.asarray(\n  np.pi)\n"
    (finding,) = json_.report_document(report(write, source))["findings"]
    lines = source.splitlines(keepends=True)

    def offset(line: int, column: int) -> int:
        return sum(map(len, lines[: line - 1])) + column - 1

    for edit in sorted(
        finding["fix"]["edits"], key=lambda edit: (edit["line"], edit["column"]), reverse=True
    ):
        start, end = offset(edit["line"], edit["column"]), offset(edit["end_line"], edit["end_column"])
        source = source[:start] + edit["text"] + source[end:]
    assert source == "import jax\nimport numpy as np\nä = '漢', jax.numpy.asarray(\n  np.pi)\n"


def test_json_counts_and_tells_what_was_left_out(write: Write) -> None:
    root = write({"a.py": "x = 1\n", "b.py": "import jax\njax.device_put(\n"})
    document = json_.report_document(check_paths([root, root / "no.py"], Options()))
    assert document["files"] == 1
    told = {Path(entry["path"]).name: entry["reason"] for entry in document["skipped"]}
    assert "cannot parse" in told.pop("b.py")
    assert told == {"no.py": "no such file or directory"}
    assert [set(targets) for targets in document["targets"].values()] == [set(PACKAGES)]


def test_why_nothing_is_rewritten_stands_on_a_line_of_its_own(write: Write) -> None:
    made = report(write, "import jax\njax.device_put(1)\n")
    made.reports = [file.select_findings([replace(one, help="did you mean x?; no automatic fix: the author decides") for one in file.findings])
                    for file in made.reports]  # fmt: skip
    assert next(text.full_report(made)).splitlines()[-2:] == [
        "   Did you mean x?",
        "   Not rewritten: the author decides",
    ]


def test_reasons_of_a_whole_project_do_not_tell_findings_apart(write: Write) -> None:
    made = report(write, "import jax\n" + "jax.device_put(1)\n" * 5)
    made.reports = [
        file.select_findings([replace(one, help=f"move it; {NO_FIX}{TOGETHER}: a.py:{line}: traced") for line, one in enumerate(file.findings)])
        for file in made.reports
    ]  # fmt: skip
    assert "The same in 4 other places" in "\n".join(text.full_report(made))


@pytest.mark.parametrize(
    ("said", "printed"),
    [
        ("write: x = 1", "Write: x = 1"),
        ("jnp.zeros(2) is made there", "jnp.zeros(2) is made there"),
        ("`x` stays", "`x` stays"),
        ("so.", "So."),
    ],
)
def test_code_at_the_beginning_of_a_sentence_stays_code(said: str, printed: str) -> None:
    assert text.as_sentence(said) == printed
