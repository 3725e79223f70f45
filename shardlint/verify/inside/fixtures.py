"""Running one fixture on one mesh, level by level."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from shardlint.verify.fixture import EXPLICIT, SINGLE_DEVICE, Fixture
from shardlint.verify.inside import checks, compiled, devices, load, numerics, place, tree
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
            reason = "checks nothing: declare out, replicated_bytes_max, donate or reference"
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
            checked, notes, how = check(fixture, function, made, mesh, level == levels[-1])
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
    text = str(error).strip()
    lines = text.splitlines()
    if len(lines) > 6:
        text = "\n".join([*lines[:6], f"... ({len(lines) - 6} more lines)"])
    where = load.blame(error)
    return Failure("raised", f"raised {type(error).__name__}: {text}" + (f"\nat {where}" if where else ""))


def _compile(
    fixture: Fixture, function: Any, made: list[place.Made], mesh: Any, last: bool
) -> tuple[checks.Checked | None, list[str], str]:
    """What was checked (None: nothing could be), sentences for the report, and how fn was compiled or
    why not.
    """
    if not (fixture.out or fixture.donate or fixture.replicated_bytes_max is not None):
        return None, [], "the fixture declares nothing this level can check"
    if compiled.takes_abstract(function, [one.tree for one in made]):
        args = place.describe(made, mesh)
    else:
        args = place.place(place.fill(made), made, mesh)
    entered, _ = devices.context(fixture.context, mesh)
    keywords = numerics.keywords(function, args, mesh)
    try:
        with entered:
            found = compiled.compile_function(function, args, keywords, fixture.donate)
    except compiled.NoShardings as error:
        return None, [], str(error)
    except Exception as error:
        # Nobody said that a plain function can be traced; what it does when it is called is for the
        # next level.
        if last or compiled.can_lower(function):
            raise
        return None, [], f"{PLAIN}, which cannot be wrapped in jit: {type(error).__name__}"
    checked = checks.check_placement(found.outputs, fixture.expected(), mesh, fixture.replicated_limit())
    checked += checks.check_donation(found)
    return checked, [], found.how


def _execute(
    fixture: Fixture, function: Any, made: list[place.Made], mesh: Any, last: bool
) -> tuple[checks.Checked, list[str], str]:
    how = "called as it is" if compiled.can_lower(function) else f"{PLAIN}, called as it is"
    notes: list[str] = []
    hosts = place.fill(made)
    args = place.place(hosts, made, mesh)
    output = numerics.call(function, args, mesh, fixture.context)
    leaves = tree.array_leaves(output, "out")
    checked = checks.check_placement(leaves, fixture.expected(), mesh, fixture.replicated_limit())
    checked += checks.check_deleted(args, fixture.donate)
    checked.failures += checks.check_replicas(output).failures
    if fixture.reference is not None:
        other = None if fixture.reference == SINGLE_DEVICE else load.resolve(fixture.reference)
        compared, said = numerics.compare(function, other, hosts, made, mesh, fixture.context)
        checked += compared
        notes += said
    return checked, notes, how


_LEVELS = {"compile": _compile, "execute": _execute}
