"""Every format of a report opens in its reader, holds all findings, and goes where it is told to go."""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from shardlint.output import outputs as outs
from shardlint.output.terminal_style import TerminalStyle, look_of
from tests.conftest import Ran
from tests.schemas import jsonschema

Write = Callable[..., Path]
Run = Callable[..., Ran]
SCHEMAS = Path(__file__).parent / "data" / "schemas"
PROGRAM = (
    "import jax\nimport numpy as np\n\n\ndef f():\n    jax.device_put('é|`<b>', 1); np.square(2)\n"
    "    jax.numpy.zeros(\n        1,\n    )\n"
)
CODES = ["XT101", "XT201", "XT103"]


@pytest.fixture
def root(write: Write) -> Path:
    return write({"sub dir/x.py": PROGRAM, "clean.py": "x = 1\n", "requirements.txt": "jax==0.12.0\n"})


def schema(name: str) -> dict[str, object]:
    return json.loads((SCHEMAS / f"{name}.json").read_text("utf-8"))


def out(run: Run, root: Path, format: str) -> str:
    ran = run("check", "--output-format", format, cwd=root)
    assert (ran.code, ran.err) == (1, "")
    return ran.out


def test_sarif_is_valid_and_holds_pages_fixes_and_fingerprints(run: Run, root: Path) -> None:
    document = json.loads(out(run, root, "sarif"))
    jsonschema.Draft4Validator(schema("sarif-2.1.0")).validate(document)
    (one,) = document["runs"]
    assert [result["ruleId"] for result in one["results"]] == CODES
    rules = one["tool"]["driver"]["rules"]
    assert all(rules[result["ruleIndex"]]["id"] == result["ruleId"] for result in one["results"])
    assert all(rule["help"]["markdown"].startswith(f"# {rule['id']} ") for rule in rules)
    names = [result["partialFingerprints"]["shardlint/v1"] for result in one["results"]]
    assert len(set(names)) == 3
    location = one["results"][2]["locations"][0]["physicalLocation"]
    assert location["artifactLocation"] == {"uri": "sub%20dir/x.py", "uriBaseId": "%SRCROOT%"}
    assert location["region"] == {"startLine": 7, "startColumn": 5, "endLine": 9, "endColumn": 6}
    assert [result["level"] for result in one["results"]] == ["error", "warning", "warning"]


def test_the_fix_in_sarif_mends_the_file(run: Run, root: Path) -> None:
    (one,) = json.loads(out(run, root, "sarif"))["runs"]
    (fix,) = one["results"][1]["fixes"]
    lines = PROGRAM.splitlines()
    for each in fix["artifactChanges"][0]["replacements"]:
        region = each["deletedRegion"]
        assert region["startLine"] == region["endLine"]
        line = lines[region["startLine"] - 1]
        text = each["insertedContent"]["text"]
        lines[region["startLine"] - 1] = (
            line[: region["startColumn"] - 1] + text + line[region["endColumn"] - 1 :]
        )
    assert lines[5].endswith("; (2) ** 2")


def test_sarif_opens_in_a_reader_of_sarif(run: Run, root: Path, tmp_path: Path) -> None:
    loader = pytest.importorskip("sarif.loader")
    (tmp_path / "out.sarif").write_text(out(run, root, "sarif"), "utf-8")
    read = loader.load_sarif_file(str(tmp_path / "out.sarif"))
    assert read.get_distinct_tool_names() == ["shardlint"]
    assert read.get_result_count() == 3


def test_a_run_that_was_not_whole_says_so_in_sarif(write: Write, run: Run) -> None:
    root = write({"a.py": "import numpy as np\nnp.exp(1)\n"})
    ran = run("check", "--output-format", "sarif", cwd=root)
    document = json.loads(ran.out)
    jsonschema.Draft4Validator(schema("sarif-2.1.0")).validate(document)
    (invocation,) = document["runs"][0]["invocations"]
    assert (ran.code, invocation["executionSuccessful"]) == (2, False)
    assert "XT206" in invocation["toolExecutionNotifications"][0]["message"]["text"]


_COMMAND = re.compile(r"::(error|warning|notice) (.*?)::(.*)")


