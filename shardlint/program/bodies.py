"""Runs the body of a `shard_map` or `pmap` over what is known of its values: which vary over which axis.

Statement by statement, through functions of the project wherever they stand. What library functions do is in
shardlint/program/local_calls.py.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from shardlint.facts import FileFacts
from shardlint.program.local_calls import LocalCalls
from shardlint.program.values import (
    Constant,
    Function,
    Items,
    Made,
    Parameter,
    Place,
    Unknown,
    Value,
    options,
)
from shardlint.program.varying import (
    HIDDEN,
    NOTHING,
    Axes,
    Closure,
    Event,
    Frame,
    Known,
    Leaf,
    Local,
    Record,
    Through,
    Tree,
    combined,
    either,
)

if TYPE_CHECKING:
    from shardlint.program.evaluate import Evaluator

_DEPTH = 10
_STEPS = 6000
# Attributes of an array that are the same on all devices.
_STATIC = frozenset(("shape", "dtype", "ndim", "size", "sharding", "itemsize", "nbytes", "aval", "weak_type"))
_Loop = ast.For | ast.AsyncFor | ast.While


class Body:
    """One run of a body. `summed` says that jax sums the gradients of what does not vary (jax 0.6.1, check on)."""

    def __init__(self, evaluator: Evaluator, manual: Axes, summed: bool) -> None:
        self.evaluator = evaluator
        self.manual = manual
        self.summed = summed
        self.events: list[Event] = []
        self.cancelled: set[int] = set()
        self.chain: list[Place] = []
        self.calls = LocalCalls(self)
        self.branches = 0
        """How many branches that may not be taken are open."""
        self._steps = 0

    # functions

    def run(self, function: Function | Closure, given: Sequence[Local], named: dict[str, Local]) -> Local:
        """What a function of the project returns for these arguments."""
        file = function.file if isinstance(function, Closure) else function.place.file
        node = function.node
        if isinstance(node, ast.AsyncFunctionDef) or len(self.chain) > _DEPTH:
            return HIDDEN
        frame = Frame({}, function.frame if isinstance(function, Closure) else None)
        self._bind(file, function, frame, list(given), named)
        if isinstance(node, ast.Lambda):
            return self.expression(file, node.body, frame)
        returned: list[Local] = []
        self._block(file, node.body, frame, returned)
        if not returned:
            return Known(Constant(None))
        result = returned[0]
        for other in returned[1:]:
            result = either(result, other)
        return result

    def _bind(
        self,
        file: FileFacts,
        function: Function | Closure,
        frame: Frame,
        given: list[Local],
        named: dict[str, Local],
    ) -> None:
        args = function.node.args
        names = [arg.arg for arg in (*args.posonlyargs, *args.args)]
        if isinstance(function, Function) and function.bound and names:
            owner = function.receiver or (Made(function.owner, None) if function.owner else Unknown("self"))
            frame.names[names.pop(0)] = Known(owner)
        frame.names.update(zip(names, given, strict=False))
        if args.vararg is not None:
            frame.names[args.vararg.arg] = Tree(tuple(given[len(names) :]))
        keyword_only = [arg.arg for arg in args.kwonlyargs]
        frame.names.update({name: one for name, one in named.items() if name in (*names, *keyword_only)})
        if args.kwarg is not None:
            rest = [(k, v) for k, v in named.items() if k not in (*names, *keyword_only)]
            frame.names[args.kwarg.arg] = Record(tuple(rest))
        defaults = dict(zip(reversed(names), reversed(args.defaults), strict=False))
        defaults.update({n: d for n, d in zip(keyword_only, args.kw_defaults, strict=True) if d is not None})
        for name in (*names, *keyword_only):
            if name not in frame.names:
                default = defaults.get(name)
                frame.names[name] = (
                    Known(self.evaluator.value(Place(file, default))) if default is not None else HIDDEN
                )

    # statements

    def _block(self, file: FileFacts, body: Sequence[ast.stmt], frame: Frame, returned: list[Local]) -> bool:
        """Run statements; whether the end of them is reached."""
        return all(self._statement(file, statement, frame, returned) for statement in body)

    def _statement(self, file: FileFacts, node: ast.stmt, frame: Frame, returned: list[Local]) -> bool:
        match node:
            case ast.Return():
                given = node.value
                returned.append(
                    self.expression(file, given, frame) if given is not None else Known(Constant(None))
                )
                return False
            case ast.Raise() | ast.Break() | ast.Continue():
                return not isinstance(node, ast.Raise)
            case ast.Assign():
                value = self.expression(file, node.value, frame)
                for target in node.targets:
                    self._assign(file, target, value, frame)
            case ast.AnnAssign() if node.value is not None:
                self._assign(file, node.target, self.expression(file, node.value, frame), frame)
            case ast.AugAssign():
                before = self.expression(file, node.target, frame)
                value = self._arithmetic(node.op, before, self.expression(file, node.value, frame))
                self._assign(file, node.target, value, frame)
            case ast.Expr():
                self.expression(file, node.value, frame)
            case ast.If():
                return self._branch(file, node, frame, returned)
            case ast.For() | ast.AsyncFor() | ast.While():
                self._loop(file, node, frame, returned)
            case ast.With() | ast.AsyncWith():
                for item in node.items:
                    entered = self.expression(file, item.context_expr, frame)
                    if item.optional_vars is not None:
                        self._assign(file, item.optional_vars, entered, frame)
                return self._block(file, node.body, frame, returned)
            case ast.Try():
                ends = self._block(file, [*node.body, *node.orelse], frame, returned)
                for handler in node.handlers:
                    ends = self._block(file, handler.body, frame, returned) or ends
                return self._block(file, node.finalbody, frame, returned) and ends
            case ast.FunctionDef():
                frame.names[node.name] = self._defined(file, node, frame)
            case ast.Match():
                return self._ways(file, [case.body for case in node.cases], frame, returned, True)
        return True

    def _defined(self, file: FileFacts, node: ast.FunctionDef, frame: Frame) -> Local:
        result: Local = Closure(file, node, frame)
        for decorator in reversed(node.decorator_list):
            result = self.calls.decorated(file, decorator, result, frame)
        return result

    def _branch(self, file: FileFacts, node: ast.If, frame: Frame, returned: list[Local]) -> bool:
        truth = self._truth(file, node.test, frame)
        if truth is not None:
            return self._block(file, node.body if truth else node.orelse, frame, returned)
        return self._ways(file, [node.body, node.orelse], frame, returned, False)

    def _ways(
        self,
        file: FileFacts,
        ways: Sequence[Sequence[ast.stmt]],
        frame: Frame,
        returned: list[Local],
        may_skip: bool,
    ) -> bool:
        """Run one of several blocks: what they leave is one or the other."""
        before = dict(frame.names)
        ends: list[dict[str, Local]] = [before] if may_skip else []
        self.branches += 1
        for way in ways:
            frame.names = dict(before)
            if self._block(file, way, frame, returned):
                ends.append(frame.names)
        self.branches -= 1
        frame.names = dict(before)
        for name in {name for end in ends for name in end}:
            found = [end[name] for end in ends if name in end]
            result = found[0]
            for other in found[1:]:
                result = either(result, other)
            frame.names[name] = result
        return bool(ends)

    def _truth(self, file: FileFacts, test: ast.expr, frame: Frame) -> bool | None:
        """What a test comes to, where values outside of the body tell."""
        match test:
            case ast.UnaryOp(op=ast.Not()):
                inner = self._truth(file, test.operand, frame)
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

    def _loop(self, file: FileFacts, node: _Loop, frame: Frame, returned: list[Local]) -> None:
        whole = self.expression(file, node.iter, frame) if not isinstance(node, ast.While) else NOTHING
        # What one turn makes vary, the next one meets.
        for _ in range(2):
            self._steps += 1  # loops in loops double the turns
            if self._steps > _STEPS:
                return
            if not isinstance(node, ast.While):
                self._assign(file, node.target, self.element(whole), frame)
            self._block(file, node.body, frame, returned)

    def _assign(self, file: FileFacts, target: ast.expr, value: Local, frame: Frame) -> None:
        match target:
            case ast.Name():
                frame.names[target.id] = value
            case ast.Tuple() | ast.List():
                count = len(target.elts)
                starred = any(isinstance(one, ast.Starred) for one in target.elts)
                for index, element in enumerate(target.elts):
                    part = self.element(value) if starred else self.part(value, index, count)
                    inner = element.value if isinstance(element, ast.Starred) else element
                    self._assign(file, inner, part, frame)
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

    # expressions

    def expression(self, file: FileFacts, node: ast.expr, frame: Frame) -> Local:
        """What an expression is on each device."""
        self._steps += 1
        if self._steps > _STEPS:
            return HIDDEN
        match node:
            case ast.Constant():
                return Known(Constant(node.value))
            case ast.Name():
                found = frame.find(node.id)
                return found if found is not None else Known(self.evaluator.value(Place(file, node)))
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
                return self._arithmetic(
                    node.op,
                    self.expression(file, node.left, frame),
                    self.expression(file, node.right, frame),
                )
            case ast.UnaryOp():
                inner = self.expression(file, node.operand, frame)
                return inner if isinstance(inner, Leaf) else combined([inner])
            case ast.Subscript():
                return self._subscript(file, node, frame)
            case ast.IfExp():
                truth = self._truth(file, node.test, frame)
                if truth is not None:
                    return self.expression(file, node.body if truth else node.orelse, frame)
                self.branches += 1
                one, two = (self.expression(file, way, frame) for way in (node.body, node.orelse))
                self.branches -= 1
                return either(one, two)
            case ast.NamedExpr():
                value = self.expression(file, node.value, frame)
                self._assign(file, node.target, value, frame)
                return value
            case ast.ListComp() | ast.GeneratorExp() | ast.SetComp() | ast.DictComp():
                return self._collected(file, node, frame)
            case ast.Starred():
                return self.expression(file, node.value, frame)
        parts = [one for one in ast.iter_child_nodes(node) if isinstance(one, ast.expr)]
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
        for key, value in zip(node.keys, node.values, strict=True):
            found = self.expression(file, value, frame)
            name = self.expression(file, key, frame) if key is not None else None
            if isinstance(name, Known) and isinstance(name.value, Constant):
                entries[name.value.value] = found
            elif key is None and isinstance(found, Record):
                entries.update(found.entries)
            else:
                return combined([self.expression(file, one, frame) for one in node.values])
        return Record(tuple(entries.items()))

    def _arithmetic(self, op: ast.operator, left: Local, right: Local) -> Local:
        if isinstance(left, Tree) and isinstance(right, Tree) and isinstance(op, ast.Add):
            return Tree(left.items + right.items)
        self.calls.met(left, right)
        if isinstance(op, ast.Div | ast.FloorDiv):
            self.cancelled |= combined([left]).marks
        kind = ""
        if isinstance(left, Leaf) and isinstance(right, Leaf) and left.kind == right.kind:
            kind = left.kind if isinstance(op, ast.Add | ast.Sub) else ""
        elif isinstance(op, ast.Mult | ast.Add | ast.Sub):
            for one, other in ((left, right), (right, left)):
                scale = isinstance(other, Known) and isinstance(other.value, Constant)
                if scale and isinstance(one, Leaf) and one.kind in ("mean", "sum"):
                    kind = one.kind
        return self.calls.still_random(combined([left, right], kind), left, right)

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
        if isinstance(whole, Record) and index is not None:
            return whole.get(index) or combined([whole])
        if isinstance(whole, Known) and isinstance(key, Known):
            return Known(self.evaluator.value(Place(file, node))) if frame.parent is None else NOTHING
        return combined([whole, key], whole.kind if isinstance(whole, Leaf) else "")

    def attribute(self, file: FileFacts, base: Local, node: ast.Attribute) -> Local:
        """An attribute of a value."""
        if isinstance(base, Known):
            found = [self.calls.member(option, node.attr) for option in options(base.value)]
            return Known(found[0] if len(found) == 1 else Unknown("one of several"))
        if node.attr in _STATIC:
            return Known(Unknown("the shape of an array"))
        if isinstance(base, Leaf) and base.value is not None:
            bound = self.bound(base, node.attr)
            inner = self.calls.member(base.value, node.attr)
            return bound or replace(base.plain(), value=inner if isinstance(inner, Made) else None)
        return base.plain() if isinstance(base, Leaf) else combined([base])

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
        single = len(node.generators) == 1 and not node.generators[0].ifs
        whole = self.expression(file, node.generators[0].iter, frame)
        each = list(whole.items) if isinstance(whole, Tree) else None
        if isinstance(whole, Known) and isinstance(whole.value, Items) and not whole.value.open:
            each = [Known(one) for one in whole.value.items]
        results = [node.key, node.value] if isinstance(node, ast.DictComp) else [node.elt]
        if not single or each is None or not each:
            for generator in node.generators:
                self._assign(
                    file, generator.target, self.element(self.expression(file, generator.iter, inner)), inner
                )
            return combined([self.expression(file, one, inner) for one in results])
        found: list[list[Local]] = []
        for item in each:
            self._assign(file, node.generators[0].target, item, inner)
            found.append([self.expression(file, one, inner) for one in results])
        if not isinstance(node, ast.DictComp):
            return Tree(tuple(one[0] for one in found))
        entries = [
            (k.value.value, v) for k, v in found if isinstance(k, Known) and isinstance(k.value, Constant)
        ]
        return Record(tuple(entries)) if len(entries) == len(found) else combined([v for _, v in found])


def _told(value: Value) -> bool:
    """Whether a value is known for what it is."""
    return (
        not any(isinstance(one, Unknown | Parameter) for one in options(value)) and len(options(value)) == 1
    )
