"""Recorded facts of a program in a golden, and differences from them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path

from shardlint.output.printable import make_printable
from shardlint.verify.facts import Array, Program
from shardlint.verify.golden.file import GoldenProgram, KeptArray, KeptLine
from shardlint.verify.lines import Lines
from shardlint.verify.report import Failure
from shardlint.verify.spec import P, sizes_text

_Change = tuple[KeptLine | None, KeptLine | None]


def record_program(program: Program, level: str, folder: Path, stamp: Mapping[str, str]) -> GoldenProgram:
    """Return the facts of a program that a golden records. `folder` is that of its fixture."""
    lines = Lines(folder)
    moved: dict[tuple[str, str, str, str], list[tuple[str, int]]] = {}
    numbers: dict[tuple[str, str, str, str], int] = {}
    for one in sorted(program.collectives, key=lambda one: (one.line.file, one.line.line)):
        text = lines.line_text(one.line) or (f"line {one.line.line}" if one.line.line else "")
        parts = (lines.portable_name(one.line.file), one.line.function, text, ", ".join(one.axes))
        key = (make_printable(parts[0]), make_printable(parts[1]), make_printable(parts[2]), make_printable(parts[3]))
        moved.setdefault(key, []).append((one.kind, one.moved_bytes))
        numbers.setdefault(key, one.line.line)
    return GoldenProgram(
        mesh=sizes_text(program.mesh),
        level=level,
        backend=program.backend,
        releases=dict(stamp),
        arrays={make_printable(array.where): _kept_array(array, program.mesh) for array in program.arrays},
        lines=[
            KeptLine(
                *key, sum(count for _, count in each), _count_kinds(kind for kind, _ in each), numbers[key]
            )
            for key, each in moved.items()
        ],
    )


def _kept_array(array: Array, mesh: Mapping[str, int]) -> KeptArray:
    reused = array.aliased if array.donated else None
    return KeptArray(make_printable(array.array), make_printable(_normalized_spec(array, mesh)), array.bytes, reused)


def _normalized_spec(array: Array, mesh: Mapping[str, int]) -> str:
    """The spec without axes of size 1 and trailing None, which say nothing and which releases write differently."""
    if array.axes is None:
        return array.spec
    entries: list[str | tuple[str, ...] | None] = []
    for names in array.axes:
        left = tuple(name for name in names if mesh.get(name) != 1)
        entries.append(None if not left else left[0] if len(left) == 1 else left)
    while entries and entries[-1] is None:
        entries.pop()
    return str(P(*entries))


def _count_kinds(kinds: Iterable[str]) -> str:
    counts = sorted(Counter(kinds).items())
    return ", ".join(kind if count == 1 else f"{count} {kind}" for kind, count in counts)


def compare_runs(
    old: GoldenProgram, now: GoldenProgram, tolerance: float, path: Path, folder: Path
) -> tuple[list[Failure], list[str]]:
    """The drifts from what the golden at `path` has to now, and what is no drift but worth saying.

    Arrays are compared always, communication only where the releases of jax are the same. Bytes within
    `tolerance` (a fraction) of the golden's are the same.
    """
    drifts = list(_array_drifts(old, now, tolerance, path))
    if old.jax_release() != now.jax_release():
        releases = f"{path} is from jax {old.jax_release()}, and this is jax {now.jax_release()}"
        said = f"communication was not compared: {releases}"
        return drifts, [said]
    changed, reworded = _line_drifts(old, now, tolerance, Lines(folder))
    drifts += [_line_failure(was, is_now, path) for was, is_now in changed]
    if not reworded:
        return drifts, []
    said = "1 line is worded" if reworded == 1 else f"{reworded} lines are worded"
    return drifts, [f"{path}: {said} differently and moves the same bytes; --update stores the new text"]


def _array_drifts(old: GoldenProgram, now: GoldenProgram, tolerance: float, path: Path) -> Iterable[Failure]:
    for where in dict.fromkeys([*old.arrays, *now.arrays]):
        was, is_now = old.arrays.get(where), now.arrays.get(where)
        if was is not None and is_now is not None:
            # A release that cannot tell whether a buffer was reused does not say that it was not.
            kept = None in (was.reused, is_now.reused) or was.reused == is_now.reused
            same = (was.array, was.spec) == (is_now.array, is_now.spec)
            if same and kept and _is_near(was.bytes, is_now.bytes, tolerance):
                continue
        array = is_now or was
        assert array is not None
        whole = was is None or is_now is None or was.array != is_now.array
        shown = [f"{sign} {one.describe_array(whole)}" for sign, one in (("-", was), ("+", is_now)) if one]
        if was and is_now and was.bytes and was.bytes != is_now.bytes:
            shown[-1] += f"  ({is_now.bytes / was.bytes:.3g}x)"
        yield Failure("golden", "\n".join([f"differs from {path}", *shown]), where, array=array.array)


def _line_drifts(old: GoldenProgram, now: GoldenProgram, tolerance: float, lines: Lines) -> tuple[list[_Change], int]:
    """Lines whose bytes over some axes changed, came or went; and how many are only written otherwise now."""
    before = {line.line_key(): line for line in old.lines}
    after = {line.line_key(): line for line in now.lines}
    changed: list[_Change] = [
        (before[key], after[key])
        for key in before
        if key in after and not _is_near(before[key].bytes, after[key].bytes, tolerance)
    ]
    gone = [line for key, line in before.items() if key not in after]
    come = [line for key, line in after.items() if key not in before]
    reworded = 0
    # First a line that moved to another function or file; then one that was edited, whose old text is nowhere now.
    for same in (_is_same_text, _is_same_place):
        for line in list(gone):
            if same is _is_same_place and lines.contains_line(line.file, line.text):
                continue
            match = next(
                (new for new in come if same(line, new) and _is_near(line.bytes, new.bytes, tolerance)), None
            )
            if match is not None:
                gone.remove(line)
                come.remove(match)
                reworded += 1
    # Of what is left, a change of one line's bytes is shown as one.
    for line in gone:
        match = next((new for new in come if _is_same_text(line, new)), None)
        if match is not None:
            come.remove(match)
        changed.append((line, match))
    return [*changed, *((None, line) for line in come)], reworded


def _is_same_text(old: KeptLine, new: KeptLine) -> bool:
    return bool(old.text) and (old.text, old.axes) == (new.text, new.axes)


def _is_same_place(old: KeptLine, new: KeptLine) -> bool:
    return (old.file, old.function, old.axes) == (new.file, new.function, new.axes)


def _line_failure(was: KeptLine | None, now: KeptLine | None, path: Path) -> Failure:
    line = now or was
    assert line is not None
    shown = [f"{sign} {one.describe_moved()}" for sign, one in (("-", was), ("+", now)) if one]
    if was and now and was.bytes:
        shown[-1] += f"  ({now.bytes / was.bytes:.3g}x)"
    text = [f"  {line.text}"] if line.text else []
    return Failure("golden", "\n".join([f"differs from {path}", *text, *shown]), line.format_place())


def _is_near(old: int, new: int, tolerance: float) -> bool:
    return abs(new - old) <= tolerance * old
