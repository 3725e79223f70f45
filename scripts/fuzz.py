"""Checks and fixes mutated and generated files: nothing may crash, hang, or end with a wrong exit code.

    python scripts/fuzz.py --files 100000 --seed 1 --jobs 2 --keep failures

Case N of a seed depends on nothing but the seed and the base files (this checkout's fixtures, the packages installed
here, programs that hypothesmith writes), so a run can be done in pieces (`--start`, `--seconds`) and one case again
(`--start N --files 1`). What fails is kept with its files. Exit code: 0 nothing failed, 1 something did. Needs POSIX:
the limit of a case is processor time, so that a busy machine fails nobody.
"""

from __future__ import annotations

import argparse
import ast
import collections
import copy
import functools
import gc
import importlib.util
import json
import keyword
import multiprocessing
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from multiprocessing.connection import Connection, wait
from pathlib import Path
from random import Random
from typing import Any

from shardlint.config import targets
from shardlint.config.certainty import Certainty
from shardlint.engine import one_file as checking
from shardlint.engine.index import RuleIndex
from shardlint.engine.results import Options, Report
from shardlint.engine.run import check_paths
from shardlint.output import json_, text
from shardlint.rewrite.fix import FixReport, fix_files
from shardlint.rules_api.registry import select_rules

ROOT = Path(__file__).parent.parent
PACKAGES = ("jax", "flax", "equinox", "haliax", "optax", "orbax", "einshard")
LIMIT = 2.0
"""Seconds of processor time a file may take to check, and again to fix."""
HUNG = 40.0
"""Seconds on the clock after which a worker that says nothing is killed."""
BASE_MAX, CASE_MAX = 40_000, 200_000
GENERATED = 120
_COMMAND_EVERY, _BLOCK, _COLLECT_EVERY = 400, 100, 40
_NESTING = 15_000  # as the command line sets it
# Files that a run may leave beside those it checks.
_KEPT_BY_US = (".shardlint_cache",)

Data = bytes


class Slow(BaseException):
    """The limit of processor time is over. No `except Exception` of ours may swallow it."""


# base files

_KEYWORDS = frozenset(word.encode() for word in keyword.kwlist)
_IMPORTS = (
    b"import functools, jax, equinox as eqx, numpy as np\nfrom jax import numpy as jnp, lax, shard_map, jit\n"
    b"from jax.sharding import Mesh, NamedSharding, PartitionSpec as P\nfrom flax import linen as nn, nnx\n"
)


class Bases:
    """Files to start from: half of all picks are fixtures, which hold what the rules look for."""

    def __init__(self, fixtures: Sequence[Path], packages: Sequence[Path], generated: Sequence[Path]) -> None:
        self.groups = [list(group) for group in (fixtures, packages, generated)]
        self._read: dict[Path, Data] = {}

    def pick_file(self, chance: Random) -> Data:
        """One of the files; long ones are cut to a run of their lines."""
        fixtures, packages, generated = self.groups
        draw = chance.random()
        group = fixtures if draw < 0.5 else generated if draw > 0.85 else packages
        path = chance.choice(group or fixtures)
        if path not in self._read:
            if len(self._read) > 2000:
                self._read.clear()
            self._read[path] = path.read_bytes()
        data = self._read[path]
        if group is generated:
            return self._about_jax(data, chance)
        if len(data) <= BASE_MAX:
            return data
        lines = data.splitlines(keepends=True)
        imports = [line for line in lines if line.startswith((b"import ", b"from "))]
        starts = [number for number, line in enumerate(lines) if re.match(rb"(def|class|@)\b", line)]
        begin = chance.choice(starts or [0])
        return b"".join(imports + lines[begin : begin + 600])[:BASE_MAX]

    def _about_jax(self, data: Data, chance: Random) -> Data:
        """A program of random names with names of JAX for half of them: rules look at nothing else."""
        names = sorted(set(re.findall(rb"[A-Za-z_]\w*", data)) - _KEYWORDS)
        taken = {name: chance.choice(self.trigger_words) for name in names if chance.random() < 0.5}
        return _IMPORTS + re.sub(rb"[A-Za-z_]\w*", lambda match: taken.get(match[0], match[0]), data)

    @cached_property
    def trigger_words(self) -> list[Data]:
        """Names that rules trigger on, and what stands around them in programs."""
        index = sorted(_all_rules_index().words)
        around = "jax jnp P mesh spec x self in_shardings out_shardings donate_argnums static_argnums axis_names 0 ()"
        around += " functools.partial None *x **x jax.jit P('data') [] eqx nnx lambda: jax.numpy"
        return [word.encode() for word in (*index, *around.split())]


