"""Calls in the body of a `shard_map` or `pmap`: of functions of the project, through transforms, of methods."""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from shardlint.model import api
from shardlint.model.manual.collectives import Collectives
from shardlint.model.manual.library_calls import LibraryCalls
from shardlint.model.manual.local_transforms import LocalTransforms
from shardlint.model.manual.varying import (
    HIDDEN,
    NOTHING,
    OPEN,
    Closure,
    Event,
    Frame,
    Known,
    Leaf,
    Local,
    Record,
    Through,
    Tree,
    Updated,
    combined,
    each,
    either,
    leaves,
    with_fields,
    without_fields,
)
from shardlint.model.values import (
    Api,
    AxisOf,
    CallArguments,
    CallResult,
    ClassValue,
    Constant,
    Function,
    Items,
    ModuleValue,
    Parameter,
    Place,
    Table,
    TableMethod,
    Transformed,
    Unknown,
    Value,
    options,
)
from shardlint.source.patterns import regex
from shardlint.syntax import FileFacts, last_name

if TYPE_CHECKING:
    from shardlint.model.manual.local_values import LocalValues

Named = dict[str, Local]
# What an object of an unseen class does to its arguments, by the names that optimizers and states give it.
_METHODS = frozenset("mean sum std var max min argmax argmin cumsum cumprod".split())
# What objects call a method in which a collective stands.
_BRINGS_TOGETHER = regex(r"gather|psum|pmean|all_?reduce|cross_replica|(?:^|_)sync(?:_|$)")
_PURE_METHODS = frozenset(("update", "apply_gradient", "apply_gradients", "apply_updates"))
# Methods that give fields of an object anew.
_REPLACING_FIELDS = ("replace", "_replace")


def _as_updated(leaf: Leaf, place: Place) -> Leaf:
    return replace(leaf, origin=place, kind="updated") if leaf.kind == "gradient" and leaf.over else leaf


def left_over(callee: Local, given: int, named: frozenset[str]) -> list[str] | None:
    """The parameters that a call gives nothing for yet; None where the function is not seen or takes any number."""
    bound = 0
    while isinstance(callee, Through):
        if callee.api == "functools.partial":
            bound, named = bound + len(callee.arguments), named | set(callee.keywords)
        callee = callee.inner
    if isinstance(callee, Closure):
        node: ast.AST = callee.node
    elif isinstance(callee, Known) and isinstance(callee.value, Function):
        node, bound = callee.value.node, bound + (1 if callee.value.bound else 0)
    else:
        return None
    if not isinstance(node, ast.FunctionDef | ast.Lambda) or node.args.vararg or node.args.kwarg:
        return None
    names = [one.arg for one in (*node.args.posonlyargs, *node.args.args)]
    needed = len(names) - len(node.args.defaults)
    return [name for name in names[bound + given : needed] if name not in named]