def test_github_commands_are_read_back(run: Run, root: Path) -> None:
    found = []
    for line in out(run, root, "github").splitlines():
        match = _COMMAND.fullmatch(line)
        assert match is not None, line
        properties = dict(part.split("=", 1) for part in match[2].split(","))
        found.append((match[1], properties, match[3].replace("%0A", "\n")))
    assert [(kind, p["title"], p["file"], p["line"]) for kind, p, _ in found] == [
        ("error", "XT101 device-put-told", "sub dir/x.py", "6"),
        ("warning", "XT201 square-nested", "sub dir/x.py", "6"),
        ("warning", "XT103 zeros-changed", "sub dir/x.py", "7"),
    ]
    assert "col" not in found[2][1]  # of several lines GitHub takes no columns
    assert "Write jnp.ones" in found[2][2] or "Write jax.numpy.ones" in found[2][2]


def test_github_escapes_what_would_end_a_command(write: Write, run: Run) -> None:
    root = write({"a,b:c%.py": "import jax\njax.device_put(1)\n"})
    (line,) = run("check", "--output-format", "github", cwd=root).out.splitlines()
    assert ",file=a%2Cb%3Ac%25.py,line=2," in line


def test_gitlab_is_what_gitlab_asks_for(run: Run, root: Path) -> None:
    issues = json.loads(out(run, root, "gitlab"))
    # https://docs.gitlab.com/ci/testing/code_quality/#code-quality-report-format
    wanted = {
        "type": "array",
        "items": {
            "type": "object",
            "required": ["description", "check_name", "fingerprint", "severity", "location"],
            "properties": {
                "description": {"type": "string", "minLength": 1},
                "check_name": {"type": "string"},
                "fingerprint": {"type": "string", "pattern": "^[0-9a-f]+$"},
                "severity": {"enum": ["info", "minor", "major", "critical", "blocker"]},
                "location": {
                    "type": "object",
                    "required": ["path", "lines"],
                    "properties": {
                        "path": {"type": "string", "pattern": "^[^/.]"},
                        "lines": {"type": "object", "required": ["begin"]},
                    },
                },
            },
        },
    }
    jsonschema.Draft202012Validator(wanted).validate(issues)
    assert [issue["check_name"] for issue in issues] == CODES
    assert [issue["severity"] for issue in issues] == ["major", "minor", "minor"]
    assert len({issue["fingerprint"] for issue in issues}) == 3


def test_fingerprints_outlive_moves_and_formatters(write: Write, run: Run) -> None:
    def names(text: str) -> list[str]:
        root = write({"x.py": text})
        return [one["fingerprint"] for one in json.loads(out(run, root, "gitlab"))]

    before = names("import jax\ndef f():\n    return jax.device_put('a', 1)\n")
    assert (
        names(
            'import jax\n\n\ndef f():\n    # moved\n    return jax.device_put(\n        "a",\n        1,\n    )\n'
        )
        == before
    )
    assert names("import jax\ndef f():\n    return jax.device_put('b', 1)\n") != before
    twice = names("import jax\ndef f():\n    jax.device_put(1)\n    jax.device_put(1)\n")
    assert len(set(twice)) == 2


def test_junit_is_read_by_a_reader_of_junit(run: Run, root: Path, tmp_path: Path) -> None:
    junitparser = pytest.importorskip("junitparser")
    (tmp_path / "junit.xml").write_text(out(run, root, "junit"), "utf-8")
    suites = junitparser.JUnitXml.fromfile(str(tmp_path / "junit.xml"))
    assert (suites.tests, suites.failures, suites.errors) == (3, 3, 0)
    cases = [case for suite in suites for case in suite]
    assert [case.result[0].type for case in cases] == CODES
    assert cases[0].classname == "sub dir/x.py"


def test_junit_of_a_clean_run_has_a_case(write: Write, run: Run) -> None:
    from xml.etree.ElementTree import fromstring

    ran = run("check", "--output-format", "junit", cwd=write({"x.py": "x = 1\n"}))
    suites = fromstring(ran.out)
    assert (suites.get("tests"), suites.get("failures"), ran.code) == ("1", "0", 0)
    broken = run(
        "check", "--ignore", "SL001", "--output-format", "junit", cwd=write({"x.py": "import jax\n(\n"})
    )
    assert fromstring(broken.out).get("errors") == "1"


