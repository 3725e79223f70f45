"""The command line as a user runs it."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.conftest import PACK, Ran
from tests.schemas import jsonschema

Write = Callable[..., Path]
Run = Callable[..., Ran]
Start = Callable[..., "subprocess.CompletedProcess[bytes]"]

PUT = "import jax\njax.device_put(1)\n"
FIXABLE = "import numpy as np\nnp.square(1)\n"
LEFT = """\
x.py:2:1: XT101 device-put-told  [silent, proven]
   On jax 0.12 this is told.
    2 | jax.device_put(1)
      | ^^^^^^^^^^^^^^^^^ here"""
UNSAFE = """\
x.py:2:1: XT103 zeros-changed  [cost, proven]
   On jax 0.12 this is told.
    2 | jax.numpy.zeros(1)
      | ^^^^^^^^^^^^^^^^^^ here
   Write jax.numpy.ones   (unsafe fix: the numbers change)
   `shardlint fix --unsafe-fixes` fixes it."""
SCHEMA = json.loads((Path(__file__).parent / "data" / "report.schema.json").read_text("utf-8"))


def shown(ran: Ran) -> list[str]:
    return [line.split(" ")[1] for line in ran.out.splitlines() if ": XT" in line or ": SL" in line]


# exit codes


@pytest.mark.parametrize(
    ("files", "arguments", "code"),
    [
        pytest.param({}, [], 2, id="no-files"),
        pytest.param({"x.py": "x = 1\n"}, [], 0, id="clean"),
        pytest.param({"x.py": PUT}, [], 1, id="finding"),
        pytest.param({"x.py": PUT}, ["--ignore", "XT101"], 0, id="ignored"),
        pytest.param({"x.py": PUT}, ["--select", "XT103"], 0, id="not-selected"),
        pytest.param({"x.py": "import jax\njax.device_put(\n"}, [], 1, id="does-not-parse"),
        pytest.param({"x.py": "x = 1\n"}, ["no.py"], 2, id="missing"),
        pytest.param({"x.py": PUT}, ["x.py", "no.py"], 2, id="missing-and-finding"),
        pytest.param({"x.py": PUT}, ["--select", "XT999"], 2, id="no-such-rule"),
        pytest.param({"x.py": PUT}, ["--target", "jax"], 2, id="bad-target"),
        pytest.param({"x.py": PUT}, ["--output-format", "xml"], 2, id="no-such-format"),
        pytest.param({"x.py": PUT}, ["--nonsense"], 2, id="no-such-option"),
        pytest.param({"x.py": PUT, "shardlint.toml": "selct = []"}, [], 2, id="bad-settings"),
        pytest.param({"x.py": PUT, "shardlint.toml": "select = ["}, [], 2, id="broken-settings"),
        pytest.param(
            {"x.py": PUT, "shardlint.toml": "select = ['nope']"}, [], 2, id="no-such-rule-in-settings"
        ),
        pytest.param({"x.py": "import numpy as np\nnp.exp(1)\n"}, [], 2, id="a-bug-of-ours"),
    ],
)
def test_exit_codes(write: Write, run: Run, files: dict[str, str], arguments: list[str], code: int) -> None:
    ran = run("check", *arguments, cwd=write(files))
    assert ran.code == code
    assert "Traceback" not in ran.err
    if files and code == 2 and not any("no.py" in str(a) for a in arguments) and "np.exp" not in str(files):
        assert ran.out == ""
        assert (
            len([line for line in ran.err.splitlines() if line.startswith(("shardlint: ", "Error: "))]) == 1
        )


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["nonsense"],
        ["check", "--select"],
        ["rule"],
        ["rule", "XT999"],
        ["explain", "x"],
        ["explain", "x.py:\u00b2"],
        ["explain", f"x.py:{'9' * 5000}"],
    ],
)
def test_mistaken_commands_are_told(run: Run, arguments: list[str]) -> None:
    ran = run(*arguments)
    assert ran.code == 2
    assert "Traceback" not in ran.err + ran.out


@pytest.mark.parametrize(
    "arguments", [["--version"], ["--help"], ["-h"], ["check", "-h"], ["fix", "--help"], ["rules"]]
)
def test_help_is_there(run: Run, arguments: list[str]) -> None:
    ran = run(*arguments)
    assert (ran.code, ran.err) == (0, "")
    assert ran.out


def test_an_unknown_rule_is_told_with_what_is_near(write: Write, run: Run) -> None:
    ran = run("check", "--select", "asarray-move", cwd=write({"x.py": PUT}))
    assert (
        ran.err
        == "shardlint: no rule, prefix, name or harm is called 'asarray-move'; did you mean asarray-moved?\n"
    )


# choosing

MANY = (
    "import jax\nimport numpy as np\njax.device_put(1)\nnp.asarray(1)\njax.numpy.zeros(1)\njax.numpy.sum(1)\n"
)


@pytest.mark.parametrize(
    ("arguments", "codes"),
    [
        ([], ["XT101", "XT102", "XT103"]),
        (["--select", "XT101"], ["XT101"]),
        (["--select", "XT101,XT103"], ["XT101", "XT103"]),
        (["--select", "XT101", "--select", "XT103"], ["XT101", "XT103"]),
        (["--select", "XT1", "--ignore", "XT102"], ["XT101", "XT103"]),
        (["--select", "asarray-moved"], ["XT102"]),
        (["--select", "silent"], ["XT101"]),
        (["--ignore", "asarray-moved, silent"], ["XT103"]),
        (["--harm", "cost"], ["XT103"]),
        (["--harm", "cost,silent"], ["XT101", "XT103"]),
        (["--pedantic"], ["XT101", "XT102", "XT103", "XT104"]),
        (["--pedantic", "--harm", "cost"], ["XT103", "XT104"]),
        (["--certainty", "possible"], ["XT101", "XT102", "XT103", "XT104"]),
        (["--certainty", "proven"], ["XT101", "XT102", "XT103"]),
    ],
)
def test_choosing_rules(write: Write, run: Run, arguments: list[str], codes: list[str]) -> None:
    assert shown(run("check", *arguments, cwd=write({"x.py": MANY}))) == codes


def test_pedantic_and_another_certainty_contradict_each_other(write: Write, run: Run) -> None:
    ran = run("check", "--pedantic", "--certainty", "proven", cwd=write({"x.py": MANY}))
    assert (ran.code, "--pedantic means --certainty possible" in ran.err) == (2, True)
    assert (
        shown(run("check", "--pedantic", "--certainty", "possible", cwd=write({"x.py": MANY})))[-1] == "XT104"
    )


def test_paths_are_shown_as_they_were_given(write: Write, run: Run) -> None:
    root = write({"sub/x.py": PUT})
    for given, said in (
        ("sub/x.py", "sub/x.py:2:1"),
        ("sub", "sub/x.py:2:1"),
        (".", "sub/x.py:2:1"),
        (root, f"{root}/sub/x.py:2:1"),
    ):
        assert run("check", given, "--output-format", "concise", cwd=root).out.startswith(said)


def test_targets_of_the_command_line_win(write: Write, run: Run) -> None:
    root = write({"x.py": "import numpy as np\nnp.cos(1)\n", "requirements.txt": "jax==0.4.38\n"})
    assert shown(run("check", cwd=root)) == ["XT106"]
    assert shown(run("check", "--target", "jax=0.8", cwd=root)) == []


# formats


def test_json_is_one_object(write: Write, run: Run) -> None:
    ran = run(
        "check",
        "--output-format",
        "json",
        cwd=write({"x.py": MANY, "broken.py": "import jax\njax.device_put(\n"}),
    )
    document = json.loads(ran.out)
    jsonschema.Draft202012Validator(SCHEMA).validate(document)
    assert [finding["code"] for finding in document["findings"]] == ["SL001", "XT101", "XT102", "XT103"]
    assert (ran.code, ran.err) == (1, "")


def test_json_of_a_clean_run(write: Write, run: Run) -> None:
    ran = run("check", "--output-format", "json", cwd=write({"x.py": "x = 1\n"}))
    document = json.loads(ran.out)
    jsonschema.Draft202012Validator(SCHEMA).validate(document)
    assert (document["findings"], document["files"], ran.code) == ([], 1, 0)


def test_concise_lines_can_be_counted_on(write: Write, run: Run) -> None:
    ran = run("check", "--output-format", "concise", cwd=write({"x.py": MANY}))
    assert [line.split(" ")[:3] for line in ran.out.splitlines()[:-1]] == [
        ["x.py:3:1:", "XT101", "device-put-told"],
        ["x.py:4:1:", "XT102", "asarray-moved"],
        ["x.py:5:1:", "XT103", "zeros-changed"],
        ["Checked", "for", "jax"],
    ]


def test_a_bug_of_ours_is_told_and_the_rest_checked(write: Write, run: Run) -> None:
    ran = run("check", cwd=write({"a.py": "import numpy as np\nnp.exp(1)\n", "b.py": PUT}))
    assert shown(ran)[0] == "XT101"
    assert (
        "a.py: not complete: XT206 (rule pack 'shardlint_testpack' of shardlint-testpack 1.0) failed"
        in ran.out
    )
    assert "1 finding in 2 files, 1 of them not by every rule." in ran.out
    assert ran.code == 2


# standard input


def test_standard_input(write: Write, start: Start) -> None:
    root = write({"b.py": "from jax import device_put\n"})
    text = b"from b import device_put\ndevice_put(1)\n"
    ran = start("check", "--select", "XT", "--stdin-filename", "a.py", "-", cwd=root, input=text)
    assert ran.returncode == 1
    assert ran.stdout.startswith(b"a.py:2:1: XT101")
    assert start("check", "--select", "XT", "--stdin-filename", "a.py", cwd=root, input=text).returncode == 1
    assert start("check", "--select", "XT", "-", cwd=root, input=text).stdout.startswith(
        b"stdin.py:2:1: XT101"
    )
    assert start("check", "--select", "XT", "-", cwd=root, input=b"").returncode == 0


def test_standard_input_obeys_the_settings_of_its_name(write: Write, start: Start) -> None:
    root = write({"sub/shardlint.toml": "ignore = ['XT101']\n"})
    ran = start("check", "--select", "XT", "--stdin-filename", "sub/a.py", "-", cwd=root, input=PUT.encode())
    assert ran.returncode == 0, ran.stdout


@pytest.mark.parametrize(
    "data", [b"import jax\njax.device_put('\xff')\n", b"import jax\njax.device_put(\n", b"jax.device_put\0"]
)
def test_standard_input_that_cannot_be_checked(write: Write, start: Start, data: bytes) -> None:
    ran = start("check", "--select", "XT,SL001", "--stdin-filename", "a.py", "-", cwd=write({}), input=data)
    assert (ran.returncode, ran.stderr) == (2, b"")
    assert b"a.py:" in ran.stdout
    assert b"SL001" in ran.stdout
    ran = start("check", "--select", "XT101", "-", cwd=write({}), input=data)
    assert (ran.returncode, ran.stderr) == (2, b"")
    assert b"stdin.py: not checked: " in ran.stdout


@pytest.mark.parametrize("arguments", [["-", "x.py"], ["--stdin-filename", "y.py", "x.py"]])
def test_standard_input_is_not_checked_with_files(write: Write, run: Run, arguments: list[str]) -> None:
    ran = run("check", *arguments, cwd=write({"x.py": "x = 1\n"}))
    assert (ran.code, ran.out) == (2, "")
    assert "- (standard input) was given with other paths: give only one of them" in ran.err


@pytest.mark.skipif(os.name != "posix", reason="a shell that closes what it hands on")
def test_standard_input_that_is_closed_is_told() -> None:
    done = subprocess.run(
        ["sh", "-c", '"$0" -m shardlint check - <&-', sys.executable], capture_output=True, timeout=300
    )
    assert (done.returncode, done.stdout) == (2, b"")
    assert done.stderr.endswith(b"Error: standard input is closed\n")


@pytest.mark.skipif(not Path("/dev/zero").exists(), reason="nothing without an end here")
def test_standard_input_without_an_end_is_not_read_on() -> None:
    with Path("/dev/zero").open("rb") as endless:
        done = subprocess.run(
            [sys.executable, "-m", "shardlint", "check", "-"], stdin=endless, capture_output=True, timeout=300
        )
    assert done.returncode == 2
    assert b"standard input has more than 8,000,000 bytes" in done.stderr


# fix


@pytest.mark.parametrize("arguments", [["check"], ["fix"], ["check", "-", "--stdin-filename"]])
def test_an_empty_path_is_not_this_folder(write: Write, run: Run, arguments: list[str]) -> None:
    root = write({"x.py": FIXABLE})
    ran = run(*arguments, "", cwd=root)
    assert ran.code == 2
    assert "a path is empty; write . for this folder" in ran.err
    assert (root / "x.py").read_text() == FIXABLE


@pytest.mark.parametrize(
    ("files", "arguments", "code", "out"),
    [
        pytest.param({"x.py": "x = 1\n"}, [], 0, "fixed 0, left 0 in 1 file.", id="clean"),
        pytest.param({"x.py": FIXABLE}, [], 0, "x.py: fixed XT201\nfixed 1, left 0 in 1 file.", id="fixed"),
        pytest.param(
            {"x.py": PUT}, ["--target", "jax=0.12"], 1, f"{LEFT}\n\nfixed 0, left 1 in 1 file.", id="left"
        ),
        pytest.param(
            {"x.py": "import jax\njax.numpy.zeros(1)\n"},
            ["--target", "jax=0.12"],
            1,
            f"{UNSAFE}\n\nfixed 0, left 1 in 1 file. `shardlint fix --unsafe-fixes` fixes them.",
            id="unsafe-left",
        ),
        pytest.param(
            {"x.py": "import jax\njax.numpy.zeros(1)\n"},
            ["--unsafe-fixes"],
            0,
            "x.py: fixed XT103\nfixed 1, left 0 in 1 file.",
            id="unsafe",
        ),
        pytest.param(
            {"x.py": FIXABLE}, ["--select", "XT101"], 0, "fixed 0, left 0 in 1 file.", id="not-selected"
        ),
        pytest.param(
            {"x.py": "import numpy as np\nnp.square(np.square(1))\n"},
            [],
            0,
            "x.py: fixed XT201 (2)\nfixed 2, left 0 in 1 file.",
            id="twice",
        ),
    ],
)
def test_fixing(
    write: Write, run: Run, files: dict[str, str], arguments: list[str], code: int, out: str
) -> None:
    ran = run("fix", *arguments, cwd=write(files))
    assert (ran.code, ran.out.strip(), ran.err) == (code, out, "")


@pytest.mark.parametrize(
    ("files", "arguments", "code", "says"),
    [
        ({"x.py": FIXABLE}, ["no.py"], 2, "no.py: no such file or directory"),
        ({"x.py": "import numpy as np\nnp.sin(1)\n"}, [], 1, "Ruin; not fixed: the file would not be valid"),
        ({"x.py": "import numpy as np\nnp.square(\n"}, [], 1, "x.py: not fixed: Python"),
        ({"x.py": "import numpy as np\nnp.exp(1)\n"}, [], 2, "x.py: not complete: XT206 (rule pack"),
        (
            {"x.py": "# coding: latin-1\nimport numpy as np\nnp.tan(1)\n"},
            [],
            1,
            "cannot be written in the file's encoding",
        ),
    ],
)
def test_what_cannot_be_fixed_is_told_and_the_rest_is_fixed(
    write: Write, run: Run, files: dict[str, str], arguments: list[str], code: int, says: str
) -> None:
    root = write({**files, "y.py": FIXABLE})
    ran = run("fix", *arguments, *(["y.py"] if arguments else []), cwd=root)
    assert ran.code == code
    assert says in ran.err + ran.out
    assert (root / "y.py").read_text() == "import numpy as np\n(1) ** 2\n"


def test_what_a_diff_leaves_is_told_where_it_is_in_the_file(write: Write, run: Run) -> None:
    text = "import numpy as np\nnp.asarray(np.asarray(1))\nimport jax\njax.device_put(1)\n"
    ran = run("fix", "--diff", cwd=write({"x.py": text}))
    assert "x.py:4:1: XT101" in ran.err
    assert ran.err.endswith("would fix 2, left 1 in 1 file.\n")


@pytest.mark.skipif(shutil.which("patch") is None, reason="no patch program here")
def test_a_diff_can_be_applied_by_patch(write: Write, run: Run) -> None:
    root = write({"x.py": FIXABLE, "sub/y.py": "import numpy as np\n\n\n\n\nnp.asarray('ä')\n"})
    ran = run("fix", "--diff", cwd=root)
    assert ran.code == 1
    assert (root / "x.py").read_text() == FIXABLE
    assert ran.err == "would fix 2, left 0 in 2 files.\n"
    patched = subprocess.run(["patch", "-p1"], cwd=root, input=ran.out.encode(), capture_output=True)
    assert patched.returncode == 0, patched.stdout
    assert (root / "x.py").read_text() == "import numpy as np\n(1) ** 2\n"
    assert (root / "sub" / "y.py").read_text() == "import jax\n\n\n\n\njax.numpy.asarray('ä')\n"


def test_a_diff_is_of_the_bytes_of_the_file(write: Write, start: Start) -> None:
    data = b"# coding: latin-1\r\nimport numpy as np\r\nnp.square(1)  # \xe9"
    told = start("fix", "--diff", "x.py", cwd=write({"x.py": data})).stdout
    assert told.split(b"\n", 3)[3] == (
        b" # coding: latin-1\r\n import numpy as np\r\n"
        b"-np.square(1)  # \xe9\n\\ No newline at end of file\n"
        b"+(1) ** 2  # \xe9\n\\ No newline at end of file\n"
    )


@pytest.mark.skipif(os.name != "posix", reason="a shell that closes what it hands on")
def test_a_diff_without_any_output_is_no_trouble(write: Write) -> None:
    done = subprocess.run(
        ["sh", "-c", '"$0" -m shardlint fix --diff >&-', sys.executable],
        cwd=write({"x.py": FIXABLE}), env={**os.environ, "PYTHONPATH": str(PACK)}, capture_output=True, timeout=300,
    )  # fmt: skip
    assert done.returncode == 1, done.stderr


def test_a_diff_of_nothing(write: Write, run: Run) -> None:
    assert run("fix", "--diff", cwd=write({"x.py": "x = 1\n"})).code == 0
    assert run("fix", "--diff", cwd=write({"x.py": PUT})).code == 1


# other commands


def test_a_rule_s_page(run: Run) -> None:
    ran = run("rule", "XT101")
    assert ran.out.startswith("# XT101 device-put-told\n\nEffect: silent")
    assert run("rule", "device-put-told").out == ran.out


def test_rules_are_listed(run: Run) -> None:
    lines = run("rules").out.splitlines()
    assert "XT101  silent   device-put-told" in lines
    assert "XT105  cost     max-quiet  (off by default)" in lines
    assert "XT108  cost     sin-leaving  (deprecated: write XT101, which finds it too)" in lines
    assert "XT104  cost     sum-perhaps  (preview)" in lines


@pytest.mark.parametrize(
    ("arguments", "found"),
    [
        ((), False),
        (("--select", "XT1"), False),
        (("--select", "all"), False),
        (("--select", "XT108"), True),
        (("--extend-select", "sin-leaving"), True),
        (("--select", "XT108", "--ignore", "XT1"), False),
    ],
)
def test_a_deprecated_rule_runs_where_it_is_named(
    write: Write, run: Run, arguments: tuple[str, ...], found: bool
) -> None:
    root = write({"x.py": "import jax.numpy as jnp\n\nx = jnp.sin(1)\n"})
    assert ("XT108" in run("check", "x.py", *arguments, cwd=root).out) is found
    page = run("rule", "XT108").out
    assert "stability: deprecated" in page and "Deprecated: write XT101, which finds it too" in page


def test_targets_are_shown_with_their_source(write: Write, run: Run) -> None:
    ran = run("targets", "--target", "flax=0.10", cwd=write({"requirements.txt": "jax==0.4.38\n"}))
    assert "jax       0.4.38     pinned in requirements.txt" in ran.out.splitlines()
    assert "flax      0.10       --target" in ran.out.splitlines()


def test_targets_name_the_active_environment(write: Write, start: Start, tmp_path: Path) -> None:
    (tmp_path / "active/lib/python3.12/site-packages/jax-0.6.1.dist-info").mkdir(parents=True)
    ran = start("targets", cwd=write({}), VIRTUAL_ENV=str(tmp_path / "active"))
    assert f"installed in the active environment {tmp_path / 'active'}" in ran.stdout.decode().splitlines()[0]


# processes


def test_check_and_fix_never_import_jax_nor_the_checked_project(write: Write) -> None:
    root = write(
        {
            "x.py": "import numpy as np\nimport jax, y\nraise SystemExit('run')\njax.numpy.zeros(np.array(1))\n",
            "y.py": "1 / 0\n",
        }
    )
    script = """
