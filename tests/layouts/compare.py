"""Comparison of predictions about programs with the results of jax.

    python -m tests.layouts.compare FIRST COUNT [RELEASE [linen | haliax]]

prints the differences of so many generated programs, and the figures; with a library, of programs of that.
"""

from __future__ import annotations

import ast
import json
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from shardlint.layouts.function_table import FunctionTable
from shardlint.layouts.interpreter import Interpreter, Modules
from shardlint.layouts.layout import RAW_KEY, Layout
from shardlint.layouts.values import AnyTree, DictValue, Unknown, Value, path_step, tree_children
from shardlint.layouts.violation import Violation
from shardlint.libraries import FUNCTIONS
from shardlint.libraries.haliax_axes import NamedArray
from shardlint.model.project import Project
from shardlint.source.decoding import decode_file
from tests.layouts import haliax_programs, linen_programs
from tests.layouts.generated import program
from tests.programs import simulated

# Errors about layouts, by their types, and by what others say.
_TYPES = ("ShardingTypeError", "IndivisibleError", "DuplicateSpecError")
_SAYS = ("incompatible devices", "memory_space", "sharding", "shard_map", "rank at least", "carry", "Mesh", "vmap should", "replicated",
         "AssertionError", "PartitionSpec", "cond branches", "pcast", "device assignment", "context mesh", "unsharded", "axis_index", "partition_name")  # fmt: skip


# Contracts whose breach raises nothing: arrays are padded, memory is not reused, numbers repeat.
_SILENT = frozenset(
    """spec.padded spec.odd made.whole donation.unused random.same gradient.summed gradient.own
    statistics.single result.differs result.first result.repeated copies.summed term.counted collective.some
    carried.memory carried.whole pattern.anchored rows.first rows.summed made.apart collective.elsewhere
    random.repeated random.handed reducer.own-maximum stack.reshaped reducer.means reducer.gradients
    reducer.by-all reducer.by-local reducer.own-sum reducer.own-count mean.nonlinear piece.along piece.shifted
    named.input mapping.axis mapping.outer mapping.none mapping.no-mesh piece.norm rows.again rows.taken rows.saved rows.shard variable.whole
    piece.mispaired""".split()
)


@dataclass
class Outcome:
    """Figures over programs, and what differs, in words."""

    programs: int = 0
    arrays: int = 0
    known: int = 0
    errors: int = 0
    predicted: int = 0
    wrong: list[str] = field(default_factory=list)
    missed: Counter[str] = field(default_factory=Counter)
    examples: dict[str, str] = field(default_factory=dict)
    unknown: Counter[str] = field(default_factory=Counter)
    others: Counter[str] = field(default_factory=Counter)

    def __str__(self) -> str:
        return (
            f"{self.programs} programs: {len(self.wrong)} wrong; of {self.errors} layout errors {self.predicted} predicted; "
            f"of {self.arrays} arrays {self.known} known in all parts"
        )


Maker = Callable[[int], str]
"""What makes a program of a seed."""


@dataclass
class Prediction:
    """Predictions about a program.

    arrays: what is known of the arrays that it binds, by line and path.
    broken: the contracts that it breaks.
    axes: the names and sizes of the axes of arrays of haliax, as far as they are known, by line and path.
    closed: the paths of all arrays of the trees whose structure is known, by line.
    inside: the lines within functions.
    statements: the first line of the statement of the module that each line is in.
    """

    arrays: dict[str, Layout] = field(default_factory=dict)
    axes: dict[str, list[list[Any]]] = field(default_factory=dict)
    broken: list[Violation] = field(default_factory=list)
    closed: dict[int, set[str]] = field(default_factory=dict)
    inside: set[int] = field(default_factory=set)
    statements: dict[int, int] = field(default_factory=dict)

    def statement(self, broken: Violation) -> int:
        """The statement of the module that leads to a breach, by its line."""
        line = (broken.calls[0] if broken.calls else broken.place).line
        return self.statements.get(line, line)

    @property
    def lines(self) -> set[int]:
        """The statements that break a contract."""
        return set(map(self.statement, self.broken))


def predicted(
    text: str, release: tuple[int, ...], functions: FunctionTable = FUNCTIONS
) -> Prediction:
    """Run a program on layouts."""
    path = Path("/program/main.py")
    source = decode_file(path, text.encode())
    project = Project(path.parent, {path: source})
    facts = project.parse_checked(source, path)
    run = Interpreter(Modules(project, functions, {"jax": release}), facts)
    run.run_file()
    found = Prediction(broken=list(run.violations.values()))
    for function in ast.walk(facts.tree):
        if isinstance(function, ast.FunctionDef):
            found.inside.update(_lines(function))
    for node in facts.tree.body:
        for statement in node.body if isinstance(node, ast.With) else [node]:
            found.statements |= dict.fromkeys(_lines(statement), statement.lineno)
    for statement in ast.walk(facts.tree):
        if isinstance(statement, ast.Assign):
            line, value = statement.lineno, run.layouts.get(statement.value)
            leaves = {path: one for path, one in _leaves(value) if isinstance(one, Layout)}
            found.arrays |= {f"{line}{path}": one for path, one in leaves.items()}
            found.axes |= {f"{line}{path}.array": axes for path, axes in _axes(value)}
            if type(value) is DictValue and all(isinstance(one, Layout) for _, one in _leaves(value)):
                found.closed[line] = {f"{line}{path}" for path in leaves}
    return found