def test_rdjson_is_valid_and_counts_bytes(run: Run, root: Path) -> None:
    document = json.loads(out(run, root, "rdjson"))
    jsonschema.Draft7Validator(schema("rdjson")).validate(document)
    diagnostics = document["diagnostics"]
    assert [one["code"]["value"] for one in diagnostics] == CODES
    line = PROGRAM.splitlines()[5]
    start = diagnostics[1]["location"]["range"]["start"]
    assert start == {"line": 6, "column": len(line[: line.index("np.")].encode()) + 1}
    assert diagnostics[1]["suggestions"][0]["text"] == "(2) ** 2"


def test_jsonl_has_an_object_a_line(run: Run, root: Path) -> None:
    lines = [json.loads(line) for line in out(run, root, "jsonl").splitlines()]
    assert [line["kind"] for line in lines] == ["run", "finding", "finding", "finding"]
    whole = json.loads(out(run, root, "json"))
    assert [{**line, "kind": 0} for line in lines[1:]] == [{**one, "kind": 0} for one in whole["findings"]]


def test_markdown_is_one_table(run: Run, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    markdown = pytest.importorskip("markdown_it").MarkdownIt("gfm-like", {"linkify": False})
    for name, value in (
        ("GITHUB_SERVER_URL", "https://example.org"),
        ("GITHUB_REPOSITORY", "a/b"),
        ("GITHUB_SHA", "0" * 40),
    ):
        monkeypatch.setenv(name, value)
    text = out(run, root, "markdown")
    html = markdown.render(text)
    assert html.startswith("<h3>shardlint: 3 findings in 2 files</h3>")
    assert html.count("<tr>") == 4
    assert f'href="https://example.org/a/b/blob/{"0" * 40}/sub%20dir/x.py#L6"' in html
    assert "<b>" not in html


def test_markdown_fits_a_comment(write: Write, run: Run) -> None:
    root = write({"x.py": "import jax\n" + "jax.device_put(1)\n" * 700})
    text = run("check", "--output-format", "markdown", cwd=root).out
    assert len(text) < 65_536
    assert re.search(r"\d+ more findings: run `shardlint check`", text)


def test_grouped_has_each_file_once(run: Run, root: Path) -> None:
    lines = out(run, root, "grouped").splitlines()
    assert lines[0] == "sub dir/x.py:"
    assert lines[1].startswith("  6:5   XT101 device-put-told [silent, proven] On jax 0.12")


# where it goes


def test_several_formats_at_once(run: Run, root: Path) -> None:
    ran = run(
        "check", "--output-format", "sarif=out.sarif", "--output-format", "concise",
        "--output-format", "junit=out.xml", cwd=root,
    )  # fmt: skip
    assert (ran.code, ran.err, ran.out.count("XT")) == (1, "", 3)
    assert len(json.loads((root / "out.sarif").read_text())["runs"][0]["results"]) == 3
    assert (root / "out.xml").read_text().startswith("<?xml")


def test_a_file_in_place_of_standard_output(run: Run, root: Path) -> None:
    ran = run("check", "--output-format", "json", "--output-file", "out.json", cwd=root)
    assert (ran.code, ran.out, ran.err) == (1, "", "")
    assert len(json.loads((root / "out.json").read_text())["findings"]) == 3


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--output-format", "serif"], "there is no format 'serif'; did you mean sarif?"),
        (["--output-format", "yaml"], "there are full, concise, grouped"),
        (["--output-format", "json", "--output-format", "sarif"], "would both go to standard output"),
        (["--output-format", "json="], "write json=FILE"),
        (["--output-format", "json=a", "--output-format", "sarif=a"], "go to the same file"),
        (["--output-format", "json=a", "--output-file", "b"], "of several write each as FORMAT=FILE"),
        (["--output-format", "json=no/such/folder"], "no/such/folder: cannot be written: No such file"),
        (["--output-format", "json", "--statistics"], "--statistics works only with the formats full"),
    ],
)
def test_what_cannot_be_done_is_told(run: Run, root: Path, arguments: list[str], says: str) -> None:
    ran = run("check", *arguments, cwd=root)
    assert (ran.code, ran.out) == (2, "")
    assert says in ran.err


