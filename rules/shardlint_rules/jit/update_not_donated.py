"""SL239."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from shardlint.model.lifetime.donation import PMAP
from shardlint.model.signatures import DONATE_SETTINGS, JITS, Jitted, jitted
from shardlint.model.values import Constant, Function, Items, Place, options
from shardlint.rules_api.rule import Calls, Certainty, Finding, Harm, Rule, Uses
from shardlint.rules_api.site import Site
from shardlint.source.lazy import dataclass
from shardlint.source.patterns import regex
from shardlint.syntax import FileFacts
from shardlint.syntax.nodes import walk
from shardlint_rules.jit.repeated import is_test, loop_around

_JITS = (*JITS, PMAP)
_FILTER_JIT = "equinox.filter_jit"
_BUT_THE_FIRST = ("all-except-first", "warn-except-first")
# What a step of training says: what it updates is as large as the parameters.
_TRAINING = regex(r"apply_updates|apply_gradients|opt_state|optimizer")
_NEAR = ("apply_updates", "apply_gradients", "opt_state", "optimizer")
_MOST = 8


@dataclass(frozen=True)
class _Update:
    """A call that is given a name and binds it again to what it returns: the parameter that takes it, and where."""

    parameter: str
    position: int
    name: str
    place: Place
    looped: bool


class UpdateNotDonated(Rule):
    """A jitted step of training returns an update of its state, and the old one is not donated.

    ## What it does
    Reports a `jax.jit`, `pjit` or `pmap` without `donate_argnums` and `donate_argnames` of a function that returns an
    update of an argument (`state.apply_gradients(...)`, `optax.apply_updates(params, updates)`,
    `state.replace(opt_state=...)`), where its calls bind the result to the name that they give:
    `state = step(state, batch)`, or in a loop `out = learn(state)` and then `state = out.state`. By default, one that
    donates some of what its calls bind again and not the rest: `params, opt_state = step(params, opt_state, batch)`
    with `donate_argnums=(0,)`.
    So too `eqx.filter_jit(donate="all-except-first")` where the calls bind again the first argument, which it keeps.
    Only functions that speak of an optimizer, and not in tests and benchmarks.

    ## Why it hurts
    Until the call is done parameters and optimizer state are in memory twice, the old and the new, though nobody
    uses the old any more. Models that would fit run out of memory.

    ## Use instead
    Donate it. The array that was given is deleted then: what else holds it must not read it again.

    ## Evidence
    The proof reads it from the compiled program: with the donation each of the arrays is the memory of a result. Ten
    projects added it later, most of them because of memory. Left alone: names that something else is bound to
    (`best = state`), functions of which a call keeps the argument, `nnx.jit`, and `eqx.filter_jit` that donates
    nothing.
    """

    code = "SL239"
    name = "update-not-donated"
    harm = Harm.COST
    certainty = Certainty.POSSIBLE
    likely = ("beside", "first")
    triggers = (
        Calls(*_JITS, file_says=_NEAR),
        Uses(*_JITS, file_says=_NEAR),
        Calls(_FILTER_JIT, file_says=_BUT_THE_FIRST),
        Uses(_FILTER_JIT, file_says=_BUT_THE_FIRST),
    )
    forms = ("call", "partial", "name", "import")
    fixes = "none"

    def check(self, site: Site) -> Iterator[Finding]:
        """One finding for a wrapper, at the first parameter that it updates."""
        if is_test(site.file, site.syntax) or site.program.project.is_test(site.file.path):
            return
        if site.api == _FILTER_JIT:
            yield from self._but_the_first(site)
            return
        if isinstance(site.syntax, ast.Call) and any(site.keyword(name) for name in DONATE_SETTINGS):
            yield from self._beside(site)
            return
        if not site.wants("in-a-loop", "once"):
            return
        calls = list(_calls(site))
        found = [_updates(site, one) for one in calls]
        if not found or not all(found):
            return
        first = found[0]
        shared = [
            one for one in first if all(one.parameter in {two.parameter for two in other} for other in found)
        ]
        if not shared:
            return
        names = " and ".join(f"`{one.name}`" for one in shared)
        positions = ", ".join(str(one.position) for one in shared)
        one = shared[0]
        yield site.finding(
            site.syntax,
            f"On {site.release('jax')} the old and the new {names} are in memory together until the call is done, "
            "though only the new is used from then on.",
            label=f"{names} {'are' if len(shared) > 1 else 'is'} bound again to what this returns",
            help=f"donate {'them' if len(shared) > 1 else 'it'}: donate_argnums=({positions},)"
            if len(shared) == 1
            else f"donate them: donate_argnums=({positions})",
            form="in-a-loop" if any(each.looped for each in shared) else "once",
            why=f"line {one.place.line} gives `{one.name}` and binds it to the result"
            if one.place.file is site.file
            else f"{one.place.file.path.name}:{one.place.line} gives `{one.name}` and binds it to the result",
        )

    def _beside(self, site: Site) -> Iterator[Finding]:
        """A donation that leaves out an argument which all calls update as they do the donated one."""
        keyword = site.keyword("donate_argnums")
        donated = _positions(site, keyword.value) if keyword is not None else None
        if keyword is None or not donated or site.keyword("donate_argnames") is not None:
            return
        found = [_updates(site, one, donating=True) for one in _calls(site, donating=True)]
        if not found or not all(found):
            return
        left = [
            one
            for one in found[0]
            if one.position not in donated
            and all(one.parameter in {two.parameter for two in other} for other in found)
        ]
        beside = [one for one in found[0] if one.position in donated]
        if not left or not beside:
            return
        names = " and ".join(f"`{one.name}`" for one in left)
        wanted = ", ".join(str(one) for one in sorted(donated | {one.position for one in left}))
        place = left[0].place
        where = site.where(place)
        yield site.finding(
            keyword,
            f"On {site.release('jax')} the old and the new {names} are in memory together until the call is done, "
            "though only the new is used from then on.",
            label=f"{names} {'are' if len(left) > 1 else 'is'} bound again too, and not donated",
            help=f"write donate_argnums=({wanted})",
            form="beside",
            why=f"{where} binds `{beside[0].name}`, which is donated, and {names} to the result alike",
        )

    def _but_the_first(self, site: Site) -> Iterator[Finding]:
        """`filter_jit(donate="all-except-first")` of a step whose first argument is updated like others."""
        keyword = site.keyword("donate") if isinstance(site.syntax, ast.Call) else None
        if keyword is None or site.value(keyword.value) not in [Constant(one) for one in _BUT_THE_FIRST]:
            return
        found = [_updates(site, one, donating=True) for one in _calls(site, donating=True)]
        if not found or not all(found):
            return
        first = [one for one in found[0] if one.position == 0]
        beside = [one for one in found[0] if one.position > 0]
        if not first or not beside or not all(any(one.position == 0 for one in other) for other in found):
            return
        place = first[0].place
        where = site.where(place)
        yield site.finding(
            keyword,
            f"On {site.release('equinox')} the first argument is kept, so that the old and the new `{first[0].name}` "
            "are in memory together until the call is done, though only the new is used from then on.",
            label=f"`{first[0].name}` is the first argument, and is bound again too",
            help="make the first argument one that is kept, as the batch or the key is",
            form="first",
            why=f"{where} binds `{beside[0].name}`, which is donated, and `{first[0].name}` to the result alike",
        )


def _positions(site: Site, node: ast.expr) -> set[int]:
    """The positions in `donate_argnums`; empty where the text does not tell."""
    found: set[int] = set()
    for value in options(site.value(node)):
        for one in value.items if isinstance(value, Items) and not value.open else (value,):
            if not isinstance(one, Constant) or not isinstance(one.value, int):
                return set()
            found.add(int(one.value))
    return found


def _calls(site: Site, donating: bool = False) -> Iterator[Place]:
    """The calls of what is jitted here."""
    node = site.decorated
    if node is not None:
        if not _TRAINING.search(site.text(node)):
            return
        in_class = isinstance(site.file.parent(node), ast.ClassDef)
        flow = site.program.flow
        # Of a method, an attribute of its name on what is not seen may be it: the calls that are seen have to do.
        ends = flow.in_sight(site.file, node) if in_class and donating else flow.ends(site.file, node)
    elif site.form == "call":
        ends = site.program.flow.calls(Place(site.file, site.call))
    else:
        return
    called = [end.place for end in ends.found[:_MOST] if end.kind == "called"]
    for place in called or (_handed_out(site) if site.form == "call" else ()):
        if isinstance(place.node, ast.Call) and not is_test(place.file, place.node):
            yield place


def _handed_out(site: Site) -> Iterator[Place]:
    """Calls of what a function returns as one of several: `step, state = setup(config)`."""
    scope, parent = site.scope.function(), site.file.parent(site.syntax)
    target = parent.targets[0] if isinstance(parent, ast.Assign) and len(parent.targets) == 1 else None
    if not isinstance(target, ast.Name) or scope is None or not isinstance(scope.node, ast.FunctionDef):
        return
    last = scope.node.body[-1]
    elements = last.value.elts if isinstance(last, ast.Return) and isinstance(last.value, ast.Tuple) else []
    at = next(
        (i for i, one in enumerate(elements) if isinstance(one, ast.Name) and one.id == target.id), None
    )
    if at is None:
        return
    for end in site.program.flow.ends(site.file, scope.node).found[:_MOST]:
        file, outer = end.place.file, end.place.file.parent(end.place.node)
        given = outer.targets[0] if isinstance(outer, ast.Assign) and end.kind == "called" else None
        if not isinstance(given, ast.Tuple) or len(given.elts) != len(elements):
            continue
        name = given.elts[at]
        for use in file.mentions_in(file.home(given), name.id) if isinstance(name, ast.Name) else ():
            call = file.parent(use)
            if isinstance(call, ast.Call) and call.func is use:
                yield Place(file, call)


def _updates(site: Site, place: Place, donating: bool = False) -> list[_Update]:
    """The arguments of a call that it updates and binds again."""
    file, call = place.file, place.node
    assert isinstance(call, ast.Call)
    again = _fed_again(file, call)
    bound = _bound(file, call) | again
    function = _jitted(site, place, donating)
    if not bound or function is None or function.parameters is None:
        return []
    looped = loop_around(file, call) is not None
    late = int(function.late)  # self comes first, and is not given here
    found = []
    for index, argument in enumerate(call.args):
        name = file.text(argument) if isinstance(argument, ast.Name | ast.Attribute) else ""
        taken = function.parameters.positional[index + late : index + late + 1]
        if name not in bound or not taken or _kept(file, argument, name):
            continue
        parameter = taken[0]
        update = site.program.lifetimes.donations.updates.of(function.inner, parameter)
        if name in again or (update is not None and update.whole):
            found.append(_Update(parameter, index + late, name, place, looped))
    return found


def _jitted(site: Site, place: Place, donating: bool) -> Jitted | None:
    """The one jitted function that a call runs, if it trains, and donates something or nothing."""
    assert isinstance(place.node, ast.Call)
    evaluator = site.program.evaluator
    called = options(site.program.value(place.file, place.node.func))
    found = [jitted(one, evaluator, (*_JITS, _FILTER_JIT)) for one in called]
    function = found[0] if len(found) == 1 else None
    if function is None or function.settings.open_keywords or not isinstance(function.inner, Function):
        return None
    if any(function.setting(name) is not None for name in (*DONATE_SETTINGS, "donate")) is not donating:
        return None
    inner = function.inner.place
    whole = bool(_fed_again(place.file, place.node)) and any(inner.file.says(word) for word in _NEAR)
    return function if whole or _TRAINING.search(inner.text()) else None


def _bound(file: FileFacts, call: ast.Call) -> set[str]:
    """The names and attributes that a call's result, or its parts, are bound to."""
    parent = file.parent(call)
    if not isinstance(parent, ast.Assign) or parent.value is not call:
        return set()
    targets = [part for target in parent.targets for part in (getattr(target, "elts", None) or [target])]
    return {file.text(one) for one in targets if isinstance(one, ast.Name | ast.Attribute)}


