"""Findings of a verification as data, and the text and JSON reports of them."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from shardlint.output.printable import make_printable, printable_lines
from shardlint.source.patterns import compile_lazily
from shardlint.verify.facts import Program, read_program
from shardlint.verify.spec import sizes_text
from shardlint.verify.texts import bytes_text, largest_moves, size_text

PASS, FAIL, SKIP = "pass", "fail", "skip"
# How a function was taken that is no jit; reports say so even of one that passes.
PLAIN = "a plain function"


@dataclass
class Failure:
    """One thing that does not hold. Bytes are per device.

    `kind`: `sharding`, `replicated`, `donation`, `gradients`, `forbidden`, `budget`, `memory`, `program`, `numbers`,
    `replicas`, `opaque`, `pattern`, `empty`, `unchecked`, `fixture`, `symptom`, `rule`, `golden`, `distrust`, `raised`
    or `stopped`. `where` is a leaf as a person writes it, `out[0]['w1']`; `path` the same as a glob sees it.
    """

    kind: str
    message: str = ""
    where: str = ""
    path: str = ""
    array: str = ""
    expected: str = ""
    actual: str = ""
    bytes_expected: int | None = None
    bytes_actual: int | None = None

    def failure_text(self) -> str:
        """One line (more, where the message has more)."""
        parts = [" ".join(part for part in (self.where, self.array) if part)]
        if self.expected or self.actual:
            parts.append(f"expected {self.expected}")
            parts.append(f"got {self.actual}")
        if self.bytes_expected is not None and self.bytes_actual is not None:
            parts.append(bytes_text(self.bytes_expected, self.bytes_actual))
        elif self.bytes_actual is not None:
            parts.append(f"{size_text(self.bytes_actual)}/device")
        parts.append(self.message)
        # A message that begins with a line end goes on below.
        return "  ".join(part for part in parts if part).replace("  \n", "\n")


_DIFFERENCE = compile_lazily(r"(largest difference from (.+): (\S+) at .+) (\(tolerance \S+\))$")
# So many leaves that fail alike are told in one line.
_ALIKE = 3
_NAMED = 3


def failure_texts(failures: Iterable[Failure]) -> list[tuple[str, str]]:
    """Kind and text of each failure, in order; leaves of which the same was expected and found in one.

    `7 leaves  expected P('model')  got one device  14.0 MiB -> 112.0 MiB/device (8x): params['w1'] f32[512,512], ...`
    """
    alike: dict[tuple[str, ...], list[Failure]] = {}
    for one in failures:
        same = (one.kind, one.expected, one.actual, one.message)
        apart = () if one.where and one.expected else (str(len(alike)),)
        alike.setdefault((*same, *apart), []).append(one)
    found = []
    for group in alike.values():
        if len(group) < _ALIKE:
            found += [(one.kind, one.failure_text()) for one in group]
        else:
            found.append((group[0].kind, _sum_group(group)))
    return found


def _sum_group(group: Sequence[Failure]) -> str:
    expected, actual = (
        None if any(count is None for count in counts) else sum(filter(None, counts))
        for counts in ([one.bytes_expected for one in group], [one.bytes_actual for one in group])
    )
    whole = replace(
        group[0],
        where=f"{len(group)} leaves",
        array="",
        bytes_expected=expected,
        bytes_actual=actual,
    )
    names = [f"{one.where} {one.array}".rstrip() for one in group[:_NAMED]]
    more = [f"{len(group) - _NAMED} more"] if len(group) > _NAMED else []
    first, line, below = whole.failure_text().partition("\n")
    return f"{first}: {', '.join([*names, *more])}{line}{below}"


@dataclass
class Result:
    """Outcome of one level for one target (a fixture on a mesh, or the proof of a rule)."""

    target: str
    level: str
    status: str
    mesh: dict[str, int] | None = None
    reason: str = ""
    checked: int = 0
    failures: list[Failure] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    line: str = ""
    how: str = ""
    rerun: str = ""
    output: list[str] = field(default_factory=list)
    seconds: float = 0.0
    program: Program | None = None
    """What was compiled, from the levels that compile."""
    cached: bool = False
    """Whether the compiler was not asked again, as it was before about the same program."""
    kept: str = ""
    """When it was run, where it was not run now for nothing it rests on has changed; "" where it was run now."""
    fixture: str = ""
    """`FILE::NAME` of the fixture; "" for the proof of a rule, and for a file that could not be read."""
    topology: str = ""
    """What level `topology` compiled for, `v5e:4x4`."""
    sketch: dict[str, list[Any]] = field(default_factory=dict)
    """What the results were, in a few sums of each array (`inside.sketch`), where that was asked for."""
    laid: dict[str, list[Any]] = field(default_factory=dict)
    """Where they lay, likewise: how each is spelled, its sharding, its bytes whole and on one device."""
    given_up: int = 0
    """How many arrays of the arguments were donated and gone after the call, likewise."""

    @classmethod
    def decode_result(cls, data: Mapping[str, Any]) -> Result:
        """A result from the dictionary a child process sent."""
        failures = [Failure(**failure) for failure in data.get("failures", ())]
        program = read_program(data["program"]) if data.get("program") else None
        return cls(**{**data, "failures": failures, "program": program})


@dataclass
class Run:
    """All of one `shardlint verify`."""

    results: list[Result]
    releases: dict[str, str]
    limits: list[str]
    self_test: list[str]
    goldens: list[str] = field(default_factory=list)
    """What became of the golden files, one sentence each."""
    shard: str = ""
    """`2/4` where the run was this part of the work only."""
    unwritten: list[str] = field(default_factory=list)
    """Which golden or report could not be written, and why, one sentence each."""
    kept: list[str] = field(default_factory=list)
    """What was told from earlier runs and why other things were not, one sentence each."""

    def count_by_status(self) -> Counter[str]:
        """How many results passed, failed and were skipped."""
        return Counter(result.status for result in self.results)

    def exit_code(self) -> int:
        """0 when something passed and nothing failed, else 1: skipping everything verifies nothing.

        A shard may have nothing to do, or only what is skipped. 2 when not all could be written.
        """
        if self.unwritten:
            return 2
        counts = self.count_by_status()
        return 1 if counts[FAIL] or not (counts[PASS] or self.shard) else 0


def text_report(run: Run, colour: bool) -> str:
    """The report for a person."""
    lines: list[str] = []
    counted = Counter(note for result in run.results for note in dict.fromkeys(result.notes))
    shared = {note: count for note, count in counted.items() if count > 1}
    differences, count = _largest_differences(run.results)
    for result in run.results:
        own = [note for note in result.notes if note not in shared and not (count > 1 and _DIFFERENCE.match(note))]
        lines += _result_lines(replace(result, notes=own), colour)
    counts = run.count_by_status()
    packages = ", ".join(f"{name} {release}" for name, release in run.releases.items())
    lines.append("")
    lines.append(f"{counts[PASS]} passed, {counts[FAIL]} failed, {counts[SKIP]} skipped ({make_printable(packages)})")
    shared = {note: count for note, count in shared.items() if not _DIFFERENCE.match(note)} | differences
    for note, count in shared.items():
        lines += [line.removeprefix("  ") for line in _indent_text(f"note ({count} results): {note}")]
    lines += [make_printable(f"golden: {said}") for said in run.goldens]
    lines += [make_printable(f"kept: {said}") for said in run.kept]
    lines += [make_printable(f"self-test: {caught}") for caught in run.self_test]
    lines += [make_printable(f"limits: {limit}") for limit in run.limits]
    if not run.results:
        lines.append(f"shard {run.shard} has no work: the other shards do it")
    elif not counts[FAIL] and not counts[PASS]:
        where = f" in shard {run.shard}" if run.shard else ""
        lines.append(f"nothing was verified{where}: everything was skipped")
    return "\n".join(lines)


def _largest_differences(results: Sequence[Result]) -> tuple[dict[str, int], int]:
    """Return a note on the largest of all differences from each kind of reference, and the number of all notes on them.

    Nothing if there is only one: it stays at its result.
    """
    found: dict[str, list[tuple[float, str]]] = {}
    for result in results:
        for note in dict.fromkeys(result.notes):
            if match := _DIFFERENCE.match(note):
                text = f"{match[1]} of {result.target} {match[4]}"
                found.setdefault(match[2], []).append((float(match[3]), text))
    count = sum(map(len, found.values()))
    return {max(each)[1]: len(each) for each in found.values()} if count > 1 else {}, count


def json_report(run: Run, version: str) -> str:
    """The report for a program: one object."""
    counts = run.count_by_status()
    return json.dumps(
        {
            "schema": 1,
            "version": version,
            "releases": run.releases,
            "limits": run.limits,
            "self_test": run.self_test,
            "goldens": run.goldens,
            "kept": run.kept,
            "shard": run.shard,
            "results": [_plain_data(result) for result in run.results],
            "passed": counts[PASS],
            "failed": counts[FAIL],
            "skipped": counts[SKIP],
        },
        indent=2,
    )


def _plain_data(result: Result) -> dict[str, Any]:
    found = asdict(result)
    for compared in ("sketch", "laid", "given_up"):  # by `fix --verify`
        del found[compared]
    return found


def result_text(result: Result) -> str:
    """One result of the report for a person, without colours."""
    return "\n".join(_result_lines(result, False))


_SHOWN = 20
_COLOURS = {PASS: "32", FAIL: "31;1", SKIP: "33"}


def _result_lines(result: Result, colour: bool) -> Iterable[str]:
    word = result.status.upper()
    if colour:
        word = f"\x1b[{_COLOURS[result.status]}m{word}\x1b[0m"
    mesh = f"  mesh {sizes_text(result.mesh).replace(',', ' ')}" if result.mesh else ""
    level = f"  level {result.level} {result.topology}".rstrip() if result.level else ""
    counted = f"  {result.checked} checked" if result.status == PASS else ""
    counted += f"  kept from {result.kept}" if result.kept else "  from cache" if result.cached else ""
    reason = f"  {result.reason}" if result.reason else ""
    yield word + make_printable(f" {result.target}{mesh}{level}{counted}{reason}")
    if result.status == FAIL:
        failures = failure_texts(result.failures)
        for _, text in failures[:_SHOWN]:
            yield from _indent_text(text)
        if len(failures) > _SHOWN:
            yield f"  ... and {len(failures) - _SHOWN} more (all are in --output-format json)"
        if result.output:
            yield "  last output:"
            yield from (make_printable(f"  | {line}") for line in result.output)
    if result.line and (result.status == FAIL or PLAIN in result.how):
        what = "fn" if result.mesh else "proof"
        yield make_printable(f"  {what}: {result.line}" + (f", {result.how}" if result.how else ""))
    for note in result.notes:
        yield from _indent_text(f"note: {note}")
    if result.program is not None:
        yield from (make_printable(f"  {line}") for line in largest_moves(result.program))
    if result.status == FAIL and result.rerun:
        yield make_printable(f"  rerun: {result.rerun}")


def _indent_text(text: str) -> Iterable[str]:
    first, *others = printable_lines(text).splitlines() or [""]
    yield f"  {first}"
    yield from (f"    {line}" for line in others)