@pytest.mark.parametrize("format", outs.FORMATS)
def test_every_format_takes_odd_names_and_texts(write: Write, run: Run, format: str) -> None:
    root = write(
        {"a\n\x1b]0;x\x07.py": "import jax\njax.device_put('\x0c\u202e')\n", "b.py": "import jax\n(\n"}
    )
    ran = run("check", "--output-format", format, cwd=root)
    assert ran.code == 1
    assert "\x1b" not in ran.out
    assert "Traceback" not in ran.err


# how it looks


def test_nothing_of_a_terminal_goes_into_a_pipe(
    run: Run, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    ran = run("check", cwd=root)
    assert "\x1b" not in ran.out
    assert run("check", "--color", "always", cwd=root).out.count("\x1b[") > 10
    monkeypatch.setenv("FORCE_COLOR", "1")
    coloured = run("check", cwd=root).out
    assert re.sub(r"\x1b\[[\d;]*m", "", coloured) == ran.out
    monkeypatch.setenv("NO_COLOR", "1")
    assert run("check", cwd=root).out == ran.out
    assert run("check", "--color", "never", cwd=root).out == ran.out


@pytest.mark.skipif(not hasattr(os, "openpty"), reason="no terminals here")
@pytest.mark.parametrize("columns", [50, 100])
def test_a_terminal_gets_colours_links_and_its_width(root: Path, columns: int) -> None:
    shown = in_terminal(["check"], root, columns)
    assert f"\x1b]8;;{(root / 'sub dir' / 'x.py').as_uri()}\x1b\\" in shown
    assert "\x1b[1;31mXT101\x1b[0m" in shown
    plain = re.sub(r"\x1b\]8;;.*?\x1b\\|\x1b\[[\d;]*m", "", shown)
    prose = [line for line in plain.splitlines() if line.startswith("   ") and "|" not in line]
    assert prose and max(map(len, prose)) <= columns


@pytest.mark.skipif(not hasattr(os, "openpty"), reason="no terminals here")
def test_how_far_it_is_is_said_where_it_takes_long(root: Path) -> None:
    slow = (
        "import shardlint.engine.progress as p, sys; p._SILENT = p._AGAIN = 0.0; sys.argv[0] = 'shardlint';"
        "from shardlint.cli.main import start; start()"
    )
    shown = in_terminal(["check", "--no-cache"], root, 80, code=slow)
    assert "\rchecked 1 of 2 files" in shown
    assert "\rchecked 2 of 2 files" in shown


def in_terminal(arguments: list[str], root: Path, columns: int, code: str = "") -> str:
    """Return the output of the command in a terminal of so many columns."""
    import fcntl
    import struct
    import subprocess
    import termios

    from tests.conftest import PACK

    above, below = os.openpty()
    fcntl.ioctl(below, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
    left_out = ("COLUMNS", "NO_COLOR", "FORCE_COLOR", "CI", "TERM_PROGRAM", "VSCODE_PID")
    environ = {name: value for name, value in os.environ.items() if name not in left_out}
    begun = subprocess.Popen(
        [sys.executable, *(["-c", code] if code else ["-m", "shardlint"]), *arguments, "--select", "XT"],
        cwd=root,
        stdin=subprocess.DEVNULL,
        stdout=below,
        stderr=below,
        env={**environ, "PYTHONPATH": str(PACK), "TERM": "xterm-256color"},
    )
    os.close(below)
    said = b""
    while True:
        try:
            more = os.read(above, 65536)
        except OSError:  # the other end is closed
            break
        if not more:
            break
        said += more
    os.close(above)
    assert begun.wait(60) == 1, said
    return said.decode().replace("\r\n", "\n")


def test_prose_is_wrapped_and_code_cut() -> None:
    look = TerminalStyle(width=44)
    assert max(map(len, look.wrap_prose("word " * 12))) <= 44
    assert look.code_width == 40
    assert look_of(sys.stderr, "never") == TerminalStyle(width=look_of(sys.stderr, "never").width)