def _fed_again(file: FileFacts, call: ast.Call) -> set[str]:
    """The names that a loop binds to a part of a call's result, for the next turn: `state = out.state`."""
    parent, loop = file.parent(call), loop_around(file, call)
    if loop is None or not isinstance(parent, ast.Assign) or len(parent.targets) != 1:
        return set()
    result = parent.targets[0]
    if not isinstance(result, ast.Name):
        return set()
    found = set()
    for node in loop.body:
        if (
            isinstance(node, ast.Assign)
            and node.lineno > call.lineno
            and isinstance(node.value, ast.Attribute)
        ):
            if isinstance(node.value.value, ast.Name) and node.value.value.id == result.id:
                found |= {one.id for one in node.targets if isinstance(one, ast.Name)}
    return found


def _kept(file: FileFacts, argument: ast.expr, name: str) -> bool:
    """Whether the function around a call binds something else to what it gives, or puts it away."""
    function = file.home(argument).function()
    root: ast.AST = function.node if function is not None else file.tree
    for node in walk(root):
        match node:
            case ast.Assign(value=ast.Name() | ast.Attribute() as value) if file.text(value) == name:
                return True
            case ast.Call(func=ast.Attribute(attr="append" | "put" | "add"), args=[value]) if (
                isinstance(value, ast.Name) and value.id == name
            ):
                return True
    return False
