"""Where a random key of one process goes: to a program over the devices of all, or to weights that are replicated."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import Literal

from shardlint.facts.controlled_code import find_result_uses
from shardlint.facts.processes.global_arrays import GlobalArrays
from shardlint.model import Program
from shardlint.model.api import JIT_WRAPPERS
from shardlint.model.mesh.meshes import sharding_parts
from shardlint.model.passed_functions import receiving_parameters
from shardlint.model.values import (
    Api,
    CallArguments,
    CallResult,
    ClassValue,
    Constant,
    Function,
    Place,
    Transformed,
    Value,
    options,
)
from shardlint.source.lazy import dataclass
from shardlint.syntax import FileFacts, last_name
from shardlint_rules.processes.value_uses import find_reads, reads_of_receiving_parameters

_DEPTH = 14
_MOST = 120
_FROM_KEYS = ("split", "fold_in", "clone", "wrap_key_data", "key_data")
# What hands on the arrays it is given.
_HANDING_ON = ("jax.tree.map", "jax.tree_util.tree_map", "jax.numpy.asarray", "builtins.dict", "builtins.next")
_COPYING = ("flax.jax_utils.replicate", "jax.device_put_replicated")
_SENT = "broadcast_one_to_all"

What = Literal["key", "weights"]
Parts = tuple[frozenset[str | int], ...]
"""What an object, a tuple or a dict holds something as, by name and by number; nothing where that is not known."""
_NESTED = 3


@dataclass(frozen=True)
class Reached:
    """Where it goes, and which it is then: the key, given to a compiled function of all, or weights that are copied."""

    place: Place
    what: What
    why: str = ""


class Following:
    """Follows one key through the functions of a program, and through the objects, tuples and dicts that hold it."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.seen: set[tuple[ast.AST, str, Parts]] = set()

    def find_uses(self, place: Place, what: What = "key", depth: int = 0, parts: Parts = ()) -> Iterator[Reached]:
        """Yield the uses of an expression, or of the part of it that `parts` lead to, the outermost first."""
        file, node = place.file, place.node
        if depth > _DEPTH or len(self.seen) > _MOST or len(parts) > _NESTED or (node, what, parts) in self.seen:
            return
        self.seen.add((node, what, parts))
        parent = file.parent(node)
        if isinstance(parent, ast.keyword):
            node, parent = parent, file.parent(parent)
        match parent:
            case ast.Call() if node is not parent.func:
                yield from self._follow_argument(file, parent, node, what, depth, parts)
            case ast.Call() if not parts:
                yield from self.find_uses(Place(file, parent), what, depth + 1)  # `rngs()`
            case ast.Assign(targets=targets):
                for target in targets:
                    yield from self._follow_bound_name(file, target, what, depth, parts)
            case ast.AnnAssign(target=target) | ast.NamedExpr(target=target):
                yield from self._follow_bound_name(file, target, what, depth, parts)
            case ast.IfExp() | ast.Starred():
                yield from self.find_uses(Place(file, parent), what, depth + 1, parts)
            case ast.Dict() | ast.Tuple() | ast.List():
                yield from self.find_uses(Place(file, parent), what, depth + 1, (_container_keys(parent, node), *parts))
            case ast.Subscript() if node is not parent.slice:
                at = parent.slice.value if isinstance(parent.slice, ast.Constant) else None
                if not parts or not parts[0] or at is None or at in parts[0]:
                    yield from self.find_uses(Place(file, parent), what, depth + 1, parts[1:])
            case ast.Attribute() if parts and parent.attr in parts[0]:
                yield from self.find_uses(Place(file, parent), what, depth + 1, parts[1:])
            case ast.Attribute() if what == "weights" or parent.attr in ("params", "dropout", "default"):
                yield from self.find_uses(Place(file, parent), what, depth + 1, parts)
            case ast.Return():
                for use in find_result_uses(self.program, file, parent):
                    yield from self.find_uses(use, what, depth + 2, parts)

    def _follow_bound_name(
        self, file: FileFacts, target: ast.expr, what: What, depth: int, parts: Parts = ()
    ) -> Iterator[Reached]:
        match target:
            case ast.Tuple(elts=elements) | ast.List(elts=elements):
                numbered = parts and any(isinstance(one, int) for one in parts[0])
                for at, element in enumerate(elements):
                    inner = element.value if isinstance(element, ast.Starred) else element
                    if not numbered or at in parts[0] or inner is not element:
                        yield from self._follow_bound_name(file, inner, what, depth, parts[1:])
            case _:
                for use in find_reads(file, target):
                    yield from self.find_uses(Place(file, use), what, depth + 1, parts)

    def _follow_argument(
        self, file: FileFacts, call: ast.Call, node: ast.AST, what: What, depth: int, parts: Parts
    ) -> Iterator[Reached]:
        """Yield the uses of an argument of a call."""
        given = node.value if isinstance(node, ast.keyword) else node
        for one in options(self.program.value(file, call.func)):
            match one:
                case Api(name=name):
                    yield from self._follow_library_call(file, call, name, what, depth, parts)
                    return
                case Transformed(api=api, call=made) if api.name in JIT_WRAPPERS:
                    why = self._why_on_all_devices(file, call, made, node) if what == "key" else ""
                    if why:
                        yield Reached(Place(file, call), "key", why)
                    return
                case Function():
                    for use in reads_of_receiving_parameters(self.program, file, call, given):
                        yield from self.find_uses(use, what, depth + 2, parts)
                    return
                case ClassValue():
                    yield from self._follow_stored_argument(file, call, given, one, what, depth, parts)
                    return
        of_params = not parts or not parts[0] or "params" in parts[0]
        if what == "key" and last_name(call.func) == "init" and of_params and _makes_weights(call, node):
            yield from self.find_uses(Place(file, call), "weights", depth + 1)
        elif what == "weights" and isinstance(call.func, ast.Attribute | ast.Name):
            if last_name(call.func) in ("create", "TrainState", "replace", "freeze", "FrozenDict"):
                yield from self.find_uses(Place(file, call), "weights", depth + 1)

    def _follow_stored_argument(
        self, file: FileFacts, call: ast.Call, node: ast.AST, cls: ClassValue, what: What, depth: int, parts: Parts
    ) -> Iterator[Reached]:
        """In an object of the project: the field that it becomes, or what its `__init__` does with the parameter."""
        for one in receiving_parameters(self.program.evaluator, cls, Place(file, call), node):
            if one.owner is not None:
                names = tuple(self.program.evaluator.classes.objects.list_fields(cls))
                held: frozenset[str | int] = frozenset((one.name, names.index(one.name)))
                yield from self.find_uses(Place(file, call), what, depth + 1, (held, *parts))
        for use in reads_of_receiving_parameters(self.program, file, call, node):
            yield from self.find_uses(use, what, depth + 2, parts)
            match use.file.parent(use.node):
                case ast.Assign(targets=[ast.Attribute(value=ast.Name(id="self"), attr=attr)]):
                    yield from self.find_uses(Place(file, call), what, depth + 2, (frozenset((attr,)), *parts))

    def _follow_library_call(
        self, file: FileFacts, call: ast.Call, name: str, what: What, depth: int, parts: Parts
    ) -> Iterator[Reached]:
        if name.startswith("jax.random.") and what == "key" and last_name(call.func) in _FROM_KEYS:
            yield from self.find_uses(Place(file, call), what, depth + 1)
        elif name in _COPYING and what == "weights":
            yield Reached(Place(file, call), "weights")
        elif name in _HANDING_ON or (name.startswith("flax.") and what == "weights" and _SENT not in name):
            yield from self.find_uses(Place(file, call), what, depth + 1, parts)

    def _why_on_all_devices(
        self, file: FileFacts, call: ast.Call, call_arguments: CallArguments | None, node: ast.AST
    ) -> str:
        """Why a compiled function runs on the devices of all processes; "" where nothing says so."""
        shardings = [
            one
            for name in ("out_shardings", "in_shardings")
            if call_arguments is not None and (one := call_arguments.keywords.get(name)) is not None
        ]
        for one in shardings:
            value = options(self.program.evaluator.value(one))
            if all(isinstance(part, Constant) for part in value) or any(
                self._is_over_local_devices(part) for part in value
            ):
                continue
            return "it has shardings"
        arrays = GlobalArrays(self.program)
        others = [*call.args, *(one.value for one in call.keywords)]
        for other in others:
            if other is not node and (maker := arrays.maker_of_array(Place(file, other))):
                return f"the argument `{file.source_text(other)}` is a global array of {maker.rpartition('.')[2]}"
        return ""

    def _is_over_local_devices(self, sharding: Value) -> bool:
        """Return whether a sharding is over the devices of this process."""
        parts = sharding_parts(sharding, self.program.evaluator)
        meshes = options(self.program.followed(parts[0])) if parts is not None else ()
        calls = [one.call for one in meshes if isinstance(one, CallResult) and one.call is not None]
        return any(
            "local" in place.source_text()
            for call in calls
            for place in (*call.positional, *call.keywords.values())
        )


def _container_keys(whole: ast.Dict | ast.Tuple | ast.List, node: ast.AST) -> frozenset[str | int]:
    """As what a dict, or a tuple of known length, holds an expression."""
    if isinstance(whole, ast.Dict):
        key = next((key for key, value in zip(whole.keys, whole.values, strict=True) if value is node), None)
        return frozenset((key.value,)) if isinstance(key, ast.Constant) and isinstance(key.value, str) else frozenset()
    before = whole.elts[: next((at for at, one in enumerate(whole.elts) if one is node), 0)]
    return frozenset() if any(isinstance(one, ast.Starred) for one in before) else frozenset((len(before),))


def _makes_weights(call: ast.Call, node: ast.AST) -> bool:
    """Return whether a call is `model.init(key, x)`, with the key first, or as the keys of all collections."""
    first = call.args[0] if call.args else None
    return node is first or (isinstance(node, ast.keyword) and node.arg in ("rngs", "rng", "key"))
