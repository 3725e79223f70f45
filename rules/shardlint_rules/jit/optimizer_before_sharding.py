"""SL205."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from typing import ClassVar

from shardlint.facts.bound_names import reads_of_binding, sole_name_of
from shardlint.facts.shardings import PLACING
from shardlint.model.values import Place
from shardlint.rules_api.rule import Calls, Finding, Harm, Rule, detector
from shardlint.rules_api.site import Site
from shardlint.syntax.bindings import lookup_bindings
from shardlint_rules.jit.optimizers import is_init_of_large_state


class OptimizerBeforeSharding(Rule):
    """The optimizer state is created before the parameters are sharded.

    The moments are created on one device. For Adam they are twice the size of the model. The first training step moves
    them to the devices of the gradients. The step compiles twice, because the second call gets sharded moments. The
    step raises `Received incompatible devices` if `init` got parameters that are committed to one device: the moments
    are then committed to it too.

    ## Reports
    - proven: `state = optimizer.init(params)` before `params = jax.device_put(params, sharding)`, if nothing places
      `state`.

    ## Write instead
    Call `optimizer.init(params)` after the placement.

    A scalar of the state, such as the `count` of `optax.adam`, is still created on one device, so the step still
    compiles twice. To avoid this, call `optimizer.init(params)` under `with jax.set_mesh(mesh):`.

    ## Limits
    Not reported: optimizers without moments. Also not reported: a state that the code passes to a function that does
    not get the parameters.
    """

    code = "SL205"
    name = "optimizer-before-sharding"
    harm = Harm.COST
    releases: ClassVar[Mapping[str, str]] = {"jax": ">=0.4.38"}
    triggers = (Calls(*PLACING, file_says=("init",)),)
    where = "host"
    fixes = "none"

    @detector("call")
    def find_earlier_inits(self, site: Site) -> Iterator[Finding]:
        """A finding at every `init` that came before this placement."""
        name = _rebound_name(site)
        if name is None:
            return
        target = site.argument(PLACING[site.api])
        if target is None or not site.shardings.shards(site.value(target)):
            return
        for call in _earlier_optimizer_inits(site, name):
            state = sole_name_of(site.file, call)
            if state is None or not _is_state_left_alone(site, state, name):
                continue
            yield site.finding(
                call,
                f"The first step moves `{state.id}`: it is created on one device, before `{name}` is sharded.",
                why=f"line {site.call.lineno} shards `{name}`, and nothing places `{state.id}`",
                help=f"create `{state.id}` after line {site.call.lineno}",
            )


def _rebound_name(site: Site) -> str | None:
    """The name of `params = device_put(params, ...)`."""
    parent = site.file.parent(site.call)
    first = site.call.args[0] if site.call.args else None
    if not isinstance(first, ast.Name) or not isinstance(parent, ast.Assign):
        return None
    target = parent.targets[0]
    return (
        first.id
        if len(parent.targets) == 1 and isinstance(target, ast.Name) and target.id == first.id
        else None
    )


def _earlier_optimizer_inits(site: Site, name: str) -> Iterator[ast.Call]:
    """Calls of an optimizer's `init`, earlier in this scope, on what the placement is given under this name."""
    placed = {id(binding.node) for binding in lookup_bindings(site.file, site.call.args[0], name)[0]}
    for mention in site.file.find_mentions("init"):
        call = site.file.parent(mention)
        if (
            not isinstance(mention, ast.Attribute)
            or not isinstance(call, ast.Call)
            or call.func is not mention
        ):
            continue
        if site.file.evaluation_scope(call) is not site.scope or len(call.args) != 1 or call.lineno >= site.call.lineno:
            continue
        argument = _parameters_argument(site, call.args[0])
        if argument is None or argument.id != name or not is_init_of_large_state(site, Place(site.file, mention)):
            continue
        same = {id(binding.node) for binding in lookup_bindings(site.file, argument, name)[0]} == placed
        if same and not site.shardings.spread(site.value(argument)):
            yield call


def _parameters_argument(site: Site, node: ast.expr) -> ast.Name | None:
    """`params`, or `eqx.filter(params, eqx.is_array)`."""
    if (
        isinstance(node, ast.Call)
        and node.args
        and getattr(site.value(node.func), "name", "") == "equinox.filter"
    ):
        node = node.args[0]
    return node if isinstance(node, ast.Name) else None


def _is_state_left_alone(site: Site, state: ast.Name, name: str) -> bool:
    """Return whether nothing between here and the step that takes it could place the state."""
    uses = reads_of_binding(site.file, state, only=False)
    return all(site.file.evaluation_scope(use) is site.scope and _is_harmless_use(site, use, name) for use in uses)


def _is_harmless_use(site: Site, use: ast.Name, name: str) -> bool:
    parent = site.file.parent(use)
    if isinstance(parent, ast.Attribute | ast.Subscript | ast.Return):
        return True
    if isinstance(parent, ast.Call) and use in parent.args:
        return any(isinstance(other, ast.Name) and other.id == name for other in parent.args)
    return isinstance(parent, ast.Tuple) and isinstance(site.file.parent(parent), ast.Return)