import sys
from shardlint.cli.main import main
for command in (["check"], ["fix", "--unsafe-fixes", "--diff"], ["fix", "--unsafe-fixes"]):
    sys.argv = ["shardlint", *command, "--select", "XT", "."]
    try:
        main()
    except SystemExit:
        pass
loaded = [name for name in ("jax", "numpy", "equinox", "x", "y", "shardlint.verify") if name in sys.modules]
assert not loaded, loaded
"""
    environment = {**os.environ, "PYTHONPATH": str(PACK)}
    ran = subprocess.run(
        [sys.executable, "-c", script], cwd=root, env=environment, capture_output=True, timeout=120
    )
    assert ran.returncode == 0, ran.stderr.decode()
    assert "jax.numpy.ones(jax.numpy.asarray(1))" in (root / "x.py").read_text()


@pytest.mark.parametrize("source", ["import torch\n", PUT, FIXABLE, "import jax\njax.numpy.zeros(1)\n"])
def test_a_run_imports_little(write: Write, source: str) -> None:
    root = write({"x.py": source})
    script = """
import sys
from shardlint.cli.main import main
sys.argv = ["shardlint", "check", "--select", "XT", "x.py"]
try:
    main()
except SystemExit:
    pass
loaded = [name for name in ("libcst", "pathspec", "difflib", "packaging", "shardlint.verify") if name in sys.modules]
assert not loaded, loaded
"""
    environment = {**os.environ, "PYTHONPATH": str(PACK)}
    ran = subprocess.run(
        [sys.executable, "-c", script], cwd=root, env=environment, capture_output=True, timeout=120
    )
    assert ran.returncode == 0, ran.stderr.decode()


def test_what_is_known_needs_no_program_model(write: Write, tmp_path: Path) -> None:
    """A second run reads what the first one kept; the model of the program takes longer to import than that."""
    root = write({"x.py": "import jax\njax.numpy.zeros(1)\n", "pyproject.toml": "[project]\n"})
    script = """
