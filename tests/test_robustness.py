"""Whatever the files hold, a run ends, tells, and changes nothing it should not."""

from __future__ import annotations

import random
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType

import pytest

from shardlint.config.certainty import Certainty
from shardlint.engine.one_file import Checker
from shardlint.engine.results import Options
from shardlint.output import json_, text
from shardlint.output.terminal_style import PLAIN
from shardlint.rewrite.fix import fix_files

Write = Callable[..., Path]
FIXTURES = Path(__file__).parent.parent / "fixtures"
FILES = sorted(FIXTURES.glob("SL*/*.py"))


def _mutations(data: bytes, seed: int, count: int) -> Iterator[bytes]:
    """The file with pieces cut, doubled, moved, or replaced: what an editor holds while someone types."""
    chance = random.Random(seed)
    lines = data.splitlines(keepends=True)
    pieces = [
        b"(",
        b")",
        b"[",
        b"\n",
        b"\t",
        b" ",
        b'"',
        b"'''",
        b"\\",
        b":",
        b"=",
        b"*",
        b"**",
        b",",
        b"lambda x:",
        b"\xff",
        b"\x0c",
        b"\r",
        b"#",
        b"@",
        b"await ",
        b"yield ",
        b"global x\n",
        b"None",
        b"*args",
        b"f'{",
        "ä".encode(),
        b"del ",
        b"with ",
        b"for x in x:",
        b":=",
        b"x if x else ",
        b"not ",
        b"return ",
    ]
    for _ in range(count):
        match chance.randrange(5):
            case 0:  # cut off
                yield data[: chance.randrange(len(data))]
            case 1:  # a piece put in
                at = chance.randrange(len(data))
                yield data[:at] + chance.choice(pieces) + data[at:]
            case 2:  # a line lost
                at = chance.randrange(len(lines))
                yield b"".join(lines[:at] + lines[at + 1 :])
            case 3:  # two lines swapped
                one, two = chance.randrange(len(lines)), chance.randrange(len(lines))
                moved = list(lines)
                moved[one], moved[two] = moved[two], moved[one]
                yield b"".join(moved)
            case 4:  # a word replaced by another of the file
                words = data.split(b" ")
                words[chance.randrange(len(words))] = chance.choice(words)
                yield b" ".join(words)


@pytest.mark.skipif(not FILES, reason="no fixtures here")
def test_no_text_stops_a_check_or_a_report(tmp_path: Path) -> None:
    (tmp_path / "setup.cfg").touch()
    checked = 0
    chance = random.Random(0)
    for number, file in enumerate(chance.sample(FILES, min(40, len(FILES)))):
        for data in _mutations(file.read_bytes(), number, 4):
            checker = Checker(Options(certainty=Certainty.POSSIBLE))
            path = tmp_path / f"m{checked}.py"
            path.write_bytes(data)
            outcome = checker.check_file(path)
            found, reason = outcome.report, outcome.reason
            assert not outcome.failed, f"{file}: {reason}\n{data.decode('utf-8', 'replace')}"
            checked += found is not None
            path.unlink()
            if found is None:
                continue
            for finding in found.findings:
                assert 0 <= finding.start <= finding.end <= len(found.source.text)
                for edit in finding.fix.edits if finding.fix is not None else ():
                    assert 0 <= edit.start <= edit.end <= len(found.source.text)
                json_._finding_row(found, finding)
                list(text._frame_lines(found, finding, PLAIN))
    assert checked > 20, "the mutations leave nothing to look at"


@pytest.mark.skipif(not FILES, reason="no fixtures here")
def test_no_text_is_broken_by_a_fix(write: Write) -> None:
    chance = random.Random(1)
    sources = {}
    for number, file in enumerate(chance.sample(FILES, min(20, len(FILES)))):
        for turn, data in enumerate(_mutations(file.read_bytes(), number, 2)):
            sources[f"p{number}_{turn}/m.py"] = data
    root = write(sources)
    before = {path: path.read_bytes() for path in root.rglob("*.py")}
    report = fix_files([root], Options(certainty=Certainty.POSSIBLE), unsafe=True, write=True)
    assert not report.failed
    problems = [outcome.problem for outcome in report.fixed if outcome.problem]
    assert not problems
    for path, data in before.items():
        after = path.read_bytes()
        assert _compiles(after) or after == data or not _compiles(data)


