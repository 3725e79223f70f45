"""SL105."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from typing import ClassVar

from shardlint.facts.equinox_modules import Instance, Modules
from shardlint.facts.placements import PLACED_WORDS
from shardlint.model.values import Function, Transformed
from shardlint.rules_api.rule import Calls, Certainty, Edit, Finding, Fix, Harm, Rule, Safety, Uses, detector
from shardlint.rules_api.site import Site
from shardlint.source.lazy import dataclass
from shardlint.syntax.bindings import lookup_bindings
from shardlint.syntax.nodes import walk_nodes
from shardlint_rules.equinox._closures import find_carried_array, line_of_split
from shardlint_rules.equinox.jitted_functions import Jitted, jitted_function

_FILTER = "equinox.filter_jit"
_NEAR = (*PLACED_WORDS, "equinox", "eqx")


@dataclass(frozen=True)
class _Baked:
    """A Module that is compiled in. `model` is its expression, `mapped` whether it goes through vmap."""

    instance: Instance
    model: ast.expr
    whole: ast.expr | None
    """The expression that filter_jit of the Module itself can take the place of."""
    mapped: bool = False


class WeightsBecomeConstants(Rule):
    """A jitted function closes over its weights: they become constants and lose their sharding.

    An array that is not an argument becomes a constant of the compiled program, replicated on all its devices. The
    array is in memory twice. Large constants make compilation slow, and every new model compiles again.

    ## Reports
    - proven: `eqx.filter_jit` or `jax.jit` of `model.__call__`, of `jax.vmap(model)` or of a lambda that calls `model`,
      an Equinox Module with arrays.
    - proven: a jitted function that reads an array from an outer scope, if the array was sharded over a mesh.
    - possible: a jit of `model.__call__`, `jax.vmap(model)` or such a lambda, if shardlint does not know the class of
      `model`.

    ## Write instead
    Jit the Module itself: `filter_jit(model)`, `filter_jit(model.method)` or `filter_jit(eqx.filter_vmap(model))`.
    Equinox makes `model.method` a pytree that contains the weights, but not `model.__call__`. Or pass the model as an
    argument: `eqx.filter_jit(lambda model, xs: jax.vmap(model)(xs))`.

    ## Fix
    Safe for `eqx.filter_jit`: the weights become arguments. Unsafe for `jax.jit`: the fix writes `eqx.filter_jit`, and
    numbers become static. No fix for functions that read a variable from an outer scope.

    ## Limits
    Not reported: arrays on a mesh with Explicit axes. They keep their sharding, or the call raises ValueError because
    the function runs on other devices. Also not reported: arrays of which the function uses only the shape or dtype.
    """

    code = "SL105"
    name = "weights-become-constants"
    harm = Harm.SILENT
    releases: ClassVar[Mapping[str, str]] = {"jax": ">=0.4.38", "equinox": ">=0.11.5"}
    triggers = (Calls("jax.jit", _FILTER, file_says=_NEAR), Uses("jax.jit", _FILTER, file_says=_NEAR))
    where = "host"
    fixes = "both"

    @detector("call", "partial", "name")
    def report_closure(self, site: Site) -> Finding | None:
        """A jit of a function that closes over a Module or a sharded array."""
        found = jitted_function(site)
        if found is None:
            return None
        baked = _find_baked_module(site, found)
        if baked is not None:
            return self._report_module(site, found, baked)
        variable = find_carried_array(site, found.fun)
        if variable is None:
            return None
        return site.finding(
            found.name,
            f"`{variable.name}` loses its sharding: it becomes a replicated constant of the compiled program.",
            why=f"line {variable.line} shards the array, and it is not an argument of the jitted function",
            help=f"pass `{variable.name}` as an argument of the function",
        )

    def _report_module(self, site: Site, jitted: Jitted, baked: _Baked) -> Finding:
        sharded = _is_sharded(site, baked.model)
        model = site.shown(baked.model)
        sure = baked.instance.surely or site.region.traced == "never"
        return site.finding(
            jitted.name,
            f"The weights of `{model}` lose their sharding: they become replicated constants of the compiled program."
            if sharded
            else f"The weights of `{model}` are in memory twice: they become constants of the compiled program.",
            why="jit compiles a function that closes over the Module",
            help="compile the Module itself with `eqx.filter_jit`, or pass the Module as an argument",
            fix=self._make_fix(site, jitted, baked),
            harm=Harm.SILENT if sharded else Harm.COST,
            certainty=Certainty.PROVEN if sure else Certainty.POSSIBLE,
        )

    def _make_fix(self, site: Site, jitted: Jitted, baked: _Baked) -> Fix | None:
        filtered = site.api == _FILTER
        if (
            baked.whole is None
            or not (filtered or jitted.has_no_settings)
            or jitted.hidden
            or "donate" in jitted.keywords
        ):
            return None  # donate would reach the weights: SL106
        text = site.text(baked.model)
        edits: list[Edit] = []
        drops: list[str] = []
        if baked.mapped:
            spelled, imports = site.spell("equinox.filter_vmap")
            text = f"{spelled}({text})"
            edits += imports
        edits.append(site.replace(baked.whole, text))
        drops += [part.id for part in walk_nodes(baked.whole) if isinstance(part, ast.Name)]
        if filtered:
            return site.fix(Safety.SAFE, f"compile {text}", edits, drops=drops)
        spelled, imports = site.spell(_FILTER)
        edits += [site.replace(jitted.name, spelled), *imports]
        if isinstance(jitted.name, ast.Name):
            drops.append(jitted.name.id)
        why = "numbers become static, and jit compiles again for each value"
        return site.fix(Safety.UNSAFE, f"write: {spelled}({text})", edits, why, drops)


def _find_baked_module(site: Site, jitted: Jitted) -> _Baked | None:
    node = jitted.function
    if not isinstance(node, ast.expr):
        return None
    own = _find_bound_module(site, node)
    if own is not None:
        return own
    return _find_module_in_lambda(site, node) if isinstance(node, ast.Lambda) else None


def _find_bound_module(site: Site, node: ast.expr) -> _Baked | None:
    """`model.__call__`, `jax.vmap(model)`, `jax.vmap(model.method)`."""
    if isinstance(node, ast.Attribute) and node.attr == "__call__":
        instance = _module_with_arrays(site, node.value)
        return _Baked(instance, node.value, node) if instance is not None else None
    if not isinstance(node, ast.Call) or not node.args or not _is_vmap(site, node):
        return None
    inner = node.args[0]
    plain = len(node.args) == 1 and not node.keywords
    base = inner.value if isinstance(inner, ast.Attribute) and _is_method(site, inner) else inner
    instance = _module_with_arrays(site, base)
    if instance is None:
        return None
    model = base if isinstance(inner, ast.Attribute) and inner.attr == "__call__" else inner
    return _Baked(instance, model, node if plain else None, True)


def _find_module_in_lambda(site: Site, node: ast.Lambda) -> _Baked | None:
    """`lambda x: model(x)` and `lambda x: jax.vmap(model)(x)`."""
    body = node.body
    if not isinstance(body, ast.Call):
        return None
    inner = _find_bound_module(site, body.func)
    if inner is None:
        instance = _module_with_arrays(site, body.func)
        inner = _Baked(instance, body.func, body.func) if instance is not None else None
    if inner is None or _is_parameter(inner.model, node):
        return None
    lasting = inner.whole is not None and _is_bound_once(site, inner.model)
    whole = node if lasting and _forwards_arguments(node, body) else None
    return _Baked(inner.instance, inner.model, whole, inner.mapped)


def _is_bound_once(site: Site, model: ast.expr) -> bool:
    """A lambda reads a variable when it is called first, filter_jit of the variable at once."""
    if not isinstance(model, ast.Name):
        return False
    _, scope = lookup_bindings(site.file, model, model.id)
    return scope is not None and len(site.file.bindings(scope, model.id)) == 1


def _is_parameter(model: ast.expr, node: ast.Lambda) -> bool:
    names = {arg.arg for arg in walk_nodes(node.args) if isinstance(arg, ast.arg)}
    return any(isinstance(part, ast.Name) and part.id in names for part in walk_nodes(model))


def _forwards_arguments(node: ast.Lambda, call: ast.Call) -> bool:
    """Return whether a lambda passes its arguments on unchanged."""
    args = node.args
    if args.vararg or args.kwarg or args.kwonlyargs or args.defaults or call.keywords:
        return False
    names = [arg.arg for arg in (*args.posonlyargs, *args.args)]
    return [getattr(argument, "id", None) for argument in call.args] == names


def _is_vmap(site: Site, node: ast.Call) -> bool:
    value = site.value(node)
    return isinstance(value, Transformed) and value.api.name == "jax.vmap"


def _is_method(site: Site, node: ast.Attribute) -> bool:
    value = site.value(node)
    return isinstance(value, Function) and value.bound


def _module_with_arrays(site: Site, node: ast.expr) -> Instance | None:
    """The Module an expression is, if it surely holds arrays and was not made for this call."""
    if not isinstance(node, ast.Name | ast.Attribute):
        return None
    instance = site.program.find_room(Modules).module_instance(site.value(node))
    if instance is None:
        return None
    leaves = site.program.find_room(Modules).list_leaves(instance)
    return instance if any(leaf.kind == "array" and leaf.sure for leaf in leaves) else None


def _is_sharded(site: Site, node: ast.expr) -> bool:
    return line_of_split(site, site.value(node)) is not None
