"""Transforms in the body of a `shard_map` or `pmap`: what `grad`, `vmap` and `partial` make of a function."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from shardlint.model.manual.varying import (
    HIDDEN,
    Closure,
    Frame,
    Known,
    Leaf,
    Local,
    Through,
    Tree,
    axes_of,
    combined,
    each,
)
from shardlint.model.reach import assigned_once
from shardlint.model.signatures import KEEPING
from shardlint.model.values import Api, Constant, Function, Items, Place, Transformed
from shardlint.syntax import FileFacts
from shardlint.syntax.nodes import walk

if TYPE_CHECKING:
    from shardlint.model.manual.local_calls import LocalCalls

Named = dict[str, Local]
_GRADS = (
    "jax.grad",
    "jax.value_and_grad",
    "equinox.filter_grad",
    "equinox.filter_value_and_grad",
    "flax.nnx.grad",
    "flax.nnx.value_and_grad",
)
_KEEPS = KEEPING - {*_GRADS, "jax.vmap", "equinox.filter_vmap"}


class LocalTransforms:
    """Applies transforms, for the calls of a body."""

    def __init__(self, calls: LocalCalls) -> None:
        self.calls = calls

    def apply(self, made: Through, given: list[Local], named: Named, place: Place) -> Local:
        """The result of calling a function that went through a transform."""
        if made.api == "functools.partial":
            return self.calls.apply(made.inner, [*made.arguments, *given], {**made.keywords, **named}, place)
        if made.api in _GRADS:
            return self._gradient(made, given, named, place)
        if made.api in ("jax.vmap", "equinox.filter_vmap", "flax.nnx.vmap"):
            axis = self._own_axis(made)
            if axis is None:
                return combined([*given, *named.values(), HIDDEN])
            self.calls.body.batched.append(axis)
            try:
                result = self.calls.apply(made.inner, given, named, place)
            finally:
                self.calls.body.batched.pop()
            return combined([result]) if isinstance(result, Known) else _without_kinds(result)
        if made.api in _KEEPS or made.api in (
            "jax.checkpoint",
            "flax.nnx.remat",
            "equinox.filter_checkpoint",
        ):
            return self.calls.apply(made.inner, given, named, place)
        return combined([*given, *named.values(), HIDDEN])

    def _own_axis(self, made: Through) -> str | None:
        """The axis that a `vmap` binds, an empty string if none; None where it may be any."""
        if "spmd_axis_name" in made.keywords:
            return None
        named = made.keywords.get("axis_name")
        if named is None or named == Known(Constant(None)):
            return ""
        axes = axes_of(named.value) if isinstance(named, Known) else None
        return axes[0] if axes is not None and len(axes) == 1 and isinstance(axes[0], str) else None

    def _gradient(self, made: Through, given: list[Local], named: Named, place: Place) -> Local:
        """What `jax.grad(f)(...)` gives: of arguments that do not vary, by release, summed over the devices."""
        self.calls.differentiated += 1
        try:
            result = self.calls.apply(made.inner, given, named, place)
        finally:
            self.calls.differentiated -= 1
        value = result.items[0] if isinstance(result, Tree) and result.items else result
        has_aux = made.keywords.get("has_aux")
        aux = isinstance(has_aux, Known) and has_aux.value == Constant(True)
        loss = combined([value if aux else result])
        which = _numbers(made.keywords.get("argnums") or (made.arguments[0] if made.arguments else None))
        self.calls.body.trained |= _fields_given(place, which)
        if which is None:
            grads: Local = combined([loss, *given, HIDDEN])
        else:
            found = [
                HIDDEN
                if i >= len(given)
                else Leaf(traced=True)  # zero on every device
                if _unused(made.inner, i)
                else self._of(given[i], loss, place)
                for i in which[0]
            ]
            grads = Tree(tuple(found)) if which[1] else found[0]
        if made.api.endswith("value_and_grad"):
            return Tree((result, grads))
        if aux:
            rest = result.items[1:] if isinstance(result, Tree) else (combined([result]),)
            return Tree((grads, *rest))
        return grads

    def _of(self, argument: Local, loss: Leaf, place: Place) -> Local:
        before = combined([argument])
        summed = (
            frozenset(axis for axis in loss.over if before.same_over(axis))
            if self.calls.body.summed
            else frozenset()
        )
        over = (loss.over | before.over) - summed
        if not self.calls.body.summed:
            # The derivative of a reduction is that of each device's own part.
            over |= frozenset(axis for axis in loss.reduced if axis in self.calls.body.manual and loss.traced)
        maybe = (loss.maybe | before.maybe) - over
        firm = (loss.sure | before.sure) - summed
        unseen = loss.open or before.open
        return Leaf(over, maybe, unseen, summed, "gradient", True, loss.marks, place, firm=firm)

    def decorated(self, file: FileFacts, node: ast.expr, inner: Local, frame: Frame) -> Local:
        """A function of the body through one of its decorators."""
        made = self.calls.body.expression(file, node, frame)
        name, named = "", dict[str, Local]()
        arguments: tuple[Local, ...] = ()
        match made:
            case Known(value=Api(name=name)):
                pass
            case Known(value=Transformed(api=Api(name="functools.partial"), inner=Api(name=name)) as partial):
                through = self.calls.unwrapped(partial)
                arguments, named = through.arguments, dict(through.keywords)
            case Through(api="functools.partial", inner=Known(value=Api(name=name))):
                arguments, named = made.arguments, dict(made.keywords)
        return Through(name, inner, arguments, named)


def _without_kinds(value: Local) -> Local:
    return each(value, lambda leaf: leaf.plain())


def _unused(function: Local, index: int) -> bool:
    """Whether a function does nothing with one of its arguments."""
    node: ast.AST | None = None
    if isinstance(function, Closure):
        node = function.node
    elif isinstance(function, Known) and isinstance(function.value, Function) and not function.value.bound:
        node = function.value.node
    if not isinstance(node, ast.FunctionDef | ast.Lambda) or index >= len(node.args.args):
        return False
    name, body = node.args.args[index].arg, node.body if isinstance(node.body, list) else [node.body]
    return not any(isinstance(one, ast.Name) and one.id == name for part in body for one in walk(part))


def _numbers(value: Local | None) -> tuple[list[int], bool] | None:
    """The arguments a gradient is taken of, and whether it is a tuple."""
    if value is None:
        return [0], False
    if isinstance(value, Known):
        if isinstance(value.value, Constant) and isinstance(value.value.value, int):
            return [value.value.value], False
        if isinstance(value.value, Items) and not value.value.open:
            found = [one.value for one in value.value.items if isinstance(one, Constant)]
            return [one for one in found if isinstance(one, int)], True
    return None


def _fields_given(place: Place, which: tuple[list[int], bool] | None) -> set[str]:
    """The fields with respect to which a gradient is taken: `params` of `state.params`; `*` where that is not told."""
    arguments = place.node.args if isinstance(place.node, ast.Call) else []
    if which is None or any(at >= len(arguments) or at < 0 for at in which[0]):
        return {"*"}
    return {_field(place.file, arguments[at]) for at in which[0]}


def _field(file: FileFacts, node: ast.expr) -> str:
    match node:
        case ast.Attribute(attr=name) | ast.Subscript(slice=ast.Constant(value=str() as name)):
            return name
        case ast.Name(id="params" | "parameters" | "weights" as name):
            return name
        case ast.Name() if isinstance(value := assigned_once(file, node), ast.Attribute | ast.Subscript):
            return _field(file, value)
    return "*"
