"""What expressions in the body of a `shard_map` or `pmap` are on each device.

The half of running a body (shardlint/model/manual/bodies.py) that knows no statements.
"""

from __future__ import annotations

import ast
from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from shardlint.model.manual.arithmetic import Arithmetic
from shardlint.model.manual.local_calls import LocalCalls
from shardlint.model.manual.varying import (
    COPIES,
    HIDDEN,
    NONE,
    NOTHING,
    Axes,
    Closure,
    Frame,
    Known,
    Leaf,
    Local,
    Record,
    Through,
    Tree,
    Updated,
    combined,
    either,
    field_of,
    with_fields,
)
from shardlint.model.values import (
    Api,
    CallResult,
    Constant,
    Function,
    Items,
    Parameter,
    Place,
    Transformed,
    Unknown,
    Value,
    options,
)
from shardlint.source.patterns import regex
from shardlint.syntax import FileFacts
from shardlint.syntax.nodes import children

if TYPE_CHECKING:
    from shardlint.model.evaluator.evaluate import Evaluator

_KEY_NAME = regex(r"(?:^|_)(?:p?rngs?|(?:prng_?)?keys?|seed)\d*$")
STEPS = 6000
"""How many expressions and turns of loops of a body are looked at, at most."""
SHARE = 3
"""A function that is called in it may take one part in so many of those left: what follows is looked at too."""
LEAST = 700
"""It may take so many of them, though, if there are: steps are often functions in functions, five deep."""
# Attributes of an array that are the same on all devices.
_STATIC = frozenset(("shape", "dtype", "ndim", "size", "sharding", "itemsize", "nbytes", "aval", "weak_type"))


