"""SL239."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from typing import ClassVar

from shardlint.facts.jit_settings import DONATE_SETTINGS
from shardlint.facts.lifetime.donation import PMAP
from shardlint.facts.lifetime.lifetimes import Lifetimes
from shardlint.facts.repeated import is_test, loop_around
from shardlint.model.signatures import JITS, Jitted, jitted_value
from shardlint.model.values import Constant, Function, Items, Place, options
from shardlint.rules_api.rule import Calls, Certainty, Finding, Harm, Rule, Uses, detector
from shardlint.rules_api.site import Site
from shardlint.source.lazy import dataclass
from shardlint.source.patterns import compile_lazily
from shardlint.syntax import FileFacts
from shardlint.syntax.nodes import walk_nodes

_JITS = (*JITS, PMAP)
_FILTER_JIT = "equinox.filter_jit"
_BUT_THE_FIRST = ("all-except-first", "warn-except-first")
# A training step mentions one of these: its state is as large as the parameters.
_TRAINING = compile_lazily(r"apply_updates|apply_gradients|opt_state|optimizer")
_NEAR = ("apply_updates", "apply_gradients", "opt_state", "optimizer")
_MOST = 8


@dataclass(frozen=True)
class _Update:
    """An argument that a call rebinds to its result: parameter, position, name and call."""

    parameter: str
    position: int
    name: str
    place: Place
    looped: bool


class UpdateNotDonated(Rule):
    """A jitted training step returns an update of its state without donating the old state.

    The program may run out of memory: during the call the old and the new parameters and optimizer state are both in
    memory. Nothing reads the old arrays after the call.

    ## Reports
    Only functions that use an optimizer are reported. Tests and benchmarks are skipped.

    - `partly-donated` (likely): a step that donates one argument and not another, though its calls assign new values to
      both: `params, opt_state = step(params, opt_state, batch)` with `donate_argnums=(0,)`. Also
      `eqx.filter_jit(donate="all-except-first")` if the calls assign their result to the first argument.
    - `in-a-loop` (possible): a `jax.jit`, `pjit` or `pmap` without donation, if a loop assigns the result to an
      argument.
    - `once` (possible): a `jax.jit`, `pjit` or `pmap` without donation, if a call outside a loop assigns its result to
      an argument.

    ## Write instead
    Write `donate_argnums` with the positions of the arguments that the result replaces. For
    `eqx.filter_jit(donate="all-except-first")` pass the batch as the first argument. The call deletes a donated array.
    Do not use this array through another variable after the call.

    ## Limits
    Not reported: arguments that another variable still references (`best = state`), `nnx.jit`, and `eqx.filter_jit`
    without donation.
    """

    code = "SL239"
    name = "update-not-donated"
    harm = Harm.COST
    certainty = Certainty.POSSIBLE
    likely = ("partly-donated",)
    assumptions: ClassVar[Mapping[str, str]] = {
        "partly-donated": "No other variable reads the old value after the call."
    }
    triggers = (
        Calls(*_JITS, file_says=_NEAR),
        Uses(*_JITS, file_says=_NEAR),
        Calls(_FILTER_JIT, file_says=_BUT_THE_FIRST),
    )
    fixes = "none"

    @detector("call", "partial", finds="partly-donated")
    def report_left_out(self, site: Site) -> Finding | None:
        """A jit that donates other arguments."""
        keyword = _find_donation(site)
        donated = _donated_positions(site, keyword) if keyword is not None else None
        if keyword is None or donated is None or _is_in_test(site):
            return None
        rebound = _rebound_by_all_calls(site, True)
        left = [one for one in rebound if one.position not in donated]
        others = [one for one in rebound if one.position in donated]
        if not left or not others:
            return None
        help = "pass the batch as the first argument, which `all-except-first` does not donate"
        if site.api != _FILTER_JIT:
            help = _write_donation(donated | {one.position for one in left})
        return _make_finding(site, keyword, left, help, f", and also to the donated `{others[0].name}`")

    @detector("call", "partial", "name", of=_JITS, finds=("in-a-loop", "once"))
    def report_undonated(self, site: Site) -> Finding | None:
        """A jit that donates nothing."""
        if (isinstance(site.syntax, ast.Call) and _find_donation(site) is not None) or _is_in_test(site):
            return None
        left = _rebound_by_all_calls(site, False)
        if not left:
            return None
        form = "in-a-loop" if any(one.looped for one in left) else "once"
        return _make_finding(site, site.syntax, left, _write_donation({one.position for one in left}), form=form)


def _make_finding(
    site: Site, node: ast.AST, left: list[_Update], help: str, besides: str = "", form: str = ""
) -> Finding:
    """The finding of the updates that a jit leaves out."""
    names = " and ".join(f"`{one.name}`" for one in left)
    return site.finding(
        node,
        f"Old and new {names} are both in memory during the call: the old value is not donated.",
        help=help,
        form=form,
        why=f"{site.where(left[0].place)} assigns the result to {names}{besides}",
    )


def _find_donation(site: Site) -> ast.keyword | None:
    return next((one for one in map(site.keyword, (*DONATE_SETTINGS, "donate")) if one is not None), None)


def _is_in_test(site: Site) -> bool:
    return is_test(site.file, site.syntax) or site.program.project.is_test(site.file.path)


def _write_donation(positions: set[int]) -> str:
    numbers = ", ".join(map(str, sorted(positions)))
    return f"write donate_argnums=({numbers}{',' if len(positions) == 1 else ''})"


def _donated_positions(site: Site, keyword: ast.keyword) -> set[int] | None:
    """The positions that a wrapper donates; None if they are unknown or named."""
    if site.api == _FILTER_JIT:
        mode = site.value(keyword.value)
        return set(range(1, _MOST)) if mode in [Constant(one) for one in _BUT_THE_FIRST] else None
    if keyword.arg != "donate_argnums" or site.keyword("donate_argnames") is not None:
        return None
    return _listed_positions(site, keyword.value) or None


def _rebound_by_all_calls(site: Site, donating: bool) -> list[_Update]:
    """The updates of the first call whose parameters every call updates."""
    calls = [_find_updates(site, one, donating) for one in _find_calls(site, donating)]
    parameters = [{one.parameter for one in updates} for updates in calls]
    return [one for one in calls[0] if all(one.parameter in each for each in parameters)] if calls else []


def _listed_positions(site: Site, node: ast.expr) -> set[int]:
    """The positions in `donate_argnums`; empty if they are unknown."""
    numbers: set[int] = set()
    for value in options(site.value(node)):
        for one in value.items if isinstance(value, Items) and not value.open else (value,):
            if not isinstance(one, Constant) or not isinstance(one.value, int):
                return set()
            numbers.add(int(one.value))
    return numbers


def _find_calls(site: Site, donating: bool) -> Iterator[Place]:
    """The calls of the jitted function, outside tests."""
    node = site.decorated
    if node is not None:
        if not _TRAINING.search(site.text(node)):
            return
        in_class = isinstance(site.file.parent(node), ast.ClassDef)
        flow = site.program.flow
        # An attribute of a method's name on an unknown object may be another function.
        ends = flow.in_sight(site.file, node) if in_class and donating else flow.ends(site.file, node)
    elif site.form == "call":
        ends = site.program.flow.calls(Place(site.file, site.call))
    else:
        return
    for end in ends.found[:_MOST]:
        if end.kind == "called" and isinstance(end.place.node, ast.Call):
            if not is_test(end.place.file, end.place.node):
                yield end.place


def _find_updates(site: Site, place: Place, donating: bool) -> list[_Update]:
    """The arguments of a call that the function updates and the call rebinds."""
    file, call = place.file, place.node
    assert isinstance(call, ast.Call)
    rebound = _find_targets(file, call)
    function = _training_step(site, place, donating)
    if not rebound or function is None or function.parameters is None:
        return []
    looped = loop_around(file, call) is not None
    late = int(function.late)  # the self of a bound method
    updates = []
    for index, argument in enumerate(call.args):
        name = file.source_text(argument) if isinstance(argument, ast.Name | ast.Attribute) else ""
        parameters = function.parameters.positional[index + late : index + late + 1]
        if name not in rebound or not parameters or _is_stored(file, argument, name):
            continue
        update = site.program.find_room(Lifetimes).donations.updates.find_update(function.inner, parameters[0])
        if update is not None and update.whole:
            updates.append(_Update(parameters[0], index + late, name, place, looped))
    return updates


def _training_step(site: Site, place: Place, donating: bool) -> Jitted | None:
    """The jitted function that a call runs, if it uses an optimizer and `donating` says whether it donates."""
    assert isinstance(place.node, ast.Call)
    evaluator = site.program.evaluator
    called = options(site.program.value(place.file, place.node.func))
    function = jitted_value(called[0], evaluator, (*_JITS, _FILTER_JIT)) if len(called) == 1 else None
    if function is None or function.settings.open_keywords or not isinstance(function.inner, Function):
        return None
    if any(function.setting_expression(name) is not None for name in (*DONATE_SETTINGS, "donate")) is not donating:
        return None
    return function if _TRAINING.search(function.inner.place.source_text()) else None


def _find_targets(file: FileFacts, call: ast.Call) -> set[str]:
    """The names and attributes that the result of a call, or its parts, are assigned to."""
    parent = file.parent(call)
    if not isinstance(parent, ast.Assign) or parent.value is not call:
        return set()
    targets = [part for target in parent.targets for part in (getattr(target, "elts", None) or [target])]
    return {file.source_text(one) for one in targets if isinstance(one, ast.Name | ast.Attribute)}


def _is_stored(file: FileFacts, argument: ast.expr, name: str) -> bool:
    """True if the function around a call gives the argument another name or appends it to a container."""
    function = file.evaluation_scope(argument).enclosing_function()
    root: ast.AST = function.node if function is not None else file.tree
    for node in walk_nodes(root):
        match node:
            case ast.Assign(value=ast.Name() | ast.Attribute() as value) if file.source_text(value) == name:
                return True
            case ast.Call(func=ast.Attribute(attr="append" | "put" | "add"), args=[value]) if (
                isinstance(value, ast.Name) and value.id == name
            ):
                return True
    return False
