"""Running one fixture on one mesh, level by level."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from dataclasses import field as dataclass_field
from typing import Any

from shardlint.verify.declarations import REFERENCE, REPLICATED, name_item
from shardlint.verify.facts import Program
from shardlint.verify.fixture import EXPLICIT, SINGLE_DEVICE, Fixture
from shardlint.verify.inside import (
    checks,
    compiled,
    devices,
    gradients,
    invoke,
    limits,
    load,
    numerics,
    opaque,
    placed_arguments,
    program,
    sketch,
    tree,
)
from shardlint.verify.inside.coverage import Coverage, Looked
from shardlint.verify.inside.explain import explain_failures
from shardlint.verify.inside.failures import failure_from_exception
from shardlint.verify.inside.single_device_run import ReferenceRun
from shardlint.verify.paths import nothing_matches, select_glob, unmatched_globs
from shardlint.verify.report import FAIL, PASS, PLAIN, SKIP, Failure, Result
from shardlint.verify.spec import P
from shardlint.verify.texts import line_text

Emit = Callable[[Result], None]


@dataclass
class _Outcome:
    """Result of a level. With `checked` None the level could do nothing and `how` is the reason, else `how` it was
    checked.
    """

    checked: checks.Checked | None
    how: str
    notes: list[str] = dataclass_field(default_factory=list)
    program: Program | None = None
    sketch: dict[str, list[Any]] = dataclass_field(default_factory=dict)
    laid: dict[str, list[Any]] = dataclass_field(default_factory=dict)
    given_up: int = 0


@dataclass(frozen=True)
class _Case:
    """A fixture on a mesh, with its arguments made. `later` are the levels that come after, `alone` is what the run
    on one device gave; `sketch` whether all is to be told that two runs are compared by, also what nothing declares.
    """

    fixture: Fixture
    function: Any
    made: list[placed_arguments.HostArgument]
    mesh: Any
    later: Sequence[str]
    alone: ReferenceRun | None
    sketch: bool = False

    @property
    def declares_placement(self) -> bool:
        """True if it declares where outputs lie."""
        return bool(self.fixture.out) or self.fixture.replicated_bytes_max is not None


def run_fixture(
    fixture: Fixture,
    sizes: Mapping[str, int],
    levels: Sequence[str],
    emit: Emit,
    coverage: Coverage | None = None,
    reference_run: ReferenceRun | None = None,
    sketched: bool = False,
) -> None:
    """Verify a fixture on a mesh of these axis sizes and emit a result for each level as soon as it is known.

    `coverage` has what earlier levels checked, `reference_run` what the run on one device gave; `sketched` results come
    with what two runs are compared by: numbers in short, layouts, the program. Nothing the user's code raises gets out
    of here; it becomes a failure that names its line.
    """
    done: list[str] = []
    coverage = coverage or Coverage(fixture, levels)

    def tell_result(level: str, status: str, **more: Any) -> None:
        done.append(level)
        emit(Result(fixture.function_label(), level, status, dict(sizes), **more))

    line = ""
    try:
        if fixture.declares_nothing() and not sketched:
            reason = "checks nothing: declare out, gradients, replicated_bytes_max, donate, forbid, budget, "
            reason += "memory_max or reference"
            for level in levels:
                tell_result(level, FAIL, failures=[Failure("empty", reason)])
            return
        function = load.resolve_reference(fixture.fn)
        line = load.place_of(function)
        mesh = devices.mesh_of(sizes, fixture.axis_types == EXPLICIT)
        entered, under = devices.enter_mesh_context(fixture.context, mesh)
        with entered:
            made = placed_arguments.make_arguments(fixture, mesh)
        for index, level in enumerate(levels):
            case = _Case(fixture, function, made, mesh, levels[index + 1 :], reference_run, sketched)
            outcome = _LEVELS[level](case)
            told_of = judge_level(coverage, level, outcome.checked, outcome.how)
            told_of["notes"] = [*outcome.notes, *told_of["notes"]]
            if told_of["status"] != SKIP:
                told_of |= {"line": line, "program": outcome.program}
                told_of["how"] = "" if outcome.checked is None else f"{outcome.how}, under {under}"
            if sketched:
                seen = {"sketch": outcome.sketch, "laid": outcome.laid, "given_up": outcome.given_up}
                told_of |= {"program": outcome.program, **seen}
            tell_result(level, **told_of)
    except placed_arguments.Indivisible as error:
        for level in levels:
            if level not in done:
                tell_result(level, SKIP, reason=str(error))
    except Exception as error:
        left = [level for level in levels if level not in done]
        if left:
            tell_result(left[0], FAIL, failures=[failure_from_exception(error)], line=line)
        for level in left[1:]:
            tell_result(level, SKIP, reason=f"level {left[0]} raised")


def judge_level(
    coverage: Coverage, level: str, checked: checks.Checked | None, reason: str
) -> dict[str, Any]:
    """Return the fields of a level's result: `status`, `checked`, `failures`, `notes`, and the `reason` of a skip.

    It passes where something was compared, nothing failed, and no declaration is left that a level still to come
    cannot check. `checked` None: it could do nothing, for this `reason`.
    """
    looked = Looked() if checked is None else checked.looked
    unchecked, notes = coverage.close_level(level, looked, reason if checked is None else "")
    count, failures = (0, []) if checked is None else (checked.count, checked.failures)
    failures = [*failures, *unchecked]
    notes = [*looked.coverage_sentences(), *notes]
    told_of: dict[str, Any] = {"checked": count, "failures": failures, "notes": notes}
    if failures:
        return {"status": FAIL, **told_of}
    if count:
        return {"status": PASS, **told_of}
    if checked is None:
        return {"status": SKIP, "reason": reason, "notes": notes}
    if looked.idle or looked.missed:
        why = "; ".join(looked.coverage_sentences() or dict.fromkeys(looked.missed.values()))
        return {"status": SKIP, "reason": why, "notes": []}
    nothing = Failure("empty", "checks nothing: no output leaf was compared")
    return {"status": FAIL, **told_of, "failures": [nothing]}


def _run_compile_level(case: _Case) -> _Outcome:
    fixture, mesh = case.fixture, case.mesh
    shown = case.declares_placement or bool(fixture.donate) or fixture.limits_compiled()
    if not (shown or fixture.gradients):
        return _Outcome(None, _NOTHING, program=_undeclared_program(case) if case.sketch else None)
    args, keywords = _arguments_to_compile(case)
    outcome, described = _Outcome(checks.Checked([], 0), ""), None
    if shown:
        found = _compile_case(case, args, keywords)
        if isinstance(found, str):
            return _Outcome(None, found)
        outcome.how = found.how
        described = program.describe_program(found, mesh, case.made, fixture.expected_specs())
        _check_compiled(case, found, described, outcome)
    if fixture.gradients:
        entered, _ = devices.enter_mesh_context(fixture.context, mesh)
        with entered:
            compared, of_gradients = _check_gradients(case, args, keywords)
        assert outcome.checked is not None
        outcome.checked += compared
        if described is None:
            outcome.how, described = "its gradients, by jax.jit(jax.grad(fn))", of_gradients
    if described is not None:
        outcome.program = facts = described.program
        outcome.notes += [
            f"{_WARNINGS[one.kind]} at {line_text(one.line)}: {one.message}" for one in facts.warned
        ]
        outcome.notes += facts.notes
    return outcome


def _arguments_to_compile(case: _Case) -> tuple[list[Any], Mapping[str, Any]]:
    """The arguments to compile with, and those that are given by name."""
    if compiled.takes_abstract(case.function, [one.tree for one in case.made]):
        args = placed_arguments.describe_arguments(case.made, case.mesh)
    else:
        args = placed_arguments.place_arrays(placed_arguments.fill_arguments(case.made), case.made, case.mesh)
    return args, invoke.keyword_arguments(case.function, args, case.mesh)


def _undeclared_program(case: _Case) -> Program | None:
    """The program of a function of which nothing is declared that compiling could check; None where there is none.

    Of a plain function, which the compiler was given in a jit around it, not where its outputs lie.
    """
    try:
        found = _compile_case(case, *_arguments_to_compile(case), tolerant=True)
        if isinstance(found, str):
            return None
        told = program.describe_program(found, case.mesh, case.made, {}).program
    except Exception:  # nothing was declared that this could break
        return None
    return told if found.is_jit else replace(told, arrays=())


def _compile_case(
    case: _Case, args: list[Any], keywords: Mapping[str, Any], tolerant: bool = False
) -> compiled.Compiled | str:
    """The compiled function, or why there is none."""
    fixture = case.fixture
    entered, _ = devices.enter_mesh_context(fixture.context, case.mesh)
    try:
        with entered:
            return compiled.compile_function(
                case.function, args, keywords, fixture.donate, tolerant or fixture.limits_compiled()
            )
    except compiled.NoShardings as error:
        return str(error)
    except Exception as error:
        # Nobody said that a plain function can be traced; what it does when it is called is for the next level.
        if not case.later or compiled.can_lower(case.function):
            raise
        return (
            f"fn is {PLAIN}, which cannot be wrapped in jit ({type(error).__name__}); use the jit that it "
            "calls as fn"
        )


def _check_compiled(
    case: _Case, found: compiled.Compiled, described: program.Described, outcome: _Outcome
) -> None:
    fixture, out = case.fixture, case.fixture.expected_specs()
    checked = checks.Checked([], 0)
    if found.untold:
        outcome.notes += [f"{found.untold}: out is checked at level execute"] if case.declares_placement else []
    else:
        checked = checks.check_placement(found.outputs, out, case.mesh, fixture.replicated_limit())
        if not found.is_jit and "execute" in case.later:
            outcome.notes += _put_off(checked, out)
        explain_failures(checked.failures, found.outputs, described)
    checked += checks.check_donation(found)
    checked += limits.check_limits(fixture, described.program)
    outcome.checked = checked


def _put_off(checked: checks.Checked, out: Mapping[str, P]) -> list[str]:
    """Leave what is wrong with the placement of a plain function's outputs to the level that calls it as it is, and
    say so: the jit it was wrapped in may lay out what the function, called without, does not.
    """
    wrong = [failure for failure in checked.failures if failure.kind in ("sharding", "replicated")]
    checked.failures = [failure for failure in checked.failures if failure not in wrong]
    for failure in wrong:
        found = select_glob(out, failure.path) if failure.kind == "sharding" else None
        text = REPLICATED if found is None else name_item("out", found[0])
        checked.looked.proved.discard(text)
        checked.looked.missed[text] = f"fn is {PLAIN}: level execute checks the shardings of its outputs"
        checked.count -= 1
    if not wrong:
        return []
    more = f" (and {len(wrong) - 1} more like it)" if len(wrong) > 1 else ""
    return [f"in a jit around it: {wrong[0].failure_text()}{more}; level execute calls fn as it is and decides"]


def _check_gradients(
    case: _Case, args: list[Any], keywords: Mapping[str, Any]
) -> tuple[checks.Checked, program.Described | None]:
    """Where the gradients of a function that returns a scalar lie, and the program that computes them."""
    wanted = case.fixture.expected_gradients()
    told_of = Looked({name_item("gradients", glob) for glob in wanted})
    try:
        found, leaves = gradients.compile_gradients(case.function, args, keywords, list(wanted))
    except gradients.NotScalar as error:
        return checks.Checked([Failure("gradients", str(error))], 0, told_of), None
    except Exception as error:
        if not case.later or compiled.can_lower(case.function):
            raise
        why = f"fn is {PLAIN}, and jax.grad of it cannot be traced: {type(error).__name__}"
        return checks.Checked([], 0, Looked(missed=dict.fromkeys(told_of.proved, why))), None
    if found is None:
        lost = unmatched_globs(wanted, [leaf.path for leaf in leaves])
        failures = [
            Failure("pattern", f"gradients: {nothing_matches(glob, near)}") for glob, near in lost.items()
        ]
        return checks.Checked(failures, 0, told_of), None
    checked = checks.check_placement(leaves, wanted, case.mesh, None, "gradients")
    described = program.describe_program(found, case.mesh, case.made, wanted)
    explain_failures(checked.failures, leaves, described)
    return checked, described


def _run_execute_level(case: _Case) -> _Outcome:
    fixture, function, made, mesh = case.fixture, case.function, case.made, case.mesh
    declares = case.declares_placement or fixture.donate or fixture.reference is not None
    if not (declares or case.sketch):
        return _Outcome(None, _NOTHING)
    how = "called as it is" if compiled.can_lower(function) else f"{PLAIN}, called as it is"
    hosts = placed_arguments.fill_arguments(made)
    args = placed_arguments.place_arrays(hosts, made, mesh)
    given = tree.snapshot_tree(args)
    output = invoke.call_function(function, args, mesh, fixture.context)
    leaves = tree.array_leaves(output, "out")
    seen: dict[str, Any] = {}
    if case.sketch:
        seen = {
            "sketch": sketch.sketch_output(output),
            "laid": sketch.laid_arrays(leaves),
            "given_up": sketch.count_donated_arrays(given),
        }
    if not declares:
        return _Outcome(None, _NOTHING, **seen)
    checked = checks.check_placement(leaves, fixture.expected_specs(), mesh, fixture.replicated_limit())
    checked += checks.check_deleted(given, fixture.donate)
    checked.failures += checks.check_replicas(output).failures
    checked.failures += opaque.check_opaque(output)
    notes = opaque.left_where_they_are(given)
    if fixture.reference is not None:
        compared, said = _compare_numbers(case, hosts)
        checked += compared
        notes += said
    return _Outcome(checked, how, notes, **seen)


def _compare_numbers(case: _Case, hosts: list[Any]) -> tuple[checks.Checked, list[str]]:
    """The numbers beside those of the reference."""
    fixture = case.fixture
    if fixture.reference == SINGLE_DEVICE and case.mesh.devices.size == 1:
        return checks.Checked([], 0, Looked(idle={REFERENCE: "the mesh has one device"})), []
    other = None if fixture.reference == SINGLE_DEVICE else load.resolve_reference(fixture.reference)
    compared, said = numerics.compare_with(
        case.function, other, hosts, case.made, case.mesh, fixture.context, case.alone
    )
    compared.looked.proved.add(REFERENCE)
    return compared, said


_WARNINGS = {"rematerialised": "involuntary rematerialisation", "indivisible": "indivisible constraint"}
_NOTHING = "the fixture declares nothing this level can check"
_LEVELS: Mapping[str, Callable[[_Case], _Outcome]] = {
    "compile": _run_compile_level,
    "execute": _run_execute_level,
}