def _all_rules_index() -> RuleIndex:
    return RuleIndex.index_rules(select_rules(("all",), ()))


def find_bases(generated: Path | None = None, packages: Sequence[str] = PACKAGES) -> Bases:
    """The base files of this machine, sorted by name. Files no rule looks at are left out: they are not even parsed."""
    index = _all_rules_index()
    found = []
    for name in packages:
        spec = importlib.util.find_spec(name)
        for folder in sorted(spec.submodule_search_locations or ()) if spec is not None else ():
            files = sorted(Path(folder).rglob("*.py"))
            found += [path for path in files if len(index.make_screen.find_words(path.read_bytes())) > 2]
    fixtures = [path for path in sorted((ROOT / "fixtures").rglob("*.py")) if path.stat().st_size]
    return Bases(fixtures, found, sorted(generated.glob("*.py")) if generated is not None else [])


def generate_programs(folder: Path, seed: int, count: int = GENERATED) -> int:
    """Write programs of Python's whole grammar into a folder; returns how many (0 without hypothesmith)."""
    try:
        import hypothesmith  # type: ignore[import-not-found,unused-ignore]
        from hypothesis import HealthCheck, Phase, given, settings
        from hypothesis import seed as seeded
    except ImportError:
        return 0
    found: list[str] = []

    @seeded(seed)
    @settings(
        max_examples=count,
        database=None,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(hypothesmith.from_node())
    def collect_program(program: str) -> None:
        found.append(program)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        collect_program()
    for number, program in enumerate(found):
        (folder / f"{number:05}.py").write_bytes(program.encode("utf-8", "replace"))
    return len(found)


# mutations: each takes a file and gives another; what it gives need not be Python

_TOKEN = re.compile(rb"\w+|\s+|[^\w\s]")
_MARKS = "\ufeff \u2028 \u2029 \u202e \u200b \u200d ä e\u0301 ﬁ ｊａｘ ªP 漢 🐍 𝐱 \u00a0 \u3000"
_SYNTAX = (
    "( ) [ ] { } ' \" ''' \"\"\" \\ : = := * ** , . .. ... @ ; -> ! ~ # % 0x 1_000 1e999 1j 0777 f'{ f'{x!r:>{ rb'"
    " not await yield async lambda global nonlocal del match case type with try except* finally else elif return"
)
_ODD = [
    *(bytes([code]) for code in (0, 1, 7, 8, 9, 11, 12, 13, 26, 27, 28, 29, 30, 127, 133, 155, 160, 255)),
    *(piece.encode() for piece in (*_MARKS.split(" "), *_SYNTAX.split())),
    b"\xed\xa0\x80", b"\xff\xfe", b"\xc3", b"\\N{", b"\\\n", b"\\\r", b"\r\n", b"\n\n\n", b"    ", b"\t",
    b"\x1b]0;owned\x07", b"\x1b[2J", b"# type: ignore", b"# -*- coding: latin-1 -*-\n", b"# coding: utf-16\n",
    b"9" * 5000, b"(" * 150, b")" * 150, b"[" * 150, b"-" * 300, b"x." * 200, b"lambda:" * 100, b"f(" * 100,
    b"# shardlint: ignore\n", b"  # shardlint: ignore[SL201] why\n", b"# shardlint: ignore-file[SL999, ]",
    b"# shardlint: ignore[", b"# shardlint:", b"from x import *\n", b"global jax\n", b"del jax\n",
]  # fmt: skip


def _random_span(chance: Random, length: int, longest: int = 8) -> tuple[int, int]:
    start = chance.randrange(length + 1)
    return start, min(length, start + chance.randint(1, longest))


def lose_lines(data: Data, chance: Random, bases: Bases) -> Data:
    lines = data.splitlines(keepends=True)
    start, end = _random_span(chance, len(lines))
    return b"".join(lines[:start] + lines[end:])


def double_lines(data: Data, chance: Random, bases: Bases) -> Data:
    lines = data.splitlines(keepends=True)
    start, end = _random_span(chance, len(lines))
    at = chance.randrange(len(lines) + 1)
    return b"".join(lines[:at] + lines[start:end] * chance.choice((1, 1, 2, 9)) + lines[at:])


def swap_lines(data: Data, chance: Random, bases: Bases) -> Data:
    return b"".join(_swap_parts(data.splitlines(keepends=True), chance))


def swap_tokens(data: Data, chance: Random, bases: Bases) -> Data:
    return b"".join(_swap_parts(_TOKEN.findall(data), chance))


def _swap_parts(parts: list[Data], chance: Random) -> list[Data]:
    if parts:
        one, two = chance.randrange(len(parts)), chance.randrange(len(parts))
        parts[one], parts[two] = parts[two], parts[one]
    return parts


def lose_tokens(data: Data, chance: Random, bases: Bases) -> Data:
    tokens = _TOKEN.findall(data)
    start, end = _random_span(chance, len(tokens), 4)
    return b"".join(tokens[:start] + tokens[end:])


def double_tokens(data: Data, chance: Random, bases: Bases) -> Data:
    tokens = _TOKEN.findall(data)
    start, end = _random_span(chance, len(tokens), 12)
    return b"".join(tokens[:end] + tokens[start:end] * chance.choice((1, 1, 3, 40)) + tokens[end:])


def rename_something(data: Data, chance: Random, bases: Bases) -> Data:
    """A name becomes another, at one place or all: a name a rule triggers on, or one of the file's own."""
    tokens = _TOKEN.findall(data)
    names = [token for token in tokens if token[:1].isalpha()]
    if not names:
        return data
    old, new = chance.choice(names), chance.choice((chance.choice(bases.trigger_words), chance.choice(names)))
    if chance.random() < 0.5:
        return b"".join(new if token == old else token for token in tokens)
    tokens[chance.choice([number for number, token in enumerate(tokens) if token == old])] = new
    return b"".join(tokens)


def cut_text(data: Data, chance: Random, bases: Bases) -> Data:
    at = chance.randrange(len(data) + 1)
    return data[:at] if chance.random() < 0.8 else data[at:]


def change_indent(data: Data, chance: Random, bases: Bases) -> Data:
    lines = data.splitlines(keepends=True)
    start, end = _random_span(chance, len(lines), 20)
    by = chance.choice((b" ", b"    ", b"\t", b"\x0c", b"        \t", b""))
    changed = [by + line if by else line.lstrip(b" \t") for line in lines[start:end]]
    return b"".join(lines[:start] + changed + lines[end:])


def put_odd(data: Data, chance: Random, bases: Bases) -> Data:
    at = chance.randrange(len(data) + 1)
    return data[:at] + chance.choice(_ODD) + data[at:]


def splice_texts(data: Data, chance: Random, bases: Bases) -> Data:
    """The head of one file and the tail of another, or one in the middle of the other."""
    lines, others = data.splitlines(keepends=True), bases.pick_file(chance).splitlines(keepends=True)
    at, start = chance.randrange(len(lines) + 1), chance.randrange(len(others) + 1)
    tail = lines[at:] if chance.random() < 0.3 else []
    return b"".join(lines[:at] + others[start : start + 200] + tail)


def change_newlines(data: Data, chance: Random, bases: Bases) -> Data:
    """Other line ends, a byte order mark, a cookie, another encoding, no last newline."""
    match chance.randrange(8):
        case 0:
            return data.replace(b"\r\n", b"\n").replace(b"\n", b"\r")
        case 1:
            return data.replace(b"\r\n", b"\n").replace(b"\n", b"\r\n")
        case 2:
            return re.sub(rb"\n", lambda _: chance.choice((b"\n", b"\r", b"\r\n", b"\n\x0c")), data)
        case 3:
            return data.rstrip()
        case 4:
            return b"\xef\xbb\xbf" + data
        case 5:
            cookie = chance.choice(
                (b"latin-1", b"utf-8", b"cp1252", b"shift_jis", b"utf-7", b"idna", b"rot13")
            )
            return b"# coding: " + cookie + b"\n" + data
        case 6:
            return data.decode("utf-8", "replace").encode(
                chance.choice(("utf-16", "utf-32", "latin-1")), "replace"
            )
    return data.replace(b"    ", b"\t")


def graft_expressions(data: Data, chance: Random, bases: Bases) -> Data:
    """Expressions and statements of another file in the place of some of this one: what comes out mostly parses."""
    tree = _parse_or_none(data)
    expressions, statements = _expressions_and_statements(bases.pick_file(chance))
    if tree is None:
        return rename_something(data, chance, bases)
    nodes: list[ast.AST] = [tree]
    nodes += [node for node in ast.walk(tree) if isinstance(node, ast.expr | ast.stmt | ast.arguments)]
    for _ in range(chance.choice((1, 2, 4, 10))):
        node = chance.choice(nodes)
        slots = [name for name, value in ast.iter_fields(node) if isinstance(value, ast.expr) or value == []]
        lists = [value for _, value in ast.iter_fields(node) if isinstance(value, list) and value]
        if lists and chance.random() < 0.5:
            _shuffle_list(chance.choice(lists), chance, expressions, statements)
        elif slots and expressions:
            name = chance.choice(slots)
            old, new = getattr(node, name), copy.deepcopy(chance.choice(expressions))
            if isinstance(old, ast.expr):
                setattr(node, name, new)
    try:
        return ast.unparse(ast.fix_missing_locations(tree)).encode()
    except (ValueError, TypeError, AttributeError, IndexError, RecursionError):  # a tree that is no program
        return swap_lines(data, chance, bases)


def _shuffle_list(
    items: list[Any], chance: Random, expressions: Sequence[ast.AST], statements: Sequence[ast.AST]
) -> None:
    donors = (
        expressions
        if isinstance(items[0], ast.expr)
        else statements
        if isinstance(items[0], ast.stmt)
        else ()
    )
    at = chance.randrange(len(items))
    match chance.randrange(4):
        case 0 if len(items) > 1:
            del items[at]
        case 1:
            items.insert(at, copy.deepcopy(chance.choice(items)))
        case 2 if donors:
            items[at] = copy.deepcopy(chance.choice(donors))
        case 3 if donors:
            items.insert(at, copy.deepcopy(chance.choice(donors)))


@functools.lru_cache(1000)
def _expressions_and_statements(data: Data) -> tuple[list[ast.expr], list[ast.stmt]]:
    """The expressions and statements of a file."""
    nodes = list(ast.walk(_parse_or_none(data) or ast.Module([], [])))
    return [n for n in nodes if isinstance(n, ast.expr)], [n for n in nodes if isinstance(n, ast.stmt)]


def _parse_or_none(data: Data) -> ast.Module | None:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return ast.parse(data)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


Mutation = Callable[[Data, Random, Bases], Data]
MUTATIONS: tuple[Mutation, ...] = (
    lose_lines, double_lines, swap_lines, swap_tokens, lose_tokens, double_tokens, rename_something,
    rename_something, cut_text,
    change_indent, put_odd,
    put_odd, splice_texts, change_newlines, graft_expressions, graft_expressions,
)  # fmt: skip

GENTLE: tuple[Mutation, ...] = (
    graft_expressions,
    graft_expressions,
    graft_expressions,
    graft_expressions,
    rename_something,
    change_newlines,
)


def mutate_text(chance: Random, bases: Bases) -> Data:
    data = bases.pick_file(chance)
    mutations = GENTLE if chance.random() < 0.6 else MUTATIONS
    for _ in range(chance.choice((1, 1, 1, 2, 3, 6))):
        data = chance.choice(mutations)(data, chance, bases)[:CASE_MAX]
    return data


# cases


@dataclass
class Case:
    """Files of one project, and how they are checked."""

    number: int
    files: dict[str, Data]
    options: Options

    def write_case(self, folder: Path) -> None:
        for name, data in self.files.items():
            (folder / name).write_bytes(data)

    @property
    def command_arguments(self) -> list[str]:
        """The options as the command line takes them."""
        made = [f"--certainty={self.options.certainty}"] if self.options.certainty else []
        made += [f"--target={name}={version}" for name, version in self.options.targets.items()]
        return made + [f"--select={name}" for name in self.options.select]


_TARGETS: tuple[dict[str, str], ...] = (
    {},
    {},
    {"jax": "0.4.38", "equinox": "0.11.11"},
    {"jax": "0.6.0", "flax": "0.10.7"},
    {"jax": "0.8.2"},
)


def make_case(seed: int, number: int, bases: Bases) -> Case:
    """Case `number` of a seed: mostly one file, now and then three that import from each other, in a ring."""
    chance = Random(f"{seed}:{number}")
    options = Options(
        certainty=Certainty.POSSIBLE if chance.random() < 0.8 else None,
        select=("all",) if chance.random() < 0.1 else (),
        targets=chance.choice(_TARGETS),
    )
    if chance.random() < 0.9:
        return Case(number, {"m0.py": mutate_text(chance, bases)}, options)
    texts = [mutate_text(chance, bases) for _ in range(3)]
    files = {}
    for index, data in enumerate(texts):
        other = (index + 1) % 3
        names = re.findall(
            rb"^(?:def|class|async def)?[ ]*([A-Za-z]\w*)[ ]*[=(:]", texts[other], re.MULTILINE
        )
        taken = sorted({name.decode() for name in names} - {"if", "for", "with", "while", "try", "else"})[:30]
        star = chance.random() < 0.3 or not taken
        line = f"from m{other} import {'*' if star else ', '.join(taken)}\n"
        files[f"m{index}.py"] = line.encode() + data
    return Case(number, files, options)


@dataclass
class Failure:
    """A failed case: the mistake, and the files of the case."""

    number: int
    kind: str
    what: str
    files: dict[str, Data]

    def keep_failure(self, folder: Path, seed: int) -> Path:
        place = folder / f"{seed}-{self.number}-{self.kind.replace(' ', '-')}"
        place.mkdir(parents=True, exist_ok=True)
        for name, data in self.files.items():
            (place / name).write_bytes(data)
        (place / "what.txt").write_text(
            f"seed {seed}, case {self.number}: {self.kind}\n{self.what}\n", "utf-8"
        )
        return place


@dataclass
class Tally:
    """Counts of a run."""

    counts: collections.Counter[str] = field(default_factory=collections.Counter)
    slowest: tuple[float, int] = (0.0, -1)

    def add_tally(self, other: Tally) -> None:
        self.counts.update(other.counts)
        self.slowest = max(self.slowest, other.slowest)


class Examiner:
    """Does all that must hold to case after case, in one folder."""

    def __init__(self, folder: Path, limit: float = LIMIT) -> None:
        self.folder = folder
        self.limit = limit
        self.tally = Tally()
        folder.mkdir(parents=True, exist_ok=True)
        signal.signal(signal.SIGPROF, _raise_slow)

    def examine_case(self, case: Case, command: bool = False) -> list[Failure]:
        """All that is wrong with what is made of a case."""
        for path in list(self.folder.iterdir()):
            if path.name not in _KEPT_BY_US:
                path.unlink()
        (self.folder / "setup.cfg").touch()
        case.write_case(self.folder)
        self.tally.counts["cases"] += 1
        self.tally.counts["files"] += len(case.files)
        return [
            Failure(case.number, kind, what, case.files) for kind, what in self._check_problems(case, command)
        ]

    def _check_problems(self, case: Case, command: bool) -> Iterator[tuple[str, str]]:
        report = self._run_timed(case, lambda: check_paths([self.folder], case.options))
        if isinstance(report, tuple):
            yield report
            return
        yield from _wrong_report(report, case)
        self.tally.counts["findings"] += report.finding_count
        self.tally.counts["not checked"] += len(report.skipped)
        if command:
            yield from self._command_problems(case, report)
        codes = {finding.rule.code for file in report.reports for finding in file.findings}
        fixable = any(finding.fix is not None for file in report.reports for finding in file.findings)
        for code in codes:
            self.tally.counts[code] += 1
        if fixable or (case.number % 16 == 0):
            yield from self._fix_problems(case, command)

    def _run_timed(self, case: Case, action: Callable[[], Any]) -> Any:
        """Return the result of an action, or the kind and text of its failure."""
        begun = time.process_time()
        try:
            signal.setitimer(signal.ITIMER_PROF, self.limit * len(case.files))
            try:
                return action()
            finally:
                signal.setitimer(signal.ITIMER_PROF, 0)
        except Slow:
            return "slow", f"more than {self.limit} s a file\n{traceback.format_exc()}"
        except Exception:
            return "crash", traceback.format_exc()
        finally:
            took = time.process_time() - begun
            self.tally.slowest = max(self.tally.slowest, (took, case.number))
            self.tally.counts["over half a second"] += took > 0.5

    def _fix_problems(self, case: Case, command: bool) -> Iterator[tuple[str, str]]:
        before = sorted(path.name for path in self.folder.iterdir())
        parsed = {name: _parse_or_none(data) is not None for name, data in case.files.items()}
        report = self._run_timed(case, lambda: fix_files([self.folder], case.options, unsafe=True, write=True))
        if isinstance(report, tuple):
            yield f"fix {report[0]}", report[1]
            return
        yield from _wrong_fix(report, case, parsed, self.folder)
        changed = sum(outcome.is_changed for outcome in report.fixed)
        self.tally.counts["fixed"] += changed
        again = self._run_timed(case, lambda: fix_files([self.folder], case.options, unsafe=True, write=True))
        if isinstance(again, tuple):
            yield f"second fix {again[0]}", again[1]
            return
        more = [outcome for outcome in again.fixed if outcome.is_changed and not outcome.problem]
        for outcome in more if not any(outcome.problem for outcome in report.fixed) else ():
            codes = [finding.rule.code for finding in outcome.done]
            yield "fix not done", f"a second fix changed {outcome.path.name}: {codes}\n{_fix_diff(outcome)}"
        left = sorted(path.name for path in self.folder.iterdir() if path.name not in (*before, *_KEPT_BY_US))
        if left:
            yield "fix left files", repr(left)
        if command and not more:
            fixed = {name: (self.folder / name).read_bytes() for name in case.files}
            case.write_case(self.folder)
            done = self._run_command("fix", "--unsafe-fixes", *case.command_arguments, str(self.folder))
            broken = report.failed or any(outcome.problem for outcome in report.fixed)
            expected = 2 if broken else 1 if any(outcome.left for outcome in report.fixed) else 0
            if done.returncode != expected:
                yield "fix exit code", f"{done.returncode}, not {expected}\n{done.stdout}\n{done.stderr}"
            elif fixed != {name: (self.folder / name).read_bytes() for name in case.files}:
                yield "fix command", "the command writes something else than the function"

    def _command_problems(self, case: Case, report: Report) -> Iterator[tuple[str, str]]:
        self.tally.counts["commands"] += 1
        done = self._run_command("check", "--output-format=json", *case.command_arguments, str(self.folder))
        expected = 2 if report.failed else 1 if report.finding_count else 0
        if done.returncode != expected or done.stderr:
            yield "exit code", f"{done.returncode}, not {expected}\n{done.stdout}\n{done.stderr}"
        elif json.loads(done.stdout) != json.loads(json_.dump_report(report)):
            yield "command", f"the command says something else than the function\n{done.stdout}"

    def _run_command(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "shardlint", *arguments]
        return subprocess.run(command, text=True, capture_output=True, timeout=120, check=False)


def _raise_slow(*_: object) -> None:
    raise Slow


def _wrong_report(report: Report, case: Case) -> Iterator[tuple[str, str]]:
    if report.failed:
        yield "crash", "\n".join(f"{path.name}: {reason}" for path, reason in report.skipped)
    for path, reason in report.skipped:
        depth = _tree_depth(case.files[path.name]) if "nested too deeply" in reason else None
        if depth is not None and depth < 90:
            yield "false depth", f"{path.name} is nested {depth} deep only: {reason}"
    for file in report.reports:
        length = len(file.source.text)
        for finding in file.findings:
            edits = finding.fix.edits if finding.fix is not None else ()
            for start, end in [(finding.start, finding.end), *((edit.start, edit.end) for edit in edits)]:
                if not 0 <= start <= end <= length:
                    yield "range", f"{finding.rule.code} in {file.path.name}: {start} to {end} of {length}"
    try:
        json.loads(json_.dump_report(report))
        lines = [
            line for part in (*text.full_report(report), *text.render_concise(report)) for line in part.split("\n")
        ]
    except Exception:
        yield "report crash", traceback.format_exc()
        return
    yield from (("steering", repr(line)) for line in lines if not line.isprintable())


def _wrong_fix(
    report: FixReport, case: Case, parsed: dict[str, bool], folder: Path
) -> Iterator[tuple[str, str]]:
    if report.failed:
        yield "fix crash", "\n".join(f"{path.name}: {reason}" for path, reason in report.skipped)
    for outcome in report.fixed:
        if outcome.problem and "does not fit the file's encoding" not in outcome.problem:
            yield "fix problem", f"{outcome.path.name}: {outcome.problem}"
    for name, good in parsed.items():
        data = (folder / name).read_bytes()
        if good and _parse_or_none(data) is None:
            yield "fix breaks", name
        if not good and data != case.files[name]:
            yield "fix of broken", f"{name} did not parse and was changed"


def _fix_diff(outcome: Any) -> str:
    from shardlint.rewrite.fix import unified_diff

    return "\n".join(unified_diff(outcome))


def _tree_depth(data: Data) -> int | None:
    """How deep the tree of a file is; None for what does not parse."""
    tree = _parse_or_none(data)
    if tree is None:
        return None
    deepest, level = 0, list(ast.iter_child_nodes(tree))
    while level:
        deepest += 1
        level = [child for node in level for child in ast.iter_child_nodes(node)]
    return deepest


# the run


def work_on_cases(
    pipe: Connection,
    folder: Path,
    generated: Path,
    packages: Sequence[str],
    seed: int,
    limit: float,
) -> None:
    """A worker: asks for cases by telling the counts of the last ones, and says each number before it begins."""
    sys.setrecursionlimit(_NESTING)
    gc.disable()  # as the command line has it
    # The same for every case, and half of the time of a small one.
    for place, name in ((targets, "_installed_releases"), (checking, "select_codes")):
        setattr(place, name, functools.cache(getattr(place, name)))
    bases, examiner = find_bases(generated, packages), Examiner(folder, limit)
    while True:
        pipe.send(examiner.tally)
        examiner.tally = Tally()
        numbers: range = pipe.recv()
        if not numbers:
            return
        for done, number in enumerate(numbers):
            pipe.send(number)
            case = make_case(seed, number, bases)
            for failure in examiner.examine_case(case, command=number % _COMMAND_EVERY == 7):
                pipe.send(failure)
            if done % _COLLECT_EVERY == 0:
                gc.collect()


@dataclass
class Worker:
    """A worker as its parent sees it."""

    index: int
    process: Any
    pipe: Connection
    heard: float
    numbers: range = range(0)
    at: int = -1


class Run:
    """Workers, started again behind the case that killed or hung them."""

    def __init__(
        self,
        seed: int,
        folder: Path,
        keep: Path | None,
        limit: float = LIMIT,
        programs: Path | None = None,
        packages: Sequence[str] = PACKAGES,
    ) -> None:
        self.seed, self.folder, self.keep, self.limit, self.packages = seed, folder, keep, limit, packages
        self.tally = Tally()
        self.failures: list[Failure] = []
        self.reached = -1
        """The last case before which all are done."""
        self._left: list[range] = []
        """Blocks of cases that no worker has."""
        self.awake = 0.0
        """Seconds since the beginning, without those in which this process was stopped, and its workers with it."""
        self.generated = programs or folder / "generated"
        self.generated.mkdir(parents=True, exist_ok=True)

    def run_cases(self, start: int, files: int, jobs: int, seconds: float | None = None) -> bool:
        """All cases, or those that fit in some seconds; returns whether all were done."""
        written = len(list(self.generated.glob("*.py"))) or generate_programs(self.generated, self.seed)
        self.tally.counts["generated programs"] = written
        until = time.monotonic() + seconds if seconds is not None else None
        cases = range(start, start + files)
        self._left = [cases[at : at + _BLOCK] for at in reversed(range(0, files, _BLOCK))]
        workers = [self._start_worker(index) for index in range(jobs)]
        try:
            while workers and (until is None or time.monotonic() < until):
                before = time.monotonic()
                wait([worker.pipe for worker in workers], timeout=1)
                self.awake += min(time.monotonic() - before, 2)
                for worker in list(workers):
                    self._read_worker_messages(worker, workers)
        except KeyboardInterrupt:
            print("interrupted: this is what was done until then", file=sys.stderr)
        undone = [block.start for block in (*self._left, *(worker.numbers for worker in workers)) if block]
        self.reached = min(undone, default=cases.stop) - 1
        for worker in workers:
            worker.process.kill()
            worker.process.join()
        return not workers

    def _start_worker(self, index: int) -> Worker:
        context = multiprocessing.get_context("spawn")
        ours, theirs = context.Pipe()
        folder = self.folder / f"worker{index}"
        arguments = (theirs, folder, self.generated, self.packages, self.seed, self.limit)
        process = context.Process(target=work_on_cases, args=arguments, daemon=True)
        process.start()
        theirs.close()
        return Worker(index, process, ours, self.awake)

    def _read_worker_messages(self, worker: Worker, workers: list[Worker]) -> None:
        try:
            while worker.pipe.poll():
                worker.heard = self.awake
                said = worker.pipe.recv()
                if isinstance(said, int):
                    worker.at = said
                elif isinstance(said, Tally):
                    self.tally.add_tally(said)
                    worker.numbers = self._left.pop() if self._left else range(0)
                    worker.at = worker.numbers.start - 1
                    worker.pipe.send(worker.numbers)
                    if not worker.numbers:
                        worker.process.join()
                        workers.remove(worker)
                        return
                else:
                    self._record_failure(said)
        except (EOFError, BrokenPipeError):
            worker.process.join()
            self._replace_worker(worker, workers, "died", f"exit code {worker.process.exitcode}")
            return
        # Before the first case it reads the packages; some cases are whole commands.
        slow = worker.at not in worker.numbers or worker.at % _COMMAND_EVERY == 7
        if self.awake - worker.heard > HUNG + 120 * slow:
            worker.process.kill()
            worker.process.join()
            self._replace_worker(worker, workers, "hung", f"nothing heard for {HUNG} s")

    def _replace_worker(self, worker: Worker, workers: list[Worker], kind: str, what: str) -> None:
        workers.remove(worker)
        if worker.at not in worker.numbers:
            raise SystemExit(f"a worker {kind} before its first case: {what}")
        case = make_case(self.seed, worker.at, self._find_bases)
        self._record_failure(Failure(worker.at, kind, what, case.files))
        rest = range(worker.at + 1, worker.numbers.stop)
        if rest:
            self._left.append(rest)
        if self._left:
            workers.append(self._start_worker(worker.index))

    @cached_property
    def _find_bases(self) -> Bases:
        return find_bases(self.generated, self.packages)

    def _record_failure(self, failure: Failure) -> None:
        self.failures.append(failure)
        place = failure.keep_failure(self.keep, self.seed) if self.keep is not None else "not kept"
        first = next(iter(failure.what.strip().splitlines()[-1:]), "")
        print(f"{failure.kind}: seed {self.seed} case {failure.number} ({place}): {first[:300]}", flush=True)


def check_many_files(count: int, folder: Path) -> list[str]:
    """Check a project of very many small files through the real command; returns what is wrong."""
    bad = (ROOT / "fixtures" / "SL201" / "bad.py").read_bytes()
    for number in range(count):
        place = folder / f"p{number // 1000}"
        place.mkdir(parents=True, exist_ok=True)
        (place / f"m{number}.py").write_bytes(
            bad if number % 1000 == 7 else b"import jax\n\nx = jax.jit(len)\n"
        )
    (folder / "setup.cfg").touch()
    begun = time.monotonic()
    command = [
        sys.executable,
        "-m",
        "shardlint",
        "check",
        "--select=SL201",
        "--output-format=json",
        str(folder),
    ]
    done = subprocess.run(command, text=True, capture_output=True, check=False)
    print(f"{count} files in {time.monotonic() - begun:.1f} s", flush=True)
    if done.returncode != 1 or done.stderr:
        return [f"exit code {done.returncode}: {done.stderr[-2000:]}"]
    found = json.loads(done.stdout)
    with_findings = len({finding["path"] for finding in found["findings"]})
    expected = len(range(7, count, 1000))
    wrong = found["files"] != count or found["skipped"] or with_findings != expected
    return [f"{found['files']} files, {with_findings} with findings, not {expected}"] if wrong else []


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--files", type=int, default=100_000, help="how many cases")
    parser.add_argument("--start", type=int, default=0, help="number of the first case")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--seconds", type=float, help="end after so long and say how far it came")
    parser.add_argument("--limit", type=float, default=LIMIT, help="seconds of processor time a file")
    parser.add_argument("--keep", type=Path, default=Path("fuzz-failures"), help="folder for what fails")
    parser.add_argument(
        "--programs", type=Path, help="folder to keep generated programs in, for runs in pieces"
    )
    parser.add_argument(
        "--packages", default=",".join(PACKAGES), help="installed packages to take files from"
    )
    parser.add_argument("--many", type=int, metavar="N", help="only check one project of N files")
    given = parser.parse_args()
    packages = tuple(name for name in given.packages.split(",") if name)
    scratch = Path(tempfile.mkdtemp(prefix="shardlint-fuzz-"))
    begun = time.monotonic()
    for number in (signal.SIGINT, signal.SIGTERM):  # also in the background, where shells ignore the first
        signal.signal(number, signal.default_int_handler)
    try:
        if given.many:
            wrong = check_many_files(given.many, scratch / "many")
            print(*wrong, sep="\n")
            raise SystemExit(1 if wrong else 0)
        run = Run(given.seed, scratch, given.keep, given.limit, given.programs, packages)
        done = run.run_cases(given.start, given.files, given.jobs, given.seconds)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    seconds = time.monotonic() - begun
    print(json.dumps({
        "seed": given.seed, "start": given.start, "reached": run.reached, "done": done, "seconds": round(seconds),
        "slowest": {"seconds": round(run.tally.slowest[0], 2), "case": run.tally.slowest[1]},
        "failures": collections.Counter(failure.kind for failure in run.failures),
        **dict(sorted(run.tally.counts.items())),
    }))  # fmt: skip
    raise SystemExit(1 if run.failures else 0)


if __name__ == "__main__":
    main()