@pytest.mark.usefixtures("pack")
@pytest.mark.parametrize(
    "source",
    [
        b"",
        b"\n",
        b"\x0c",
        b"\xef\xbb\xbf",
        b"#",
        b"\\\n",
        b"'''",
        b"import jax; jax.device_put",
        b"from jax import (device_put)",
        b"import jax\njax.device_put(*a, **b)\n",
        b"import jax\njax.device_put(x for x in y)\n",
        b"import jax\nclass C(jax.device_put(1)): pass\n",
        b"import jax\nasync def f(): return [await jax.device_put(x) async for x in y]\n",
        b"import jax\nmatch jax.device_put(1):\n case jax.device_put(): pass\n",
        b"import jax\nf'{jax.device_put(f\"{1}\")!r:>{jax.device_put(2)}}'\n",
        b"import jax\nx: jax.device_put(1) = jax.device_put(2)\n",
        b"from jax import *\nfrom x import *\ndevice_put(1)\n",
        b"import jax as device_put\ndevice_put.device_put(1)\n",
        b"from jax import device_put\ndel device_put\ndevice_put(1)\n",
        b"global jax\nimport jax\njax.device_put(1)\n",
        b"import jax\njax = jax\njax.device_put(jax)\n",
        b"import jax\nclass jax(jax.jit): jax = jax.device_put(1)\n",
        b"import jax\ndef f(x=jax.device_put(1), *, y: jax.device_put(2), **z): pass\n",
        b"import jax\nput = lambda put=jax.device_put: put(put)\nput()\n",
        b"from . import jax\nfrom .. import device_put\nfrom ....... import x\njax.device_put(1)\n",
        b"import jax\nput = jax.device_put\nput = put = (put := put)\nput(1)\n",
        b"import numpy as np\nx = " + b"np.square(" * 60 + b"1" + b")" * 60 + b"\n",
        b"import jax\n"
        + b"".join(b" " * i + b"if jax.device_put(1):\n" for i in range(90))
        + b" " * 90
        + b"pass\n",
        b"import jax\nx = [" + b"jax.device_put(1)," * 3000 + b"]\n",
        b"import jax\n" + b"x = x + jax.device_put(x)\n" * 400,
        b"import jax\ntry: jax.device_put(1)\nexcept* E: jax.device_put(2)\n",
    ],
)
def test_odd_files_are_checked_and_fixed(write: Write, source: bytes) -> None:
    root = write({"x.py": source})
    checker = Checker(Options(certainty=Certainty.POSSIBLE, select=("all",)))
    outcome = checker.check_file(root / "x.py")
    assert not outcome.failed, outcome.reason
    report = fix_files([root], Options(ignore=("XT2",)), unsafe=True, write=True)
    assert not [outcome.problem for outcome in report.fixed if outcome.problem]
    if _compiles(source):
        assert _compiles((root / "x.py").read_bytes())


def _compiles(source: bytes) -> bool:
    try:
        compile(source, "x.py", "exec", dont_inherit=True)
    except SyntaxError:
        return False
    return True


# Chains and nesting whose work must grow with their length, and no faster: {n} lines of each.
_HEAD = """import jax
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P
mesh = Mesh(jax.devices(), ("data",))
row = NamedSharding(mesh, P("data"))
"""
GROWING = {
    "elif": ("if a: pass\n", "elif a: x = jax.device_put(1, row)\n"),
    "elif in a function": ("@jax.jit\ndef f(a):\n    if a: pass\n", "    elif a: a = jax.device_put(a, row)\n"),
    "elif in a loop": ("for a in b:\n    if a: pass\n", "    elif a: y = jax.device_put(a, row)\n"),
    "walrus in elif": ("if a: pass\n", "elif (x := jax.device_put(1, row)): y = x\n"),
}


# One chain shows work that grows by the square; the others take other ways through the same model.
@pytest.mark.parametrize(
    "kind", [pytest.param(kind, marks=[] if kind == "elif" else pytest.mark.longer) for kind in GROWING]
)
def test_work_grows_with_the_length_of_a_chain(write: Write, kind: str) -> None:
    before, line = GROWING[kind]
    _calls(write({"x.py": _HEAD + before + line}))  # imports the rules
    few, some, many = (_calls(write({"x.py": _HEAD + before + line * count})) for count in (40, 80, 160))
    assert many - some < 2.3 * (some - few), (few, some, many)


def _calls(root: Path) -> int:
    """How many functions of Python a check of x.py calls."""
    calls = 0

    def count(frame: FrameType, event: str, argument: object) -> None:
        nonlocal calls
        calls += event == "call"

    checker = Checker(Options(certainty=Certainty.POSSIBLE))
    sys.setprofile(count)
    try:
        outcome = checker.check_file(root / "x.py")
    finally:
        sys.setprofile(None)
    assert not (outcome.quiet or outcome.failed or outcome.reason)
    return calls


REGISTRIES = """
import jax
from jax.sharding import NamedSharding, PartitionSpec as P

rules = {}

def register(name):
    def keep(function):
        rules[name] = function
        return function
    return keep

def traced(function):
    rules["traced"] = function
    return function

@register("a")
@traced
def first(x):
    return second(x)

@traced
@register("b")
def second(x):
    return first(x)

@register("c")
def third(x, mesh):
    return first(NamedSharding(mesh, P("data", "data")))
"""


def test_decorators_that_return_their_function_are_followed_once(write: Write) -> None:
    root = write({"a.py": REGISTRIES})
    report = Checker(Options(certainty=Certainty.POSSIBLE)).check_file(root / "a.py").report
    assert report is not None and [one.rule.code for one in report.findings] == ["SL302"]