import sys
from shardlint.cli.main import main
sys.argv = ["shardlint", "check", "."]
try:
    main()
except SystemExit:
    pass
print("shardlint.model" in sys.modules, file=sys.stderr)
"""
    environment = {**os.environ, "SHARDLINT_CACHE_DIR": str(tmp_path / "cache")}
    runs = [
        subprocess.run(
            [sys.executable, "-c", script], cwd=root, env=environment, capture_output=True, text=True, timeout=120
        )
        for _ in range(2)
    ]
    assert runs[0].stdout == runs[1].stdout
    assert [ran.stderr.splitlines()[-1] for ran in runs] == ["True", "False"]


def test_a_closed_pipe_ends_it_quietly(write: Write) -> None:
    root = write({f"x{n}.py": PUT for n in range(300)})
    reader, writer = os.pipe()
    process = subprocess.Popen(
        [sys.executable, "-m", "shardlint", "check", "--select", "XT", "."],
        cwd=root,
        env={**os.environ, "PYTHONPATH": str(PACK)},
        stdout=writer,
        stderr=subprocess.PIPE,
    )
    os.close(writer)
    os.read(reader, 10)
    os.close(reader)
    _, errors = process.communicate(timeout=120)
    assert errors == b""
    assert process.returncode in (1, 2)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no full disk here")
@pytest.mark.parametrize("count", [1, 300])
def test_a_full_disk_is_told(write: Write, start: Start, count: int) -> None:
    root = write({f"x{n}.py": PUT for n in range(count)})
    with Path("/dev/full").open("wb") as full:
        ran = start("check", "--select", "XT", ".", cwd=root, stdout=full)
    assert ran.returncode not in (0, 1)
    assert b"No space left" in ran.stderr and b"please report" not in ran.stderr


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no full disk here")
@pytest.mark.parametrize("arguments", ["rule nosuch", "check --nosuch"])
def test_a_message_that_cannot_be_written_changes_no_exit_code(tmp_path: Path, arguments: str) -> None:
    command = f"exec '{sys.executable}' -m shardlint {arguments} 2>/dev/full"
    assert subprocess.run(["sh", "-c", command], cwd=tmp_path, timeout=300).returncode == 2


@pytest.mark.skipif(os.name != "posix", reason="a shell that closes what it hands on")
def test_no_output_at_all_is_no_trouble(write: Write) -> None:
    root = write({"x.py": "x = 1\n"})
    command = f"exec '{sys.executable}' -m shardlint check . >&-"
    ran = subprocess.run(["sh", "-c", command], cwd=root, stderr=subprocess.PIPE, timeout=300)
    assert (ran.returncode, ran.stderr) == (0, b"")


@pytest.mark.parametrize("encoding", ["ascii", "cp1252", "utf-8"])
def test_a_terminal_that_cannot_say_it_still_gets_a_report(write: Write, start: Start, encoding: str) -> None:
    root = write({"ä漢.py": "import jax\njax.device_put('漢')\n"})
    ran = start("check", "--select", "XT", cwd=root, PYTHONIOENCODING=encoding, PYTHONUTF8="0")
    assert (ran.returncode, ran.stderr) == (1, b"")
    assert b"XT101" in ran.stdout


@pytest.mark.skipif(sys.platform != "linux", reason="file names of bytes")
def test_a_file_name_that_is_no_text(write: Write, start: Start) -> None:
    root = write({})
    path = os.fsencode(root) + b"/a\xff.py"
    Path(os.fsdecode(path)).write_text(PUT + "import numpy as np\nnp.square(1)\n")
    for arguments in (
        ["check"],
        ["check", "--output-format", "json"],
        ["check", "--output-format", "concise"],
        ["fix", "--diff"],
        ["fix"],
    ):
        ran = start(*arguments, "--select", "XT", cwd=root)
        assert (ran.returncode, b"Traceback" in ran.stderr) == (1, False), ran.stderr


def test_it_runs_as_a_module_and_as_a_script(write: Write, start: Start) -> None:
    root = write({"x.py": "x = 1\n"})
    ran = start("check", "--select", "XT", cwd=root)
    assert (ran.returncode, ran.stdout) == (0, b"No findings in 1 file.\n")
    script = Path(sys.executable).parent / "shardlint"
    if script.exists():
        ran = subprocess.run([script, "--version"], capture_output=True, timeout=120)
        assert ran.stdout.startswith(b"shardlint, version ")


# listing, watching


def test_quiet_prints_findings_and_nothing_else(write: Write, run: Run) -> None:
    root = write({"x.py": PUT, "y.py": "x = 1\n"})
    ran = run("check", "--quiet", "--output-format", "concise", cwd=root)
    assert (ran.code, ran.err, len(ran.out.splitlines())) == (1, "", 1)
    assert run("check", "-q", "--statistics", "x.py", cwd=root).out.splitlines()[0].startswith("1  XT101")
    ran = run("check", "--quiet", "y.py", cwd=root)
    assert (ran.code, ran.out, ran.err) == (0, "", "")
    ran = run("check", "--quiet", "y.py", "no.py", cwd=root)
    assert (ran.code, ran.out) == (2, "no.py: no such file or directory\n"), "the reason of a failure is printed"


def test_show_files_lists_what_would_be_checked(write: Write, run: Run) -> None:
    files = {"x.py": "(", "a/y.py": "", "z.txt": "", "old/x.py": "", "shardlint.toml": 'exclude = ["old"]'}
    ran = run("check", "--show-files", cwd=write(files))
    assert (ran.code, ran.out.splitlines(), ran.err) == (0, ["a/y.py", "x.py"], "")


def test_show_settings_names_the_source_of_each(write: Write, run: Run) -> None:
    root = write(
        {
            "x.py": PUT,
            "base.toml": 'certainty = "proven"\nignore = ["XT102"]\n',
            "pyproject.toml": '[tool.shardlint]\nextend = "base.toml"\nselect = ["XT1"]\n',
            "sub/y.py": "",
            "sub/shardlint.toml": "",
        }
    )
    ran = run("check", "--show-settings", "--ignore", "XT103", cwd=root)
    assert (ran.code, ran.err) == (0, "")
    lines = [" ".join(line.split()) for line in ran.out.splitlines()]
    assert lines[0] == "Settings of . (pyproject.toml)"
    assert 'select ["XT1"] pyproject.toml' in lines
    assert 'ignore ["XT102", "XT103"] base.toml and --ignore' in lines
    assert 'certainty "proven" base.toml' in lines
    assert "exclude [] default" in lines
    assert f"Settings of sub ({Path('sub', 'shardlint.toml')})" in lines


@pytest.mark.skipif(os.name != "posix", reason="SIGINT to a child")
def test_watch_checks_again_until_it_is_interrupted(write: Write) -> None:
    root = write({"x.py": "x = 1\n"})
    command = [sys.executable, "-m", "shardlint", "check", "--watch", "--select", "XT"]
    environment = {**os.environ, "PYTHONPATH": str(PACK)}
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
    with subprocess.Popen(command, cwd=root, env=environment, **pipes) as process:
        assert process.stdout is not None

        def read_report() -> str:
            lines = iter(process.stdout.readline, "")
            return "".join(iter(lambda: next(lines), "Watching for changes. Ctrl-C ends it.\n"))

        assert "No findings in 1 file." in read_report()
        (root / "x.py").write_text(PUT)
        assert "XT101" in read_report()
        (root / "y.py").write_text(PUT)
        assert "2 findings in 2 files." in read_report()
        (root / "shardlint.toml").write_text("selct = []")
        assert "unknown setting" in read_report()
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 0
        assert process.stdout.read() == ""


def test_without_arguments_it_says_what_to_do_first(run: Run) -> None:
    ran = run()
    begin, _, rest = (ran.out + ran.err).partition("Options:")
    assert "shardlint check " in begin and len(begin.splitlines()) <= 12
    assert "Commands:" in rest


def test_the_shell_completes_commands_and_options(start: Start, tmp_path: Path) -> None:
    ran = start(_SHARDLINT_COMPLETE="bash_complete", COMP_WORDS="shardlint check --show", COMP_CWORD="2")
    assert b"--show-settings" in ran.stdout
    assert b"complete" in start(_SHARDLINT_COMPLETE="bash_source").stdout
