"""Running one program of a rule's proof (bad.py or good.py) and saying what it showed.

The bad program runs first and leaves its numbers in a file; the good one, in another process, is
compared with them.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import jax

from shardlint.verify.inside import checks, compare, compiled, load, tree
from shardlint.verify.inside.failures import failure_from_exception
from shardlint.verify.paths import idle_globs, select_glob
from shardlint.verify.report import FAIL, PASS, SKIP, Failure, Result
from shardlint.verify.spec import P

# Relative to the largest number of a leaf, in the program's own dtypes: it chose them, and they are
# the same in both.
TOLERANCE = {"float64": 1e-10, "complex128": 1e-10, "bfloat16": 2e-2, "float16": 5e-3}
_ELSE = 1e-5
# A wrong number must be this many tolerances away from the right one, else it could be rounding.
CLEARLY = 100.0


@dataclass(frozen=True)
class Program:
    """One program of a proof, as the command describes it to the child."""

    code: str
    role: str
    file: str
    fn: str
    args: str | None
    reference: str | None
    shows: str
    error: str | None
    message: str | None
    donate: Sequence[int]
    out: Mapping[str, str]
    tolerance: float | None
    numbers: str
    """Where the bad program leaves its numbers."""


@dataclass
class _Observation:
    """Observations at one level. With `leaves` None the program produced no outputs."""

    error: BaseException | None = None
    warned: Sequence[warnings.WarningMessage] = ()
    leaves: list[tree.Leaf] | None = None
    output: Any = None
    donation: checks.Checked | None = None


def run_program(program: Program, levels: Sequence[str], emit: Callable[[Result], None]) -> None:
    """Run a program at each level and emit what it proved. A level that cannot tell is emitted as skipped."""
    judge = _judge_bad if program.role == "bad" else _judge_good
    seen = _Observation()
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        try:
            module = load.import_alone(_open_project_file(program.file))
            lacks = [name for name in (program.fn, program.args) if name and not hasattr(module, name)]
            if not lacks:
                function = getattr(module, program.fn)
                # Used as it is by both levels: compiling consumes nothing.
                args = tuple(getattr(module, program.args)()) if program.args else ()
        except Exception as error:
            for level in levels:
                emit(judge(program, level, _Observation(error, warned), None))
            return
        if lacks:  # the proof's mistake; as an AttributeError it could pass for a symptom
            failure = Failure("fixture", f"{program.role}.py has no {lacks[0]!r}")
            for level in levels:
                emit(Result(program.code, level, FAIL, failures=[failure]))
            return
        if "compile" in levels:
            if not compiled.can_lower(function):
                reason = f"{program.fn} has no .lower: only level execute can check it"
                emit(Result(program.code, "compile", SKIP, reason=reason))
            else:
                seen = _compile_program(program, function, args)
                seen.warned = list(warned)
                emit(judge(program, "compile", seen, module))
        if "execute" in levels:
            seen = _execute_program(program, function, args)
            seen.warned = list(warned)
            emit(judge(program, "execute", seen, module))


def _open_project_file(file: str) -> Path:
    load.open_project(Path(file))
    return Path(file)


def _compile_program(program: Program, function: Any, args: tuple[Any, ...]) -> _Observation:
    try:
        found = compiled.compile_function(function, args, {}, program.donate)
    except compiled.NoShardings:
        return _Observation()
    except Exception as error:
        return _Observation(error)
    return _Observation(leaves=found.outputs, donation=checks.check_donation(found))


def _execute_program(program: Program, function: Any, args: tuple[Any, ...]) -> _Observation:
    given = tree.snapshot_tree(args)
    try:
        output = jax.block_until_ready(function(*args))
    except Exception as error:
        return _Observation(error)
    leaves = tree.array_leaves(output, "out")
    return _Observation(leaves=leaves, output=output, donation=checks.check_deleted(given, program.donate))


def _judge_bad(program: Program, level: str, observation: _Observation, module: ModuleType | None) -> Result:
    """Return a result that passes if the bad program showed its symptom at this level."""
    if level == "execute" and observation.error is None:
        Path(program.numbers).write_bytes(compare.encode_numbers(compare.numbers_by_path(observation.output)))
    if program.shows in ("raises", "warns"):
        shown = _raised_or_warned(program, observation)
        if shown is None and level == "compile":
            return Result(program.code, level, SKIP, reason=f"bad.py {program.shows} only when it runs")
        return _symptom_result(program, level, observation, shown, f"{program.error} matching {program.message!r}")
    if observation.error is not None:
        return Result(
            program.code,
            level,
            FAIL,
            failures=[_prefix_failure("bad.py", failure_from_exception(observation.error))],
        )
    if program.shows == "numbers":
        if level == "compile":
            return Result(program.code, level, SKIP, reason="numbers are known only when it runs")
        return Result(
            program.code, level, PASS, notes=[]
        )  # decided beside the good program, which knows the right ones
    if observation.leaves is None:
        return Result(
            program.code, level, SKIP, reason="this jit reports its output shardings only when it runs"
        )
    if program.shows == "donation":
        lost = observation.donation.failures if observation.donation else []
        return _symptom_result(
            program, level, observation, lost[0].failure_text() if lost else None, "a donated buffer that is not reused"
        )
    result = checked_out(program, observation.leaves)
    for failure in result.failures:
        failure.kind, failure.message = (
            "symptom",
            f"bad.py does not show its symptom {failure.message}".strip(),
        )
    shown = "; ".join(
        f"{leaf.where} is {checks.sharding_text(leaf.sharding)}"
        for leaf in _named_leaves(program, observation.leaves)
    )
    status = FAIL if result.failures else PASS
    return Result(
        program.code, level, status, checked=0, failures=result.failures, notes=[f"bad.py: {shown}"]
    )


def _symptom_result(program: Program, level: str, observation: _Observation, shown: str | None, wanted: str) -> Result:
    """The result for a symptom seen (in words) or not (None)."""
    if shown is not None:
        return Result(program.code, level, PASS, notes=[f"bad.py: {shown}"])
    happened = "nothing like it happened"
    if observation.error is not None:
        happened = failure_from_exception(observation.error).message
    elif observation.warned:
        happened = "it warned: " + "; ".join(f"{w.category.__name__}: {w.message}" for w in observation.warned[:3])
    failure = Failure("symptom", f"bad.py does not show its symptom: {program.shows} {wanted}; {happened}")
    return Result(program.code, level, FAIL, failures=[failure])


def _judge_good(program: Program, level: str, observation: _Observation, module: ModuleType | None) -> Result:
    """Return a result that passes if the good program has its shardings and numbers, and not the symptom."""
    if observation.error is not None:
        return Result(
            program.code, level, FAIL, failures=[_prefix_failure("good.py", failure_from_exception(observation.error))]
        )
    if observation.leaves is None:
        return Result(
            program.code, level, SKIP, reason="this jit reports its output shardings only when it runs"
        )
    checked = checked_out(program, observation.leaves)
    if program.shows == "donation" and observation.donation is not None:
        checked += observation.donation
    if program.shows in ("raises", "warns"):
        checked.count += 1
        shown = _raised_or_warned(program, observation)
        if shown:
            checked.failures.append(Failure("symptom", f"good.py shows the symptom too: {shown}"))
    notes: list[str] = []
    if level == "execute":
        compared, notes = _compare_program_numbers(program, observation, module)
        checked += compared
        if not compared.count and not checked.failures and compare.numbers_by_path(observation.output):
            what = "proves nothing: the numbers of good.py were not compared; declare a `reference`"
            checked.failures.append(Failure("empty", what))
    elif not checked.count and not checked.failures:
        return Result(program.code, level, SKIP, reason="good declares nothing this level can check")
    for failure in checked.failures:
        _prefix_failure("good.py", failure)
    status = FAIL if checked.failures else PASS
    return Result(program.code, level, status, checked=checked.count, failures=checked.failures, notes=notes)


def _compare_program_numbers(
    program: Program, observation: _Observation, module: ModuleType | None
) -> tuple[checks.Checked, list[str]]:
    """Compare the good numbers with the reference and, unless its numbers are the symptom, with the
    bad program's.
    """
    checked = checks.Checked([], 0)
    notes: list[str] = []
    got = compare.numbers_by_path(observation.output)
    tolerance = _tolerance_by_path(program, got)
    bad = _numbers_left(Path(program.numbers))
    if program.reference is not None:
        want = compare.numbers_by_path(jax.block_until_ready(getattr(module, program.reference)()))
        compared, summary = compare.check_numbers(
            got, want, tolerance, f"{program.reference}()", zeros_prove=True
        )
        checked += compared
        notes += [f"good.py: {said}" for said in summary]
        if program.shows == "numbers":
            found, odd = compare.compare_leaves(bad or {}, want)
            worst = next((one for one in found if one.size > CLEARLY * tolerance(one.path)), None)
            if worst is None and not odd:
                message = f"bad.py does not show its symptom: its numbers are those of {program.reference}()"
                checked.failures.append(Failure("symptom", message))
            else:
                seen_text = (
                    odd[0] if worst is None else f"{worst.where} is wrong by {worst.size:.2g} relative"
                )
                notes.append(f"bad.py: {seen_text}")
    if bad is not None and program.shows not in ("raises", "numbers"):
        compared, summary = compare.check_numbers(got, bad, tolerance, "bad.py", zeros_prove=True)
        checked += compared
        notes += [f"good.py: {said}" for said in summary]
    return checked, notes


def checked_out(program: Program, leaves: Sequence[tree.Leaf]) -> checks.Checked:
    """Compare leaves with the program's `out`, each over the mesh it lies on itself."""
    out = dict(program.out)
    checked = checks.Checked([], 0)
    for message in idle_globs(out, [leaf.path for leaf in leaves]).values():
        checked.failures.append(Failure("pattern", message))
    for leaf in _named_leaves(program, leaves):
        found = select_glob(out, leaf.path)
        wanted = found[1] if found else ""
        if wanted == checks.ONE_DEVICE or leaf.sharding is None or checks.is_on_one_device(leaf.sharding):
            holds = (
                leaf.sharding is not None
                and checks.is_on_one_device(leaf.sharding)
                and wanted == checks.ONE_DEVICE
            )
        else:
            holds = _leaf_has_spec(leaf, P.parse_spec(wanted))
        checked.count += 1
        if not holds:
            actual = checks.sharding_text(leaf.sharding)
            checked.failures.append(
                Failure("sharding", "", leaf.where, leaf.path, leaf.describe_array, wanted, actual)
            )
    return checked


