"""Sizes that the code around a `shard_map` takes of whole arrays, of which the body has shards."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from shardlint.model.manual.varying import NONE, Axes, Leaf, Local
from shardlint.model.reach import lookup
from shardlint.model.values import Function, Place, Value
from shardlint.source.lazy import dataclass
from shardlint.syntax import FileFacts

if TYPE_CHECKING:
    from shardlint.model import Program

_DEPTH = 3
_LONG = 3


@dataclass(frozen=True)
class Whole:
    """An array as it is given to a mapped function: how it is written, what binds its name, and how it is split."""

    file: FileFacts
    text: str
    bound: frozenset[ast.AST]
    spec: tuple[Axes, ...]


class Wholes:
    """The arrays that the calls in sight of a mapped function give it, looked for when they are first asked for."""

    def __init__(self, program: Program, inner: Value, given: list[Local]) -> None:
        self.program = program
        self.inner = inner
        self.given = given
        self._found: list[Whole] | None = None

    def split(self, place: Place) -> Axes:
        """The axes over which the dimension is split whose whole size an expression is; none where it is not one."""
        sized = _sized(place.file, place.node, 0)
        if sized is None:
            return NONE
        if self._found is None:
            self._found = list(self._arrays())
        array, index = sized
        text, bound = place.file.text(array), _bound(place.file, array)
        for one in self._found:
            # From behind only where the spec is long: it need not name the last dimensions.
            known = -len(one.spec) <= index < len(one.spec) and (index >= 0 or len(one.spec) >= _LONG)
            if one.file is place.file and one.text == text and one.bound == bound and known:
                return one.spec[index]
        return NONE

    def _arrays(self) -> Iterator[Whole]:
        if not isinstance(self.inner, Function):
            return
        for end in self.program.flow.ends(self.inner.place.file, self.inner.node).found:
            call, file = end.place.node, end.place.file
            if end.kind != "called" or not isinstance(call, ast.Call):
                continue
            for node, local in zip(call.args, self.given, strict=False):
                if isinstance(node, ast.Starred):
                    break
                if isinstance(local, Leaf) and local.spec is not None and isinstance(node, ast.Name | ast.Attribute):
                    yield Whole(file, file.text(node), _bound(file, node), local.spec)


def _sized(file: FileFacts, node: ast.AST, depth: int) -> tuple[ast.expr, int] | None:
    """The array and the dimension whose size an expression is: `w.shape[0]`, `len(w)`, or a name of it."""
    match node:
        case ast.Subscript(value=ast.Attribute(value=array, attr="shape"), slice=ast.Constant(value=int(index))):
            return array, index
        case ast.Subscript(
            value=ast.Attribute(value=array, attr="shape"),
            slice=ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int(index))),
        ):
            return array, -index
        case ast.Call(func=ast.Name(id="len"), args=[array]):
            return array, 0
        case ast.Name(id=name) if depth < _DEPTH:
            bindings, _ = lookup(file, node, name)
            if len(bindings) != 1 or bindings[0].value is None:
                return None
            bound = bindings[0]
            if bound.kind == "assign" and bound.value is not None:
                return _sized(file, bound.value, depth + 1)
            target = file.parent(bound.node)
            if isinstance(target, ast.Tuple) and bound.node in target.elts:
                match bound.value:
                    case ast.Attribute(value=array, attr="shape"):
                        starred = any(isinstance(one, ast.Starred) for one in target.elts)
                        return None if starred else (array, target.elts.index(bound.node))
    return None


def _bound(file: FileFacts, node: ast.expr) -> frozenset[ast.AST]:
    """What binds the name that an expression begins with."""
    inner: ast.expr = node
    while isinstance(inner, ast.Attribute):
        inner = inner.value
    if not isinstance(inner, ast.Name):
        return frozenset([node])
    return frozenset(one.node for one in lookup(file, inner, inner.id)[0])