class LocalCalls:
    """Applies functions, for a body."""

    def __init__(self, body: LocalValues) -> None:
        self.body = body
        self.collectives = Collectives(self)
        self.library = LibraryCalls(self)
        self.transforms = LocalTransforms(self)

    def call(self, file: FileFacts, node: ast.Call, frame: Frame) -> Local:
        """The result of a call in a body."""
        given: list[Local] = []
        hidden = settings = False
        rest: list[Leaf] = []
        for argument in node.args:
            value = self.body.expression(file, argument, frame)
            if isinstance(argument, ast.Starred):
                if isinstance(value, Tree):
                    given.extend(value.items)
                elif isinstance(value, Leaf) and argument is node.args[-1] and not node.keywords:
                    rest.append(combined([value]))
                else:
                    hidden = True
                    given.append(combined([value]))
            else:
                given.append(value)
        named: Named = {}
        for keyword in node.keywords:
            value = self.body.expression(file, keyword.value, frame)
            if keyword.arg is not None:
                named[keyword.arg] = value
            elif isinstance(value, Record):
                named.update({str(k): v for k, v in value.entries})
            elif isinstance(value, Leaf) and keyword is node.keywords[-1]:
                rest.append(combined([value]))
            elif isinstance(value, Known):
                settings = True
            else:
                hidden = True
        place = Place(file, node)
        if isinstance(node.func, ast.Attribute):
            base = self.body.expression(file, node.func.value, frame)
            if not isinstance(base, Known | Through):
                method = self.body.bound(base, node.func.attr) if isinstance(base, Leaf) else None
                if method is not None:
                    return self.apply(method, given, named, place)
                held = self.body.attribute(file, base, node.func) if isinstance(base, Leaf) else None
                if isinstance(held, Leaf) and held.value is not None:
                    return self.apply(held, given, named, place)  # a part of an object that is called
                return self._method(base, node.func.attr, given, named, place)
            callee = self.body.attribute(file, base, node.func)
            if isinstance(callee, Known) and isinstance(callee.value, Unknown):
                return self._unseen_method(base, node.func.attr, given, named, place)
        else:
            callee = self.body.expression(file, node.func, frame)
        if rest:
            left = left_over(callee, len(given), frozenset(named))
            hidden = hidden or left is None
            # The arrays of a tree that are alike are what is left to be given.
            if left is None or not node.keywords:
                given += rest * (1 if left is None else len(left))
            else:
                named.update(dict.fromkeys(left, rest[0]))
        if settings:  # `**config.loss`: any of what is not given, and no array of the body
            if isinstance(callee, Closure) or (isinstance(callee, Known) and isinstance(callee.value, Function)):
                named[OPEN] = NOTHING
            else:
                hidden = True
        if hidden and not (isinstance(callee, Known) and isinstance(callee.value, Api)):
            return combined([*given, *named.values(), *rest, HIDDEN])
        return self.apply(callee, given, named, place)

    def apply(self, callee: Local, given: Sequence[Local], named: Mapping[str, Local], place: Place) -> Local:
        """The result of calling a value."""
        arguments, keywords = list(given), dict(named)
        match callee:
            case Closure():
                return self._run(callee, arguments, keywords, place)
            case Through():
                return self.transforms.apply(callee, arguments, keywords, place)
            case Known(value=value):
                results = [self._known(option, arguments, keywords, place) for option in options(value)]
                result = results[0]
                for other in results[1:]:
                    result = either(result, other)
                return result
        if isinstance(callee, Leaf) and callee.value is not None:
            method = self.body.bound(callee, "__call__")
            if method is not None:
                return self.apply(method, arguments, keywords, place)
        return self._unseen([callee, *arguments, *keywords.values()], place)

    def _unseen(self, values: list[Local], place: Place) -> Leaf:
        """The result of a function that is not seen: of gradients an update, if it is called one."""
        node = place.node
        name = last_name(node.func) if isinstance(node, ast.Call) else ""
        if name.removesuffix("_fn").endswith("update") and place.file.says("optax"):
            return self._optimized(combined(values), values, place)
        return combined([*values, HIDDEN])

    def _known(self, value: Value, given: list[Local], named: Named, place: Place) -> Local:
        match value:
            case Function():
                return self._run(value, given, named, place)
            case Api():
                return self.library.call(value.name, given, named, place)
            case Transformed():
                return self.apply(self.unwrapped(value), given, named, place)
            case ClassValue() if all(isinstance(one, Known) for one in (*given, *named.values())):
                return Known(self.body.evaluator.value(place))
            case ClassValue():
                return combined([*given, *named.values()])
            case CallResult(by=ClassValue()):
                method = self.member(value, "__call__")
                if not isinstance(method, Unknown):
                    return self._known(method, given, named, place)
            case CallResult(by=Api()) if value.api in api.TRANSFORMS:
                return combined([*given, *named.values(), HIDDEN])
            case TableMethod(table=Table() as table, name="get") if given:
                key = given[0]
                if isinstance(key, Known) and isinstance(key.value, Constant):
                    return Known(table.get(key.value.value) or Constant(None))
        if not any(leaf.traced for one in (*given, *named.values()) for leaf in leaves(one)):
            return Known(Unknown("made outside of what is seen"))
        return self._unseen([*given, *named.values()], place)

    def _run(self, function: Function | Closure, given: list[Local], named: Named, place: Place) -> Local:
        self.body.chain.append(place)
        try:
            return self.body.run(function, given, named)
        finally:
            self.body.chain.pop()

    def unwrapped(self, value: Transformed) -> Through:
        """A function through a transform outside of the body."""
        arguments: list[Local] = []
        named: Named = {}
        call = value.call
        if isinstance(call, CallArguments):
            first = 1 if call.positional else 0
            asked = self.body.evaluator.value
            arguments = [Known(asked(one, call.environment)) for one in call.positional[first:]]
            named = {name: Known(asked(one, call.environment)) for name, one in call.keywords.items()}
        return Through(value.api.name, Known(value.inner), tuple(arguments), named)

    # objects

    def member(self, value: Value, name: str) -> Value:
        """An attribute of something outside of the body."""
        return self.body.evaluator.attribute(value, name)

    def _unseen_method(self, base: Local, name: str, given: list[Local], named: Named, place: Place) -> Local:
        """A method of an object of which nothing is seen."""
        if name in _REPLACING_FIELDS and isinstance(base, Leaf | Updated):
            return self.replace_fields(base, given, named, place)
        values = [base, *given, *named.values()]
        of = base.value if isinstance(base, Known) else None
        optimizer = isinstance(of, CallResult) and of.api.startswith("optax.")
        # `update` is a name that many objects have: of one that is not seen it counts where optax is at hand.
        if optimizer or (name in _PURE_METHODS and (name != "update" or place.file.says("optax"))):
            return self._optimized(combined(values), values, place)
        if isinstance(of, ModuleValue | Items | Table) or not any(
            leaf.traced for value in values for leaf in leaves(value)
        ):
            return (
                NOTHING if not any(leaf.over or leaf.open for v in values for leaf in leaves(v)) else HIDDEN
            )
        return combined([*values, HIDDEN])

    def _optimized(self, result: Leaf, values: list[Local], place: Place) -> Leaf:
        """What an optimizer makes of gradients."""
        # What is accumulated in a field is no update.
        every = [leaf for value in values for leaf in leaves(without_fields(value))]
        gradients = [leaf for leaf in every if leaf.kind == "gradient" and leaf.over]
        return replace(result, origin=place, kind="updated") if gradients else result

    def replace_fields(self, base: Local, given: list[Local], named: Named, place: Place) -> Local:
        """An object with fields given anew. Gradients make an update of those that they were taken of alone."""
        if given:
            return combined([base, *given, *named.values()])
        trained = self.body.trained
        updates = {name: one for name, one in named.items() if not trained or "*" in trained or name in trained}
        made = {name: each(one, lambda leaf: _as_updated(leaf, place)) for name, one in updates.items()}
        return with_fields(base, {**named, **made})

    def _method(self, base: Local, name: str, given: list[Local], named: Named, place: Place) -> Local:
        if isinstance(base, Record):
            if name == "items":
                return Tree(tuple(Tree((Known(Constant(k)), v)) for k, v in base.entries))
            if name == "values":
                return Tree(tuple(v for _, v in base.entries))
            if (
                name == "get"
                and given
                and isinstance(given[0], Known)
                and isinstance(given[0].value, Constant)
            ):
                return base.get(given[0].value.value) or combined([base])
        if name in _METHODS and isinstance(base, Leaf):
            return self.library.call(f"jax.numpy.{name}", [base, *given], named, place)
        if name in ("astype", "block_until_ready") and isinstance(base, Leaf):
            return base
        if name in _REPLACING_FIELDS and isinstance(base, Leaf | Updated):
            return self.replace_fields(base, given, named, place)
        values = [base, *given, *named.values()]
        if _BRINGS_TOGETHER.search(name):  # no array has such a method: clu's metrics `gather_from_model_output`
            values.append(HIDDEN)
        return self._optimized(combined(values), values, place) if name in _PURE_METHODS else combined(values)

    # events

    def note(
        self,
        kind: str,
        place: Place,
        axes: tuple[object, ...],
        leaf: Leaf,
        note: str = "",
        chain: tuple[Place, ...] | None = None,
    ) -> int:
        """Record an event; its number. `chain` leads to it, where that is not here."""
        known = tuple(axis for axis in axes if isinstance(axis, str | Parameter | AxisOf))
        event = Event(kind, place, tuple(self.body.chain) if chain is None else chain, known, leaf, note)
        for number, other in enumerate(self.body.events):
            if (other.kind, other.place, other.axes) == (kind, place, known):
                return number
        self.body.events.append(event)
        return len(self.body.events) - 1

    def still_random(self, result: Leaf, *values: Local) -> Leaf:
        """What is made of random numbers and of constants alone is random numbers still."""
        masks = [one for one in values if isinstance(one, Leaf) and one.kind == "mask"]
        if not masks or not all(isinstance(one, Known) or one in masks for one in values):
            return result
        return replace(result, kind="mask", origin=masks[0].origin)