def _lines(node: ast.stmt) -> range:
    return range(node.lineno, (node.end_lineno or node.lineno) + 1)


def _leaves(value: Value) -> Iterator[tuple[str, Value]]:
    """The leaves of a value with their paths; of a part that may hold others, Unknown too."""
    if isinstance(value, Unknown | AnyTree):
        yield "", Unknown()
        return
    parts = tree_children(value)
    if parts is None:
        yield "", value
        return
    if getattr(value, "open", False):
        yield "[?]", Unknown()
    for key, part in parts:
        yield from ((f"{path_step(value, key)}{path}", leaf) for path, leaf in _leaves(part))


def _axes(value: Value) -> Iterator[tuple[str, list[list[Any]]]]:
    """The axes of the arrays of haliax in a value, with their paths."""
    if isinstance(value, NamedArray) and value.axes is not None:
        yield "", [[one.name, one.size] for one in value.axes]
    for key, part in tree_children(value) or ():
        yield from ((f"{path_step(value, key)}{path}", axes) for path, axes in _axes(part))


class Observer:
    """A process that runs programs with jax, as many as it is given."""

    def __init__(self, python: str | Path = sys.executable, cache: Path | None = None) -> None:
        """`cache` is a folder for what jax compiles, which later processes take from it."""
        kept = {
            "JAX_COMPILATION_CACHE_DIR": str(cache),
            "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
            "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "-1",
        }
        quick = {"JAX_TRACEBACK_FILTERING": "off", "JAX_DISABLE_MOST_OPTIMIZATIONS": "1"}
        self._process = subprocess.Popen(
            [str(python), str(Path(__file__).with_name("observe.py"))],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env=simulated(8, **quick, **(kept if cache is not None else {})),
        )

    def observe(self, texts: Sequence[str]) -> list[dict[str, Any]]:
        """Return the layouts that jax makes in programs."""
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(json.dumps(texts) + "\n")
        self._process.stdin.flush()
        answer = self._process.stdout.readline()
        if not answer:
            raise RuntimeError("the process that runs the programs has ended, or one of them has no end")
        found: list[dict[str, Any]] = json.loads(answer)
        return found

    def close(self) -> None:
        """End the process."""
        self._process.communicate()


def observe(texts: Sequence[str], python: str = sys.executable) -> list[dict[str, Any]]:
    """Return the layouts that jax makes in programs, in a process of their own."""
    observer = Observer(python)
    try:
        return observer.observe(texts)
    finally:
        observer.close()


def compare(
    seeds: Sequence[int], release: tuple[int, ...], python: str = sys.executable, make: Maker | None = None
) -> Outcome:
    """Compare the programs of some seeds."""
    outcome = Outcome()
    texts = list(map(make or partial(program, release=release), seeds))
    for text, seen in zip(texts, observe(texts, python), strict=True):
        note(outcome, text, seen, release)
    return outcome


def note(
    outcome: Outcome,
    text: str,
    seen: dict[str, Any],
    release: tuple[int, ...],
    functions: FunctionTable = FUNCTIONS,
) -> None:
    """Enter one program into the figures."""
    outcome.programs += 1
    found = predicted(text, release, functions)
    lines = text.splitlines()
    last, inner, ran = seen["line"] or len(lines) + 1, seen["inner"], seen["ran"]
    checked = "check_vma=False" not in text
    exact = "flax" not in text  # a layer of flax raises where it is called, not where it was made
    for line, actual in seen["arrays"].items():
        number = _line_number(line)
        if seen["error"] and number in found.inside:
            continue  # the prediction is that of a call which did not come to run
        outcome.arrays += 1
        layout = found.arrays.get(line)
        if layout is not None and is_known(layout):
            outcome.known += 1
        else:
            outcome.unknown[_words(_line(lines, line))] += 1
        if layout is not None:
            for difference in (*differences(layout, actual, checked), *_other_axes(found.axes.get(line), actual)):
                outcome.wrong.append(f"{line}: {difference}\n    {_line(lines, line)}\n{text}")
    for number, paths in found.closed.items():
        seen_there = {path for path in seen["arrays"] if _line_number(path) == number}
        if number < last and seen_there and paths != seen_there:
            difference = f"paths {sorted(paths ^ seen_there)}"
            outcome.wrong.append(f"{difference}\n    {lines[number - 1].strip()}\n{text}")
    broken = [one for one in found.broken if one.kind not in _SILENT]
    for one in broken:
        top, place = found.statement(one), one.place.line
        if top < last or (exact and top == last and place in ran and place != inner):
            outcome.wrong.append(
                f"{one.kind} at line {place}, and jax raises nothing there\n    {lines[place - 1].strip()}\n{text}"
            )
    if seen["error"]:
        key = f"{seen['error']}: {(seen['said'].splitlines() or [''])[0][:70]}"
        seen["named"] = "haliax" in text
        if not _is_layout_error(seen):
            outcome.others[key] += 1
            outcome.examples.setdefault(key, f"{lines[inner - 1].strip()}\n{text}")
            return
        outcome.errors += 1
        there = [one.place.line for one in broken if found.statement(one) == last]
        if any(not exact or line not in ran or line == inner for line in there):
            outcome.predicted += 1
        else:
            outcome.missed[key] += 1
            outcome.examples.setdefault(key, f"{lines[inner - 1].strip()}\n{text}")


