"""Python numbers that are another in each turn of a loop: counters, and what arithmetic makes of them."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from shardlint.model import Program
from shardlint.model.values import CallResult, ClassValue, Constant, Function, Place, options, settled
from shardlint.source.patterns import regex
from shardlint.syntax import FileFacts, last_name
from shardlint.syntax.nodes import children, walk
from shardlint_rules.jit.repeated import Loop, loop_around

_FEW = 16
_DEPTH = 3
_HOLDING = (ast.Tuple, ast.List, ast.Dict)
_COUNTING = ("range", "trange", "count")
_AROUND = ("tqdm", "reversed", "track", "progress_bar")
_ARITHMETIC = (ast.Add, ast.Sub, ast.Mult, ast.Div, ast.Pow)
_PLAIN = ("int", "float", "min", "max", "abs", "round")
# Parts of a model, which are few, and of which each has a program of its own on purpose.
_PARTS = regex(
    r"(?i)layer|block|stage|depth|level|head|dim|axis|axes|scale|bucket|len\(|warm|device|group|chunk|trial|fold"
)


class Counters:
    """The names that count in the loops around a place. `sure`: what they are added to must be a number too."""

    def __init__(self, program: Program, file: FileFacts, node: ast.AST, sure: bool) -> None:
        self.program, self.file, self.sure = program, file, sure
        self.loops = list(_loops(file, node))
        names = {name for loop in self.loops for name in self._counted(loop)}
        names.update(name for loop in self.loops[:1] for name in _raised(loop))
        self.names = frozenset(names)

    def varying(self, node: ast.expr) -> ast.expr | None:
        """What of an argument is such a number: all of it, or what a tuple, list or dict holds, also by a name."""
        if isinstance(node, ast.Name) and node.id not in self.names:
            given = self._assigned(node.id) if self.loops else []
            if len(given) == 1 and isinstance(given[0], _HOLDING):
                return self._held(given[0])
        return self._held(node)

    def _held(self, node: ast.expr) -> ast.expr | None:
        if isinstance(node, _HOLDING):
            inner = node.values if isinstance(node, ast.Dict) else node.elts
            return next((found for one in inner if (found := self._held(one)) is not None), None)
        return node if self.names and self._varies(node, self.names, self.file, _DEPTH) else None

    def _varies(self, node: ast.expr, names: frozenset[str], file: FileFacts, depth: int) -> bool:
        if depth == 0:
            return False
        match node:
            case ast.Name(id=name):
                return name in names or (file is self.file and self._bound(name, names, depth))
            case ast.BinOp(left=left, right=right) if isinstance(node.op, _ARITHMETIC):
                sides = (left, right)
                return any(self._varies(one, names, file, depth) for one in sides) and all(
                    self._varies(one, names, file, depth) or self._is_number(file, one) for one in sides
                )
            case ast.Call(func=ast.Name(id=name), args=inner) if name in _PLAIN:
                return any(self._varies(one, names, file, depth) for one in inner) or (
                    name == "float" and self._scheduled(inner, names, file, depth)
                )
            case ast.Call() if not node.keywords and any(self._varies(one, names, file, depth) for one in node.args):
                return self._returned(node, names, file, depth)
        return False

    def _bound(self, name: str, names: frozenset[str], depth: int) -> bool:
        """Whether a name is given such a number in the innermost loop, and nothing else."""
        given = self._assigned(name)
        return bool(given) and all(self._varies(one, names - {name}, self.file, depth - 1) for one in given)

    def _assigned(self, name: str) -> list[ast.expr]:
        """What a name is given in the innermost loop."""
        return [
            one.value
            for one in walk(self.loops[0])
            if isinstance(one, ast.Assign) and any(isinstance(to, ast.Name) and to.id == name for to in one.targets)
        ]

    def _scheduled(self, inner: list[ast.expr], names: frozenset[str], file: FileFacts, depth: int) -> bool:
        """`float(schedule(step))`: what a call makes of a counter is a fraction, and seldom the same one twice."""
        return any(
            isinstance(one, ast.Call) and any(self._varies(given, names, file, depth - 1) for given in one.args)
            for one in inner
        )

    def _returned(self, call: ast.Call, names: frozenset[str], file: FileFacts, depth: int) -> bool:
        """Whether a function of the project makes such a number of one."""
        callee = self._callee(file, call.func)
        if callee is None:
            return False
        where, function, bound = callee
        args = [arg.arg for arg in (*function.args.posonlyargs, *function.args.args)][bound:]
        counted = {arg for arg, one in zip(args, call.args, strict=False) if self._varies(one, names, file, depth)}
        returns = [one.value for one in walk(function) if isinstance(one, ast.Return) and one.value is not None]
        for statement in walk(function):
            match statement:
                case ast.Assign(targets=[ast.Name(id=name)], value=ast.IfExp(body=one, orelse=other)):
                    if any(self._varies(way, frozenset(counted), where, depth - 1) for way in (one, other)):
                        counted.add(name)
                case ast.Assign(targets=[ast.Name(id=name)], value=value):
                    if self._varies(value, frozenset(counted), where, depth - 1):
                        counted.add(name)
        return bool(returns) and all(self._varies(one, frozenset(counted), where, depth - 1) for one in returns)


    def _counted(self, loop: Loop) -> Iterator[str]:
        """The names that a `for` counts with."""
        if not isinstance(loop, ast.For) or _PARTS.search(self.file.text(loop.iter)):
            return
        over, target = loop.iter, loop.target
        while isinstance(over, ast.Call) and last_name(over.func) in _AROUND and over.args:
            over = over.args[0]
        if not isinstance(over, ast.Call):
            return
        name = last_name(over.func)
        if name == "enumerate" and isinstance(target, ast.Tuple) and target.elts:
            target = target.elts[0]
        elif name not in _COUNTING or self._is_short(over):
            return
        if isinstance(target, ast.Name) and not _PARTS.search(target.id):
            yield target.id

    def _is_short(self, over: ast.Call) -> bool:
        """`range(8)`: few programs, and perhaps meant."""
        values = [settled(self.program.assuming().value(Place(self.file, one))) for one in over.args]
        bounds = [one.value for one in values if isinstance(one, Constant) and isinstance(one.value, int)]
        return len(bounds) == len(over.args) and bool(bounds) and max(bounds) <= _FEW

    def _callee(self, file: FileFacts, node: ast.expr) -> tuple[FileFacts, ast.FunctionDef, bool] | None:
        """The function of the project that is called, or `__call__` of an object's class; whether self is bound."""
        found = options(self.program.value(file, node))
        one = found[0] if len(found) == 1 else None
        if isinstance(one, Function) and isinstance(one.node, ast.FunctionDef):
            return one.place.file, one.node, one.bound
        if isinstance(one, CallResult) and isinstance(one.by, ClassValue):
            for member in one.by.node.body:
                if isinstance(member, ast.FunctionDef) and member.name == "__call__":
                    return one.by.place.file, member, True
        return None

    def _is_number(self, file: FileFacts, node: ast.expr) -> bool:
        """Whether what a counter is added to is a Python number."""
        if not self.sure:
            return _is_plain(node)
        if isinstance(node, ast.Call | ast.BinOp):
            return _is_plain(node) and all(
                self._is_number(file, one)
                for one in children(node)
                if isinstance(one, ast.expr) and one is not getattr(node, "func", None)
            )
        value = settled(self.program.assuming().value(Place(file, node)))
        return isinstance(value, Constant) and isinstance(value.value, int | float)


def _loops(file: FileFacts, node: ast.AST) -> Iterator[Loop]:
    loop = loop_around(file, node)
    while loop is not None:
        yield loop
        loop = loop_around(file, loop)


def _raised(loop: Loop) -> Iterator[str]:
    """The names that each turn of a `while` adds a number to."""
    for statement in loop.body if isinstance(loop, ast.While) else ():
        match statement:
            case ast.AugAssign(target=ast.Name(id=name), op=ast.Add(), value=ast.Constant(value=int())):
                yield name


def _is_plain(node: ast.expr) -> bool:
    """A number, a name or an attribute: nothing that makes an array of it."""
    match node:
        case ast.Constant() | ast.Name():
            return True
        case ast.Attribute(value=inner):
            return _is_plain(inner)
        case ast.BinOp(left=left, right=right):
            return _is_plain(left) and _is_plain(right)
        case ast.Call(func=ast.Name(id=name), args=inner) if name in _PLAIN or name == "len":
            return all(map(_is_plain, inner))
    return False
