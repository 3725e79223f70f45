"""SL507."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from typing import ClassVar

from shardlint.model.signatures import JITS
from shardlint.model.values import Api, Transformed, options
from shardlint.rules_api.rule import Calls, Finding, Fix, Harm, Rule, Safety, detector
from shardlint.rules_api.site import Site
from shardlint.syntax import Binding, Scope
from shardlint.syntax.bindings import lookup_bindings

_GRADS = ("flax.nnx.value_and_grad", "flax.nnx.grad")
_MERGE = "flax.nnx.merge"


class UpdateLostInJit(Rule):
    """An NNX optimizer is updated under `jax.jit`, and its state is not returned.

    `update` changes the model in place. `jax.jit` traces a copy of its arguments and discards it after the call, so
    every step starts from the same weights. Nothing is raised.

    ## Reports
    - proven: `optimizer.update(...)` with gradients of `nnx.grad` or `nnx.value_and_grad` in a function that only
      `jax.jit` traces. The optimizer is an argument or comes from `nnx.merge`, and no later code in the function uses
      the optimizer or the model.

    ## Write instead
    Trace the function with `nnx.jit`. Or return `nnx.state((model, optimizer))`, and call
    `nnx.update((model, optimizer), state)` outside the jitted function.

    ## Fix
    Writes `@nnx.jit` for a plain `@jax.jit` if the optimizer is an argument. Unsafe: the program begins to train.

    ## Limits
    Not reported: a model that is used after the update, and `update(grads)` in a project without
    `nnx.ModelAndOptimizer`. This call raises.
    """

    code = "SL507"
    name = "update-lost-in-jit"
    harm = Harm.SILENT
    releases: ClassVar[Mapping[str, str]] = {"flax": ">=0.11"}
    triggers = (Calls(*_GRADS, file_says=(".update(",)),)
    fixes = "unsafe"

    @detector("call")
    def find_updates(self, site: Site) -> Iterator[Finding]:
        """Each update that is lost."""
        scope = site.scope.enclosing_function()
        if scope is None or isinstance(scope.node, ast.Lambda):
            return
        updates = [call for call in site.file.walk_scope(scope).calls if _is_update(site, call)]
        if not updates or not only_jax_jit(site, scope):
            return
        for call in updates:
            owner = call.func.value if isinstance(call.func, ast.Attribute) else None
            if not isinstance(owner, ast.Name):
                continue
            merged = _is_merged(site, scope, owner)
            if merged is None:
                continue
            changed = {owner.id, *(arg.id for arg in call.args[:-1] if isinstance(arg, ast.Name))}
            if any(_is_used_elsewhere(site, scope, name, call) for name in changed):
                continue
            yield site.finding(
                call,
                self._format_message(owner.id, merged),
                via=site.region,
                help="trace the function with `nnx.jit`, "
                "or return `nnx.state((model, optimizer))` and call `nnx.update((model, optimizer), state)` outside",
                fix=None if merged else self._write_nnx_jit(site, scope),
            )

    def _format_message(self, name: str, merged: bool) -> str:
        maker = "nnx.merge" if merged else "jax.jit"
        return f"Nothing trains: this updates a copy of `{name}` made by `{maker}`, discarded after the call."

    def _write_nnx_jit(self, site: Site, scope: Scope) -> Fix | None:
        node = scope.node
        if not isinstance(node, ast.FunctionDef):
            return None
        plain = [
            one
            for one in node.decorator_list
            if isinstance(one, ast.Name | ast.Attribute)
            and all(isinstance(value, Api) and value.name == "jax.jit" for value in options(site.value(one)))
        ]
        if len(plain) != 1 or len(node.decorator_list) != 1:
            return None
        name, imports = site.spell("flax.nnx.jit")
        edits = [site.replace(plain[0], name), *imports]
        return site.fix(Safety.UNSAFE, f"write @{name}", edits, "the program begins to train", drops=("jax",))


def _is_update(site: Site, call: ast.Call) -> bool:
    """Return whether a call is a statement `x.update(..., grads)` with gradients of NNX."""
    if not (isinstance(call.func, ast.Attribute) and call.func.attr == "update" and call.args):
        return False
    if call.keywords or not isinstance(site.file.parent(call), ast.Expr):
        return False
    if len(call.args) == 1 and not site.is_named_anywhere("ModelAndOptimizer"):
        return False  # an `nnx.Optimizer` takes the model too, and raises
    gradients = call.args[-1]
    if not isinstance(gradients, ast.Name):
        return False
    bindings, _ = lookup_bindings(site.file, gradients, gradients.id)
    return bool(bindings) and all(_is_gradient(site, binding) for binding in bindings)


def _is_gradient(site: Site, binding: Binding) -> bool:
    """Return whether a name is bound to gradients from `nnx.grad` or `nnx.value_and_grad`."""
    if not isinstance(binding.value, ast.Call):
        return False
    for one in options(site.value(binding.value.func)):
        if not isinstance(one, Transformed) or one.api.name not in _GRADS:
            return False
        # `loss, grads = ...`, or `grads = ...`, or `grads, aux = ...`
        part = 1 if one.api.name == _GRADS[0] else 0
        if not (binding.kind == "unpack" and binding.index == part) and not (
            binding.kind == "assign" and part == 0
        ):
            return False
    return True


def only_jax_jit(site: Site, scope: Scope) -> bool:
    """Return whether every trace of the function is by `jax.jit` itself, with no transform of NNX around it."""
    if (
        not site.region.is_proven
        or not site.region.reasons_inside_out
        or site.region.reasons_inside_out[0].text != f"traced by {site.region.by}"
    ):
        return False
    ends = site.program.flow.ends(site.file, scope.node)
    names = [wrapper.name for end in ends.found for wrapper in end.wrappers]
    return site.region.by in JITS and not any(name.startswith("flax.") for name in names)


def _is_merged(site: Site, scope: Scope, name: ast.Name) -> bool | None:
    """Return whether the object of a name was merged in the function (True) or is an argument of it (False)."""
    bindings, owner = lookup_bindings(site.file, name, name.id)
    if owner is not scope or len(bindings) != 1:
        return None
    binding = bindings[0]
    if binding.kind == "param":
        return False
    value = binding.value
    if binding.kind in ("assign", "unpack") and isinstance(value, ast.Call):
        called = options(site.value(value.func))
        return True if all(isinstance(one, Api) and one.name == _MERGE for one in called) else None
    return None


def _is_used_elsewhere(site: Site, scope: Scope, name: str, call: ast.Call) -> bool:
    """Return whether a name is mentioned in a function anywhere else than before an update outside of loops."""
    if any(isinstance(outer, ast.For | ast.While | ast.AsyncFor) for outer in site.file.ancestors(call)):
        return True
    _, end = site.file.character_span(call)
    inside = site.file.character_span(scope.node)[1]
    for node in site.file.find_mentions(name):
        start, _ = site.file.character_span(node)
        if isinstance(node, ast.Name) and end <= start < inside:
            return True
    return False