def _words(line: str) -> str:
    """A statement without what differs from one to the next."""
    return "".join("#" if one.isdigit() else one for one in line.partition(" = ")[2])[:70]


def _line_number(path: str) -> int:
    """The line at which a path of a tree begins: 12 of `12[0].mu`."""
    found = re.match(r"\d+", path)
    assert found is not None, path
    return int(found[0])


def _line(lines: list[str], path: str) -> str:
    return lines[_line_number(path) - 1].strip()


def _is_layout_error(seen: dict[str, Any]) -> bool:
    said = f"{seen['error']}: {seen['said']}"
    if seen["named"]:
        return True  # haliax raises errors of all types
    if seen["said"].startswith(("INTERNAL", "UNIMPLEMENTED")) or seen["error"] == "AttributeError":
        return False  # the compiler of CPUs cannot do it, or the release lacks the name
    return seen["error"] in _TYPES or any(one in said for one in _SAYS)


def is_known(layout: Layout) -> bool:
    return (
        layout.shape is not None
        and None not in layout.shape
        and (layout.mesh is None or layout.spec is not None)
    )


def differences(layout: Layout, actual: dict[str, Any], checked: bool = True) -> Iterator[str]:
    """The parts of a prediction that are not so. `checked`: jax follows along which axes values vary."""
    if layout.shape is not None and not _agree(layout.shape, actual["shape"]):
        yield f"shape {layout.shape}, not {actual['shape']}"
    spec = actual.get("spec")
    if layout.spec is not None and spec is not None and not _agree(layout.spec, list(map(tuple, spec))):
        yield f"spec {layout.spec}, not {spec}"
    dtype = actual["dtype"].partition("<")[0]
    if layout.dtype == RAW_KEY:
        layout = replace(layout, dtype="uint32")
    if layout.dtype is not None and not layout.host and layout.dtype != dtype:
        yield f"dtype {layout.dtype}, not {dtype}"
    if "varying" in actual and checked and layout.varying not in (None, frozenset(actual["varying"])):
        yield f"varying {sorted(layout.varying)}, not {actual['varying']}"
    if "device" not in actual:
        return
    if layout.memory is not None and not layout.host and layout.memory != actual["memory"]:
        yield f"memory {layout.memory}, not {actual['memory']}"
    if layout.mesh is not None and spec is None and actual["device"] is not None:
        yield f"on a mesh, not on device {actual['device']}"
    if layout.device is not None and layout.device != f"device {actual['device']}":
        yield f"{layout.device}, not {actual['device']}"
    if layout.committed is not None and not layout.host and layout.committed != actual["committed"]:
        yield f"committed {layout.committed}"


def _other_axes(axes: list[list[Any]] | None, actual: dict[str, Any]) -> Iterator[str]:
    """The axes of an array of haliax that are predicted and not so."""
    if axes is not None and not _agree([name for name, _ in axes], [name for name, _ in actual.get("axes", ())]):
        yield f"axes {axes}, not {actual.get('axes')}"


def _agree(known: Sequence[Any], actual: Sequence[Any]) -> bool:
    return len(known) == len(actual) and all(
        one is None or one == two for one, two in zip(known, actual, strict=True)
    )


def show(outcome: Outcome, wrong: int = 20, missed: int = 12) -> None:
    """Print the figures, and what differs."""
    for one in outcome.wrong[:wrong]:
        print(one)
    for title, counted in (("missed", outcome.missed), ("other errors", outcome.others)):
        for key, number in counted.most_common(missed):
            print(f"{title}: {number} {key}\n       {outcome.examples[key].splitlines()[0]}")
    for key, number in outcome.unknown.most_common(missed):
        print(f"not known: {number} {key}")
    print(outcome)


if __name__ == "__main__":
    first, count = int(sys.argv[1]), int(sys.argv[2])
    version = tuple(map(int, (sys.argv[3] if len(sys.argv) > 3 else "0.12.0").split(".")))
    makers = {"linen": linen_programs.program, "haliax": haliax_programs.program}
    maker = makers[sys.argv[4]] if len(sys.argv) > 4 else None
    show(compare(range(first, first + count), version, make=maker))
