"""Where a random key of one process goes: to a program over the devices of all, or to weights that are replicated."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from shardlint.model import Program
from shardlint.model.mesh.meshes import sharding_parts
from shardlint.model.process.global_arrays import GlobalArrays
from shardlint.model.reach import readers
from shardlint.model.signatures import COMPILING
from shardlint.model.values import (
    Api,
    CallArguments,
    CallResult,
    Constant,
    Function,
    Place,
    Transformed,
    Value,
    options,
)
from shardlint.syntax import FileFacts, last_name
from shardlint.syntax.nodes import walk

_DEPTH = 14
_MOST = 120
_FROM_KEYS = ("split", "fold_in", "clone", "wrap_key_data", "key_data")
# What hands on the arrays it is given.
_HANDING_ON = ("jax.tree.map", "jax.tree_util.tree_map", "jax.numpy.asarray", "builtins.dict", "builtins.next")
_COPYING = ("flax.jax_utils.replicate", "jax.device_put_replicated")
_SENT = "broadcast_one_to_all"

What = Literal["key", "weights"]


@dataclass(frozen=True)
class Reached:
    """Where it goes, and which it is then: the key, given to a compiled function of all, or weights that are copied."""

    place: Place
    what: What
    why: str = ""


class Following:
    """Follows one key through the functions of a program."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.seen: set[tuple[ast.AST, str]] = set()

    def reached(self, place: Place, what: What = "key", depth: int = 0) -> Iterator[Reached]:
        """What becomes of an expression."""
        file, node = place.file, place.node
        if depth > _DEPTH or len(self.seen) > _MOST or (node, what) in self.seen:
            return
        self.seen.add((node, what))
        parent = file.parent(node)
        if isinstance(parent, ast.keyword):
            node, parent = parent, file.parent(parent)
        match parent:
            case ast.Call() if node is not parent.func:
                yield from self._given(file, parent, node, what, depth)
            case ast.Call():
                yield from self.reached(Place(file, parent), what, depth + 1)  # `rngs()`
            case ast.Assign(targets=targets):
                for target in targets:
                    yield from self._bound(file, target, what, depth)
            case ast.AnnAssign(target=target) | ast.NamedExpr(target=target):
                yield from self._bound(file, target, what, depth)
            case ast.Dict() | ast.Tuple() | ast.List() | ast.Subscript() | ast.IfExp() | ast.Starred():
                if not (isinstance(parent, ast.Subscript) and node is parent.slice):
                    yield from self.reached(Place(file, parent), what, depth + 1)
            case ast.Attribute() if what == "weights" or parent.attr in ("params", "dropout", "default"):
                yield from self.reached(Place(file, parent), what, depth + 1)
            case ast.Return():
                yield from self._returned(file, parent, what, depth)

    def _bound(self, file: FileFacts, target: ast.expr, what: What, depth: int) -> Iterator[Reached]:
        match target:
            case ast.Name():
                for use, _ in readers(file, target):
                    yield from self.reached(Place(file, use), what, depth + 1)
            case ast.Tuple(elts=parts) | ast.List(elts=parts):
                for part in parts:
                    inner = part.value if isinstance(part, ast.Starred) else part
                    yield from self._bound(file, inner, what, depth)
            case ast.Attribute(value=ast.Name(id="self")):
                around = next((one for one in file.ancestors(target) if isinstance(one, ast.ClassDef)), None)
                for one in walk(around) if around is not None else ():
                    if isinstance(one, ast.Attribute) and one.attr == target.attr and isinstance(one.ctx, ast.Load):
                        yield from self.reached(Place(file, one), what, depth + 2)

    def _given(
        self, file: FileFacts, call: ast.Call, node: ast.AST, what: What, depth: int
    ) -> Iterator[Reached]:
        """What becomes of an argument of a call."""
        found = options(self.program.value(file, call.func))
        for one in found:
            match one:
                case Api(name=name):
                    yield from self._api(file, call, name, what, depth)
                    return
                case Transformed(api=api, call=made) if api.name in COMPILING:
                    why = self._of_all(file, call, made, node) if what == "key" else ""
                    if why:
                        yield Reached(Place(file, call), "key", why)
                    return
                case Function():
                    yield from self._into(file, call, node, one, what, depth)
                    return
        if what == "key" and last_name(call.func) == "init" and _makes_weights(call, node):
            yield from self.reached(Place(file, call), "weights", depth + 1)
        elif what == "weights" and isinstance(call.func, ast.Attribute | ast.Name):
            if last_name(call.func) in ("create", "TrainState", "replace", "freeze", "FrozenDict"):
                yield from self.reached(Place(file, call), "weights", depth + 1)

    def _api(self, file: FileFacts, call: ast.Call, name: str, what: What, depth: int) -> Iterator[Reached]:
        if name.startswith("jax.random.") and what == "key" and last_name(call.func) in _FROM_KEYS:
            yield from self.reached(Place(file, call), what, depth + 1)
        elif name in _COPYING and what == "weights":
            yield Reached(Place(file, call), "weights")
        elif name in _HANDING_ON or (name.startswith("flax.") and what == "weights" and _SENT not in name):
            yield from self.reached(Place(file, call), what, depth + 1)

    def _into(
        self, file: FileFacts, call: ast.Call, node: ast.AST, function: Function, what: What, depth: int
    ) -> Iterator[Reached]:
        """Into a function of the project, by the parameter; and out of it where it gives weights."""
        inside, definition = function.place.file, function.node
        names = function.positional
        if isinstance(node, ast.keyword):
            name = node.arg
        else:
            at = next((at for at, one in enumerate(call.args) if one is node), len(names))
            name = names[at] if at < len(names) else None
        if name is None or isinstance(definition, ast.Lambda):
            return
        for use in inside.mentions_in(inside.scope(definition), name):
            if isinstance(use, ast.Name) and isinstance(use.ctx, ast.Load):
                yield from self.reached(Place(inside, use), what, depth + 2)

    def _returned(self, file: FileFacts, node: ast.Return, what: What, depth: int) -> Iterator[Reached]:
        function = file.home(node).function()
        if function is None or not isinstance(function.node, ast.FunctionDef):
            return
        for end in self.program.flow.in_sight(file, function.node).found[:8]:
            if end.kind == "called" and not end.wrappers and isinstance(end.place.node, ast.expr):
                yield from self.reached(end.place, what, depth + 2)

    def _of_all(self, file: FileFacts, call: ast.Call, made: CallArguments | None, node: ast.AST) -> str:
        """Why a compiled function runs on the devices of all processes; "" where nothing says so."""
        shardings = [
            one
            for name in ("out_shardings", "in_shardings")
            if made is not None and (one := made.keywords.get(name)) is not None
        ]
        for one in shardings:
            value = options(self.program.evaluator.value(one))
            if all(isinstance(part, Constant) for part in value) or any(self._own(part) for part in value):
                continue
            return "it has shardings"
        arrays = GlobalArrays(self.program)
        others = [*call.args, *(one.value for one in call.keywords)]
        for other in others:
            if other is not node and (maker := arrays.maker(Place(file, other))):
                return f"`{file.text(other)}` beside it is made by {maker.rpartition('.')[2]}"
        return ""

    def _own(self, sharding: Value) -> bool:
        """Whether a sharding is over the devices of this process."""
        parts = sharding_parts(sharding, self.program.evaluator)
        meshes = options(self.program.followed(parts[0])) if parts is not None else ()
        calls = [one.call for one in meshes if isinstance(one, CallResult) and one.call is not None]
        return any("local" in place.text() for call in calls for place in (*call.positional, *call.keywords.values()))


def _makes_weights(call: ast.Call, node: ast.AST) -> bool:
    """Whether it is `model.init(key, x)`: the key comes first, or as the keys of all collections."""
    first = call.args[0] if call.args else None
    return node is first or (isinstance(node, ast.keyword) and node.arg in ("rngs", "rng", "key"))