def _leaf_has_spec(leaf: tree.Leaf, spec: P) -> bool:
    mesh = getattr(leaf.sharding, "mesh", None)
    if mesh is None:  # a sharding without axis names can still be replicated
        return not spec.axis_names() and bool(leaf.sharding.is_fully_replicated)
    try:
        spec.explain_misfit(leaf.shape, dict(mesh.shape))
    except ValueError:
        return False
    return checks.is_same_sharding(leaf.sharding, mesh, spec, len(leaf.shape))


def _named_leaves(program: Program, leaves: Sequence[tree.Leaf]) -> list[tree.Leaf]:
    return [leaf for leaf in leaves if select_glob(program.out, leaf.path)]


def _raised_or_warned(program: Program, observation: _Observation) -> str | None:
    """The error or warning that is the symptom, in words, or None."""
    if program.shows == "raises":
        if observation.error is None or not _is_a(type(observation.error), program.error):
            return None
        text = str(observation.error)
        head = text.strip().splitlines()[0][:160] if text.strip() else ""
        return f"{type(observation.error).__name__}: {head}" if re.search(program.message or "", text) else None
    for warning in observation.warned:
        text = str(warning.message)
        if _is_a(warning.category, program.error) and re.search(program.message or "", text):
            return f"{warning.category.__name__}: {text.strip().splitlines()[0][:160]}"
    return None


def _is_a(kind: type, name: str | None) -> bool:
    """Return whether a class or one of its bases has a name, with or without its module."""
    return name is None or any(
        name in (base.__name__, f"{base.__module__}.{base.__name__}") for base in kind.__mro__
    )


def _tolerance_by_path(program: Program, got: Mapping[str, tuple[str, Any]]) -> Callable[[str], float]:
    def tolerance_for(path: str) -> float:
        if program.tolerance is not None:
            return program.tolerance
        return TOLERANCE.get(str(got[path][1].dtype), _ELSE) if path in got else _ELSE

    return tolerance_for


def _prefix_failure(name: str, failure: Failure) -> Failure:
    failure.message = f"{name}: {failure.message}" if failure.message else name
    return failure


def _numbers_left(file: Path) -> compare.Numbers | None:
    """The numbers the bad program left, or None when it left none."""
    return compare.decode_numbers(file.read_bytes()) if file.exists() else None