class LocalValues(Arithmetic):
    """The values of a body. `summed` says that jax sums the gradients of what does not vary (jax 0.6.1, check on)."""

    def __init__(
        self, evaluator: Evaluator, followed: Callable[[Value], Value], manual: Axes, summed: bool
    ) -> None:
        super().__init__(evaluator)
        self.followed = followed
        """A parameter of a function around the body, as all calls of that function give it."""
        self.manual = manual
        self.summed = summed
        self.chain: list[Place] = []
        self._frames: list[Frame] = []
        self.calls = LocalCalls(self)
        self.branches = 0
        """How many branches that may not be taken are open."""
        """The axes along which devices go different ways here, by what a `cond` or a `while_loop` asks."""
        self.batched: list[str] = []
        """The axes that a `vmap` binds around here, on one device."""
        self.split: Axes = NONE
        """The axes over which some argument of the body is split, keys aside."""
        self.trained: set[str] = set()
        """The fields with respect to which gradients are taken; `*` stands for what is not told."""
        self.steps = 0
        self.limit = STEPS
        """Up to which step the function that runs now is looked at."""
        self._running: list[ast.AST] = []
        """The functions that run now, one in another."""

    def end(self) -> None:
        """Break the cycles between calls, frames and the functions in them. Nothing may be asked afterwards."""
        for frame in self._frames:
            frame.names.clear()
        vars(self.calls).clear()
        vars(self).clear()

    @abstractmethod
    def run(self, function: Function | Closure, given: Sequence[Local], named: dict[str, Local]) -> Local:
        """What a function of the project returns for these arguments."""

    def expression(self, file: FileFacts, node: ast.expr, frame: Frame) -> Local:
        """What an expression is on each device."""
        self.steps += 1
        if self.steps > self.limit:
            return HIDDEN
        match node:
            case ast.Constant():
                return Known(Constant(node.value))
            case ast.Name():
                found = frame.find(node.id)
                return found if found is not None else Known(self.outer(Place(file, node)))
            case ast.Attribute():
                return self.attribute(file, self.expression(file, node.value, frame), node)
            case ast.Call():
                return self.calls.call(file, node, frame)
            case ast.Tuple() | ast.List():
                return self._items(file, node.elts, frame)
            case ast.Dict():
                return self._table(file, node, frame)
            case ast.Lambda():
                return Closure(file, node, frame)
            case ast.BinOp():
                return self.arithmetic(
                    node.op,
                    self.expression(file, node.left, frame),
                    self.expression(file, node.right, frame),
                    Place(file, node),
                )
            case ast.UnaryOp():
                inner = self.expression(file, node.operand, frame)
                if isinstance(node.op, ast.USub) and isinstance(node.operand, ast.Constant):
                    return Known(self.evaluator.value(Place(file, node)))
                return inner if isinstance(inner, Leaf) else combined([inner])
            case ast.Subscript():
                return self._subscript(file, node, frame)
            case ast.Compare():
                return combined(self.expression(file, one, frame) for one in (node.left, *node.comparators))
            case ast.IfExp():
                truth = self.truth(file, node.test, frame)
                if truth is not None:
                    return self.expression(file, node.body if truth else node.orelse, frame)
                self.branches += 1
                one, two = (self.expression(file, way, frame) for way in (node.body, node.orelse))
                self.branches -= 1
                return either(one, two)
            case ast.NamedExpr():
                value = self.expression(file, node.value, frame)
                self.assign(file, node.target, value, frame)
                return value
            case ast.ListComp() | ast.GeneratorExp() | ast.SetComp() | ast.DictComp():
                return self._collected(file, node, frame)
            case ast.Starred():
                return self.expression(file, node.value, frame)
        parts = [one for one in children(node) if isinstance(one, ast.expr)]
        return combined([self.expression(file, one, frame) for one in parts])

    def _items(self, file: FileFacts, nodes: Sequence[ast.expr], frame: Frame) -> Local:
        found: list[Local] = []
        for node in nodes:
            value = self.expression(file, node, frame)
            if isinstance(node, ast.Starred):
                if not isinstance(value, Tree):
                    return combined([value, *found])
                found.extend(value.items)
            else:
                found.append(value)
        if found and all(isinstance(one, Known) for one in found):
            return Known(Items("tuple", tuple(one.value for one in found if isinstance(one, Known))))
        return Tree(tuple(found))

    def _table(self, file: FileFacts, node: ast.Dict, frame: Frame) -> Local:
        entries: dict[object, Local] = {}
        rest: Local | None = None
        for key, value in zip(node.keys, node.values, strict=True):
            found = self.expression(file, value, frame)
            name = self.expression(file, key, frame) if key is not None else None
            if isinstance(name, Known) and isinstance(name.value, Constant):
                entries[name.value.value] = found
            elif key is None and isinstance(found, Record):
                entries.update(found.entries)
            elif key is None and isinstance(found, Leaf | Updated) and value is node.values[0]:
                rest = found
            else:
                return combined([self.expression(file, one, frame) for one in node.values])
        return Record(tuple(entries.items())) if rest is None else with_fields(rest, entries)

    def _subscript(self, file: FileFacts, node: ast.Subscript, frame: Frame) -> Local:
        whole = self.expression(file, node.value, frame)
        key = self.expression(file, node.slice, frame)
        index = key.value.value if isinstance(key, Known) and isinstance(key.value, Constant) else None
        if (
            isinstance(whole, Tree)
            and isinstance(index, int)
            and -len(whole.items) <= index < len(whole.items)
        ):
            return whole.items[index]
        if isinstance(whole, Updated) and isinstance(index, str):
            return field_of(whole, index)
        if isinstance(whole, Record) and index is not None:
            return whole.get(index) or combined([whole])
        if isinstance(whole, Leaf) and whole.kind == COPIES and isinstance(index, str):
            return self._of_copies(whole, index, Place(file, node))
        if isinstance(whole, Known) and isinstance(key, Known):
            return Known(self.evaluator.value(Place(file, node))) if frame.parent is None else NOTHING
        if isinstance(whole, Leaf) and whole.kind == "gathered":
            # One of a tree of stacks is a stack; one of a stack is a shard.
            same = isinstance(index, str)
            return replace(combined([whole, key], whole.kind if same else ""), origin=whole.origin)
        return combined([whole, key], whole.kind if isinstance(whole, Leaf) else "")

    def outer(self, place: Place) -> Value:
        """What a name is that comes from around the body.

        An object or a function that a factory was given counts as its calls give it: it is looked into. An axis stays
        the parameter that it is, as it does in the specs.
        """
        value = self.evaluator.value(place)
        if not isinstance(value, Parameter):
            return value
        known = self.followed(value)
        looked_into = CallResult | Function | Transformed | Api
        return known if all(isinstance(one, looked_into) for one in options(known)) else value

    def attribute(self, file: FileFacts, base: Local, node: ast.Attribute) -> Local:
        """An attribute of a value."""
        if isinstance(base, Updated):
            field = base.get(node.attr)
            return field if field is not None else self.attribute(file, base.rest, node)
        if isinstance(base, Known):
            found = [self.calls.member(option, node.attr) for option in options(base.value)]
            return Known(found[0] if len(found) == 1 else Unknown("one of several"))
        if node.attr in _STATIC:
            return Known(Unknown("the shape of an array"))
        if isinstance(base, Leaf) and base.value is not None:
            bound = self.bound(base, node.attr)
            inner = self.calls.member(base.value, node.attr)
            if bound is not None:
                return bound
            base = replace(base, value=inner if isinstance(inner, CallResult) else None)
            if base.kind != COPIES:
                return base.plain()
        if isinstance(base, Leaf) and base.kind == COPIES:
            return self._of_copies(base, node.attr, Place(file, node))
        if isinstance(base, Leaf) and node.attr == "T" and base.kind == "gathered":
            return replace(base, kind="gathered.T")
        if isinstance(base, Leaf) and node.attr in ("T", "mT") and base.spec is not None and len(base.spec) == 2:
            return replace(base.plain(), spec=base.spec[::-1])
        return base.plain() if isinstance(base, Leaf) else combined([base])

    def _of_copies(self, whole: Leaf, name: str, place: Place) -> Leaf:
        """A part of a state of which each device has a copy: a random key in it is the same on all of them."""
        if not _KEY_NAME.search(name):
            return whole
        number = self.calls.note("key of copies", place, tuple(whole.maybe), whole)
        return Leaf(kind="key", traced=True, marks=whole.marks | {number}, origin=place)

    def bound(self, base: Leaf, name: str) -> Local | None:
        """A method of an object that came as an argument."""
        found = self.calls.member(base.value, name) if base.value is not None else Unknown()
        if not isinstance(found, Function):
            return None
        return Through("functools.partial", Known(Function(found.place, False, found.owner)), (base,))

    def element(self, whole: Local) -> Local:
        """Any element of what is gone over."""
        match whole:
            case Tree(items=items) if items:
                result = items[0]
                for item in items[1:]:
                    result = either(result, item)
                return result
            case Known(value=Items(items=items)) if len(items) == 1:
                return Known(items[0])
        return combined([whole])

    def part(self, whole: Local, index: int, count: int) -> Local:
        """One of the parts that a value is unpacked into."""
        match whole:
            case Tree(items=items) if index < len(items):
                return items[index]
            case Known(value=Items(items=items, open=False)) if index < len(items):
                return Known(items[index])
            case Leaf():
                return whole
        return combined([whole])

    def _collected(
        self,
        file: FileFacts,
        node: ast.ListComp | ast.GeneratorExp | ast.SetComp | ast.DictComp,
        frame: Frame,
    ) -> Local:
        inner = Frame({}, frame)
        self._frames.append(inner)
        single = len(node.generators) == 1 and not node.generators[0].ifs
        whole = self.expression(file, node.generators[0].iter, frame)
        each = list(whole.items) if isinstance(whole, Tree) else None
        if isinstance(whole, Known) and isinstance(whole.value, Items) and not whole.value.open:
            each = [Known(one) for one in whole.value.items]
        results = [node.key, node.value] if isinstance(node, ast.DictComp) else [node.elt]
        if not single or each is None or not each:
            for generator in node.generators:
                self.assign(
                    file, generator.target, self.element(self.expression(file, generator.iter, inner)), inner
                )
            return combined([self.expression(file, one, inner) for one in results])
        found: list[list[Local]] = []
        for item in each:
            self.assign(file, node.generators[0].target, item, inner)
            found.append([self.expression(file, one, inner) for one in results])
        if not isinstance(node, ast.DictComp):
            return Tree(tuple(one[0] for one in found))
        entries = [
            (k.value.value, v) for k, v in found if isinstance(k, Known) and isinstance(k.value, Constant)
        ]
        return Record(tuple(entries)) if len(entries) == len(found) else combined([v for _, v in found])

    def truth(self, file: FileFacts, test: ast.expr, frame: Frame) -> bool | None:
        """What a test comes to, where values outside of the body tell."""
        match test:
            case ast.UnaryOp(op=ast.Not()):
                inner = self.truth(file, test.operand, frame)
                return None if inner is None else not inner
            case ast.Compare(left=left, ops=[ast.Is() | ast.IsNot() as op], comparators=[ast.Constant(None)]):
                found = self.expression(file, left, frame)
                if isinstance(found, Known):
                    if _told(found.value):
                        return (found.value == Constant(None)) is isinstance(op, ast.Is)
                    return None
                return isinstance(op, ast.IsNot)
            case ast.Name() | ast.Attribute() | ast.Constant():
                found = self.expression(file, test, frame)
                if isinstance(found, Known) and isinstance(found.value, Constant):
                    return bool(found.value.value)
        return None

    def assign(self, file: FileFacts, target: ast.expr, value: Local, frame: Frame) -> None:
        """Bind what is assigned to."""
        match target:
            case ast.Name():
                frame.names[target.id] = value
            case ast.Tuple() | ast.List():
                count = len(target.elts)
                starred = any(isinstance(one, ast.Starred) for one in target.elts)
                for index, element in enumerate(target.elts):
                    part = self.element(value) if starred else self.part(value, index, count)
                    inner = element.value if isinstance(element, ast.Starred) else element
                    self.assign(file, inner, part, frame)
            case ast.Subscript(value=ast.Name(id=name)):
                base = frame.find(name)
                key = self.expression(file, target.slice, frame)
                if isinstance(base, Record) and isinstance(key, Known) and isinstance(key.value, Constant):
                    rest = tuple((k, v) for k, v in base.entries if k != key.value.value)
                    frame.names[name] = Record((*rest, (key.value.value, value)))
                elif base is not None and not isinstance(base, Known):
                    frame.names[name] = combined([base, value])
            case (
                ast.Attribute(value=ast.Name(id=name))
                | ast.Subscript(value=ast.Attribute(value=ast.Name(id=name)))
            ):
                base = frame.find(name)
                if base is not None and not isinstance(base, Known):
                    frame.names[name] = combined([base, value])


def _told(value: Value) -> bool:
    """Whether a value is known for what it is."""
    return (
        not any(isinstance(one, Unknown | Parameter) for one in options(value)) and len(options(value)) == 1
    )
