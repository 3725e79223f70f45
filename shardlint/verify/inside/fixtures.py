"""Running one fixture on one mesh, level by level."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from shardlint.verify.claims import check_budget, check_forbidden, check_memory, line_text
from shardlint.verify.facts import Program
from shardlint.verify.fixture import EXPLICIT, SINGLE_DEVICE, Fixture, parse_bytes
from shardlint.verify.inside import checks, compiled, devices, gradients, load, numerics, place, program, tree
from shardlint.verify.inside.errors import cut, told
from shardlint.verify.inside.explain import explain
from shardlint.verify.paths import nothing_matches, unmatched
from shardlint.verify.report import FAIL, PASS, PLAIN, SKIP, Failure, Result

Emit = Callable[[Result], None]


def run_fixture(fixture: Fixture, sizes: Mapping[str, int], levels: Sequence[str], emit: Emit) -> None:
    """Verify a fixture on a mesh of these axis sizes and emit a result for each level as soon as it is known.

    Nothing the user's code raises gets out of here; it becomes a failure that names its line.
    """
    done: list[str] = []

    def tell(level: str, status: str, **more: Any) -> None:
        done.append(level)
        emit(Result(fixture.label(), level, status, dict(sizes), **more))

    line = ""
    try:
        if fixture.declares_nothing():
            reason = "checks nothing: declare out, gradients, replicated_bytes_max, donate, forbid, budget, "
            reason += "memory_max or reference"
            for level in levels:
                tell(level, FAIL, failures=[Failure("empty", reason)])
            return
        function = load.resolve(fixture.fn)
        line = load.place_of(function)
        mesh = devices.mesh_of(sizes, fixture.axis_types == EXPLICIT)
        entered, under = devices.context(fixture.context, mesh)
        with entered:
            made = place.make(fixture, mesh)
        for level in levels:
            check = _LEVELS[level]
            checked, notes, how, made_program = check(fixture, function, made, mesh, level == levels[-1])
            if checked is None:
                tell(level, SKIP, reason=how)
                continue
            if not checked.count and not checked.failures:
                checked.failures.append(Failure("empty", "checks nothing: no output leaf was compared"))
            status = FAIL if checked.failures else PASS
            how = f"{how}, under {under}"
            tell(
                level,
                status,
                checked=checked.count,
                failures=checked.failures,
                notes=notes,
                line=line,
                how=how,
                program=made_program,
            )
    except place.Indivisible as error:
        for level in levels:
            if level not in done:
                tell(level, SKIP, reason=str(error))
    except Exception as error:
        left = [level for level in levels if level not in done]
        if left:
            tell(left[0], FAIL, failures=[raised(error)], line=line)
        for level in left[1:]:
            tell(level, SKIP, reason=f"level {left[0]} raised")


def raised(error: BaseException) -> Failure:
    """The failure an exception becomes."""
    text = told(error).strip()
    lines = text.splitlines()
    if len(lines) > 6:
        text = "\n".join([*lines[:6], f"... ({len(lines) - 6} more lines)"])
    where = load.blame(error)
    return Failure(
        "raised", f"raised {type(error).__name__}: {cut(text)}" + (f"\nat {where}" if where else "")
    )


def _compile(
    fixture: Fixture, function: Any, made: list[place.Made], mesh: Any, last: bool
) -> tuple[checks.Checked | None, list[str], str, Program | None]:
    """What was checked (None: nothing could be), sentences for the report, how fn was compiled or why not,
    and the compiled program.
    """
    placed = bool(fixture.out) or fixture.replicated_bytes_max is not None
    if not (placed or fixture.donate or fixture.limits_compiled() or fixture.gradients):
        return None, [], "the fixture declares nothing this level can check", None
    if compiled.takes_abstract(function, [one.tree for one in made]):
        args = place.describe(made, mesh)
    else:
        args = place.place(place.fill(made), made, mesh)
    keywords = numerics.keywords(function, args, mesh)
    checked, described, notes, how = checks.Checked([], 0), None, [], ""
    if placed or fixture.donate or fixture.limits_compiled():
        entered, _ = devices.context(fixture.context, mesh)
        try:
            with entered:
                found = compiled.compile_function(
                    function, args, keywords, fixture.donate, tolerant=fixture.limits_compiled()
                )
        except compiled.NoShardings as error:
            return None, [], str(error), None
        except Exception as error:
            # Nobody said that a plain function can be traced; what it does when it is called is for the
            # next level.
            if last or compiled.can_lower(function):
                raise
            return None, [], f"{PLAIN}, which cannot be wrapped in jit: {type(error).__name__}", None
        out, how = fixture.expected(), found.how
        described = program.describe(found, mesh, made, out)
        if found.untold:
            notes += [f"{found.untold}: out is checked at level execute"] if placed else []
        else:
            checked += checks.check_placement(found.outputs, out, mesh, fixture.replicated_limit())
            explain(checked.failures, found.outputs, described)
        checked += checks.check_donation(found)
        checked += _limits(fixture, described.program)
    if fixture.gradients:
        entered, _ = devices.context(fixture.context, mesh)
        with entered:
            compared, of_gradients = _gradients(fixture, function, args, keywords, made, mesh)
        checked += compared
        if described is None:
            how, described = "its gradients, by jax.jit(jax.grad(fn))", of_gradients
    if described is None:
        return checked, notes, how, None
    facts = described.program
    notes += [f"{_WARNINGS[one.kind]} at {line_text(one.line)}: {one.message}" for one in facts.warned]
    return checked, [*notes, *facts.notes], how, facts


_WARNINGS = {"rematerialised": "involuntary rematerialisation", "indivisible": "indivisible constraint"}


def _limits(fixture: Fixture, compiled_program: Program) -> checks.Checked:
    """What is declared of communication and memory."""
    forbid, budget, most = fixture.forbidden(), fixture.budgets(), fixture.memory_max
    failures = check_forbidden(compiled_program, forbid) + check_budget(compiled_program, budget)
    if most is not None:
        failures += check_memory(compiled_program, parse_bytes(most))
    return checks.Checked(failures, len(forbid) + len(budget) + (most is not None))


def _gradients(
    fixture: Fixture,
    function: Any,
    args: list[Any],
    keywords: Mapping[str, Any],
    made: list[place.Made],
    mesh: Any,
) -> tuple[checks.Checked, program.Described | None]:
    """Where the gradients of a function that returns a scalar lie, and the program that computes them."""
    wanted = fixture.expected_gradients()
    try:
        found, leaves = gradients.compile_gradients(function, args, keywords, list(wanted))
    except gradients.NotScalar as error:
        return checks.Checked([Failure("gradients", str(error))], 0), None
    if found is None:
        lost = unmatched(wanted, [leaf.path for leaf in leaves])
        failures = [
            Failure("pattern", f"gradients: {nothing_matches(glob, near)}") for glob, near in lost.items()
        ]
        return checks.Checked(failures, 0), None
    checked = checks.check_placement(leaves, wanted, mesh, None)
    described = program.describe(found, mesh, made, wanted)
    explain(checked.failures, leaves, described)
    return checked, described


def _execute(
    fixture: Fixture, function: Any, made: list[place.Made], mesh: Any, last: bool
) -> tuple[checks.Checked | None, list[str], str, Program | None]:
    placed = bool(fixture.out) or fixture.replicated_bytes_max is not None
    if not (placed or fixture.donate or fixture.reference is not None):
        return None, [], "the fixture declares nothing this level can check", None
    how = "called as it is" if compiled.can_lower(function) else f"{PLAIN}, called as it is"
    notes: list[str] = []
    hosts = place.fill(made)
    args = place.place(hosts, made, mesh)
    given = tree.snapshot(args)
    output = numerics.call(function, args, mesh, fixture.context)
    leaves = tree.array_leaves(output, "out")
    checked = checks.check_placement(leaves, fixture.expected(), mesh, fixture.replicated_limit())
    checked += checks.check_deleted(given, fixture.donate)
    checked.failures += checks.check_replicas(output).failures
    if fixture.reference is not None:
        other = None if fixture.reference == SINGLE_DEVICE else load.resolve(fixture.reference)
        compared, said = numerics.compare(function, other, hosts, made, mesh, fixture.context)
        checked += compared
        notes += said
    return checked, notes, how, None


_LEVELS = {"compile": _compile, "execute": _execute}
