"""Two verifications of the same fixtures, before and after a change: what the change made worse."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from textwrap import shorten

from shardlint.verify.facts import Program
from shardlint.verify.report import FAIL, SKIP, Failure, Result
from shardlint.verify.spec import sizes_text
from shardlint.verify.texts import size_text

# How far sums may be apart, against the sum of sizes: another order of additions is no other number.
_SINGLE, _COARSEST = 1e-5, 5e-2
_ROUNDING = {"float64": 1e-10, "float32": _SINGLE, "bfloat16": 1e-2, "float16": 2e-3}
_SUMS = 4
_HEAD = 2
_LONGEST = 400
"""How much of a failure is told, in characters."""
_DROPS = "drops a donation:"
# Of a program that raised it is not known what it did.
_DID_NOT_RUN = frozenset({"raised", "stopped", "fixture", "distrust"})


def worse_fixtures(before: Sequence[Result], after: Sequence[Result]) -> dict[str, list[str]]:
    """Return the regressions, in words, by the fixtures (`FILE::NAME`) that show them."""
    known = {_key_of_result(result): result for result in before}
    seen = {_key_of_result(result) for result in after}
    found: dict[str, list[str]] = {}
    for result in after:
        said = list(_compare_results(known.get(_key_of_result(result)), result))
        if said:
            mesh = f" on {sizes_text(result.mesh)}" if result.mesh else ""
            known_of = found.setdefault(result.fixture or result.target, [])
            known_of += [f"{one}{mesh}" for one in said if not _is_said(one, mesh, known_of)]
    for result in before:
        if _key_of_result(result) not in seen and result.status not in (FAIL, SKIP):
            found.setdefault(result.fixture or result.target, []).append(f"level {result.level} is not reached")
    return found


def _is_said(one: str, mesh: str, known: Sequence[str]) -> bool:
    """Return whether another level reports the same for a mesh. A program compiled without a reuse also runs without
    it.
    """
    if one.startswith(_DROPS):
        return any(other.startswith(_DROPS) and other.endswith(mesh) for other in known)
    return f"{one}{mesh}" in known


def fixtures_not_run(results: Sequence[Result]) -> dict[str, str]:
    """The fixtures of which it is not known what they do, and why."""
    return {
        result.fixture or result.target: _shorten_failure(failure)
        for result in results
        for failure in result.failures
        if failure.kind in _DID_NOT_RUN
    }


def _shorten_failure(failure: Failure) -> str:
    return shorten(failure.failure_text(), _LONGEST, placeholder=" ...")


def _key_of_result(result: Result) -> tuple[str, str, str, str]:
    return result.fixture or result.target, str(sorted((result.mesh or {}).items())), result.level, result.topology


def _compare_results(before: Result | None, after: Result) -> Iterator[str]:
    old = {(one.kind, one.where) for one in before.failures} if before is not None else set()
    if before is None or any(kind in _DID_NOT_RUN for kind, _ in old):
        return
    for failure in after.failures:
        if (failure.kind, failure.where) not in old:
            yield f"fails: {_shorten_failure(failure)}"
    if before.program is not None and after.program is not None:
        yield from _program_regressions(before.program, after.program)
    yield from _call_regressions(before, after)
    if before.sketch and after.sketch and _describe_number_changes(before.sketch, after.sketch):
        yield f"other numbers: {', '.join(_describe_number_changes(before.sketch, after.sketch)[:3])}"


def _call_regressions(before: Result, after: Result) -> Iterator[str]:
    """Yield regressions of shardings and donations that a call shows. For functions without a jit nothing else shows
    them.
    """
    for path, (where, spec, whole, held) in after.laid.items():
        _, was, was_whole, was_held = before.laid.get(path, (where, spec, whole, held))
        if whole == was_whole and held > was_held:
            yield f"loses a sharding: {where} is {spec}, and was {was}"
    if after.given_up < before.given_up and (after.laid or not before.laid):  # else it was not called
        yield f"{_DROPS} {after.given_up} arrays are donated, and {before.given_up} were"


def _program_regressions(before: Program, after: Program) -> Iterator[str]:
    old = {one.path: one for one in before.arrays if one.role == "out"}
    for array in (one for one in after.arrays if one.role == "out"):
        was = old.get(array.path)
        if was is not None and was.bytes_whole == array.bytes_whole and array.bytes > was.bytes:
            yield f"loses a sharding: {array.where} is {array.spec}, and was {was.spec}"
    given, kept = (sum(one.aliased is True for one in program.arrays) for program in (before, after))
    if kept < given:
        yield f"{_DROPS} {kept} buffers are reused, and {given} were"
    moved, more = _moved_bytes(before), _moved_bytes(after)
    for place, size in more.items():
        if size > moved[place]:
            yield (
                f"adds communication in {place or 'the program'}: {size_text(size)}, before "
                f"{size_text(moved[place])}"
            )
            return


def _moved_bytes(program: Program) -> Counter[str]:
    """Bytes by the function whose lines move them: the lines themselves have other numbers after a change."""
    found: Counter[str] = Counter()
    for one in program.collectives:
        found[one.line.function] += one.moved_bytes
    return found


def _describe_number_changes(before: dict[str, list[object]], after: dict[str, list[object]]) -> list[str]:
    return [
        f"out {path}".rstrip()
        for path in dict.fromkeys([*before, *after])
        if path not in before or path not in after or not _are_alike(before[path], after[path])
    ]


def _are_alike(one: list[object], two: list[object]) -> bool:
    if one[:_HEAD] != two[:_HEAD] or len(one) != len(two):
        return False
    kind = str(one[0])
    whole = kind.startswith(("int", "uint", "bool"))
    rounding = 0.0 if whole else _ROUNDING.get(kind, _COARSEST if "float8" in kind else _SINGLE)
    numbers = [[float(str(number)) for number in told[_HEAD:]] for told in (one, two)]
    for start in range(0, len(numbers[0]), _SUMS):
        first, second = (part[start : start + _SUMS] for part in numbers)
        size = max(first[1], second[1])
        apart = [abs(a - b) for a, b in zip(first[1:], second[1:], strict=True)]
        if first[0] != second[0] or max(apart) > rounding * size:
            return False
    return True
