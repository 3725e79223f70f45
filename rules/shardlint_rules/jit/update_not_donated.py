"""SL239."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass

from shardlint.facts import FileFacts
from shardlint.program.donation import PMAP
from shardlint.program.signatures import DONATE_SETTINGS, JITS, Jitted, jitted
from shardlint.program.values import Function, Place, options
from shardlint.rule import Calls, Certainty, Finding, Harm, Rule, Uses
from shardlint.site import Site
from shardlint_rules.jit._again import is_test, loop_around

_JITS = (*JITS, PMAP)
# What a step of training says: what it updates is as large as the parameters.
_TRAINING = re.compile(r"apply_updates|apply_gradients|opt_state|optimizer")
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
    `state = step(state, batch)`.
    Only functions that speak of an optimizer, and not in tests and benchmarks.

    ## Why it hurts
    Until the call is done parameters and optimizer state are in memory twice, the old and the new, though nobody
    uses the old any more. Models that would fit run out of memory.

    ## Use instead
    Donate it. The array that was given is deleted then: what else holds it must not read it again.

    ## Evidence
    The proof reads it from the compiled program: with the donation each of the arrays is the memory of a result. Ten
    projects added it later, most of them because of memory. Left alone: names that something else is bound to
    (`best = state`), functions of which a call keeps the argument, and `nnx.jit` and `eqx.filter_jit`.
    """

    code = "SL239"
    name = "update-not-donated"
    harm = Harm.COST
    certainty = Certainty.POSSIBLE
    wakes = (Calls(*_JITS, near=_NEAR), Uses(*_JITS, near=_NEAR))
    forms = ("call", "partial", "name", "import")
    fixes = "none"

    def check(self, site: Site) -> Iterator[Finding]:
        """One finding for a wrapper, at the first parameter that it updates."""
        if is_test(site.file, site.syntax) or site.program.project.is_test(site.file.path):
            return
        if isinstance(site.syntax, ast.Call) and any(site.keyword(name) for name in DONATE_SETTINGS):
            return
        calls = list(_calls(site))
        found = [_updates(site, one) for one in calls]
        if not found or not all(found):
            return
        first = found[0]
        shared = [one for one in first if all(one.parameter in {two.parameter for two in other} for other in found)]
        if not shared:
            return
        names = " and ".join(f"`{one.name}`" for one in shared)
        positions = ", ".join(str(one.position) for one in shared)
        one = shared[0]
        yield site.finding(
            site.syntax,
            f"{names} {'are' if len(shared) > 1 else 'is'} bound again to what this returns",
            f"On {site.on('jax')} the old and the new {names} are in memory together until the call is done, though "
            "only the new is used from then on.",
            help=f"donate {'them' if len(shared) > 1 else 'it'}: donate_argnums=({positions},)"
            if len(shared) == 1
            else f"donate them: donate_argnums=({positions})",
            form="in-a-loop" if any(each.looped for each in shared) else "once",
            why=f"line {one.place.line} gives `{one.name}` and binds it to the result"
            if one.place.file is site.file
            else f"{one.place.file.path.name}:{one.place.line} gives `{one.name}` and binds it to the result",
        )


def _calls(site: Site) -> Iterator[Place]:
    """The calls of what is jitted here."""
    node = site.decorated
    if node is not None:
        if not _TRAINING.search(site.text(node)):
            return
        ends = site.program.flow.ends(site.file, node)
    elif site.form == "call":
        ends = site.program.flow.calls(Place(site.file, site.call))
    else:
        return
    for end in ends.found[:_MOST]:
        if end.kind == "called" and isinstance(end.place.node, ast.Call):
            if not is_test(end.place.file, end.place.node):
                yield end.place


def _updates(site: Site, place: Place) -> list[_Update]:
    """The arguments of a call that it updates and binds again."""
    file, call = place.file, place.node
    assert isinstance(call, ast.Call)
    bound = _bound(file, call)
    function = _jitted(site, place)
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
        if update is not None and update.whole:
            found.append(_Update(parameter, index + late, name, place, looped))
    return found


def _jitted(site: Site, place: Place) -> Jitted | None:
    """The one jitted function that a call runs, if it donates nothing and trains."""
    assert isinstance(place.node, ast.Call)
    evaluator = site.program.evaluator
    found = [jitted(one, evaluator, _JITS) for one in options(site.program.value(place.file, place.node.func))]
    function = found[0] if len(found) == 1 else None
    if function is None or function.settings.open_keywords or not isinstance(function.inner, Function):
        return None
    if any(function.setting(name) is not None for name in DONATE_SETTINGS):
        return None
    inner = function.inner.place
    return function if _TRAINING.search(inner.text()) else None


def _bound(file: FileFacts, call: ast.Call) -> set[str]:
    """The names and attributes that a call's result, or its parts, are bound to."""
    parent = file.parent(call)
    if not isinstance(parent, ast.Assign) or parent.value is not call:
        return set()
    targets = [part for target in parent.targets for part in (getattr(target, "elts", None) or [target])]
    return {file.text(one) for one in targets if isinstance(one, ast.Name | ast.Attribute)}


def _kept(file: FileFacts, argument: ast.expr, name: str) -> bool:
    """Whether the function around a call binds something else to what it gives, or puts it away."""
    function = file.home(argument).function()
    root: ast.AST = function.node if function is not None else file.tree
    for node in ast.walk(root):
        match node:
            case ast.Assign(value=ast.Name() | ast.Attribute() as value) if file.text(value) == name:
                return True
            case ast.Call(func=ast.Attribute(attr="append" | "put" | "add"), args=[value]) if (
                isinstance(value, ast.Name) and value.id == name
            ):
                return True
    return False
