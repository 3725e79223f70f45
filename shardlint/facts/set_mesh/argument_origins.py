"""Where the arrays come from that a jit with `in_shardings` is called with under a mesh.

An array that jax makes under jax.set_mesh is replicated over the mesh and bound to it, so a jit whose in_shardings say
otherwise refuses it; under `with mesh:` it is bound to no device, and moved. One of numpy is moved under either.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable
from typing import Literal

from shardlint.facts.set_mesh.calls_in_block import BlockCalls
from shardlint.facts.shardings import SHARDINGS, literal_leaves
from shardlint.model import Program
from shardlint.model.mesh.meshes import sharding_parts, spec_of
from shardlint.model.signatures import Jitted, jitted_value
from shardlint.model.values import (
    Api,
    CallResult,
    Constant,
    Function,
    Items,
    Place,
    Transformed,
    Value,
    options,
)
from shardlint.syntax import Binding, FileFacts
from shardlint.syntax.bindings import lookup_bindings

Origin = Literal["host", "loose", "placed", "fresh", "unknown"]
"""`host`: numpy's or Python's. `loose`: jax's, bound to no device. `placed`: where somebody put it. `fresh`: replicated
over the mesh once jax.set_mesh sets it."""
_PLACING = (
    "jax.device_put",
    "jax.lax.with_sharding_constraint",
    "jax.reshard",
    "jax.make_array_from_callback",
    "jax.make_array_from_process_local_data",
    "jax.make_array_from_single_device_arrays",
    "equinox.filter_shard",
)
_HOST = (
    "numpy.", "builtins.", "math.", "time.", "os.", "random.", "jax.device_get",
    "flax.serialization.msgpack_restore", "flax.serialization.from_bytes",
)  # fmt: skip
# Libraries that make arrays with jax. What others give is not known.
_MAKING = ("jax.", "flax.", "optax.", "equinox.", "haiku.", "haliax.", "chex.", "diffrax.", "penzai.")
# What gives the arrays that it is given, in another tree.
_REARRANGING = ("flax.traverse_util.", "flax.core.frozen_dict.")
# The same, and which argument has them.
_REARRANGES = {
    "flax.core.freeze": 0, "flax.core.unfreeze": 0, "flax.serialization.to_state_dict": 0,
    "flax.serialization.from_state_dict": 1,
    **{f"{where}{name}": index for where in ("jax.tree.", "jax.tree_util.tree_")
       for name, index in (("leaves", 0), ("flatten", 0), ("unflatten", 1), ("transpose", 2))},
}  # fmt: skip
_GROWING = (ast.Dict, ast.List, ast.Call, ast.ListComp, ast.DictComp)
_PUTS = ("append", "extend", "insert", "update", "setdefault")
_PJIT = "jax.experimental.pjit.pjit"
_JITS = ("jax.jit", _PJIT, "flax.nnx.jit")
_PLACED_BY = {"in_shardings", "out_shardings", "in_axis_resources", "out_axis_resources"}
_DEPTH = 12
# What makes a program of a jitted function ahead of its calls.
_AHEAD = ("compile", "lower", "trace")
Origins = frozenset[Origin]
"""What it may be, by the ways to it."""
_HOSTS: Origins = frozenset(("host",))
_PLACED: Origins = frozenset(("placed",))
_UNKNOWN: Origins = frozenset(("unknown",))
# Of the operands of an operation the first of these decides.
_WINS: tuple[Origin, ...] = ("placed", "unknown", "fresh", "loose", "host")


def why_arguments_refused(program: Program, run: BlockCalls) -> str:
    """Why a jit that a block runs may refuse its arguments under jax.set_mesh; empty where none does."""
    for place in run.calls:
        assert isinstance(place.node, ast.Call)
        for option in _called_functions(program, Place(place.file, place.node.func)):
            function = jitted_value(option, program.evaluator, _JITS)
            argument = _refused_argument(program, place, function) if function is not None else None
            if argument is not None:
                return _describe_argument(program, place, argument)
    return ""


def _called_functions(program: Program, place: Place) -> tuple[Value, ...]:
    """Return the called function: for a compiled program (`jit(f).lower(x).compile()`), the jit."""
    found = options(program.value(place.file, place.node))
    node, compiled = place.node, False
    if isinstance(node, ast.Name):
        bindings, _ = lookup_bindings(place.file, node, node.id)
        node = bindings[0].value if len(bindings) == 1 and bindings[0].value is not None else node
    while isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _AHEAD:
        node, compiled = node.func.value, True
        if isinstance(node, ast.Name):
            bindings, _ = lookup_bindings(place.file, node, node.id)
            if len(bindings) == 1 and isinstance(bindings[0].value, ast.Call):
                called = bindings[0].value
                ahead = isinstance(called.func, ast.Attribute) and called.func.attr in _AHEAD
                node = called if ahead else node
    return options(program.value(place.file, node)) if compiled else found


def _describe_argument(program: Program, call: Place, argument: ast.expr) -> str:
    text = " ".join(call.file.source_text(argument).split())
    where = f"{call.file.path.name}:{call.line}"
    advice = "place it with `jax.device_put` first"
    if "fresh" in _Origins(program).find_origins(Place(call.file, argument)):
        return (
            f"under jax.set_mesh `{text}` (at {where}) would be replicated, and the call with in_shardings would "
            f"reject it; {advice}"
        )
    return (
        f"shardlint does not see where `{text}` (at {where}) is made, and the call with in_shardings rejects an array "
        f"made under jax.set_mesh; {advice}"
    )


def _refused_argument(program: Program, place: Place, function: Jitted) -> ast.expr | None:
    """An argument of a call that in_shardings may refuse."""
    given = function.setting_expression("in_shardings") or function.setting_expression("in_axis_resources")
    call = place.node
    assert isinstance(call, ast.Call)
    if given is None and function.api == _PJIT and len(function.settings.positional) > 1:
        given = function.settings.positional[1]
    if given is None:
        return None
    wanted = program.evaluator.value(given, function.settings.environment)
    origins = _Origins(program)
    shift = 1 if function.late else 0
    for index, argument in enumerate(call.args):
        if isinstance(argument, ast.Starred):
            return argument if _may_split(program, wanted) else None
        if _may_split(program, _sharding_entry(wanted, index + shift)):
            if origins.find_origins(Place(place.file, argument)) & {"fresh", "unknown"}:
                return argument
    return None


def _sharding_entry(wanted: Value, index: int) -> Value:
    if isinstance(wanted, Items) and not wanted.open and wanted.kind in ("tuple", "list"):
        return wanted.items[index] if index < len(wanted.items) else Constant(None)
    return wanted


def _may_split(program: Program, value: Value) -> bool:
    """Return whether a sharding, or one of a tree, may shard its array."""
    for leaf in literal_leaves(value):
        if leaf == Constant(None):
            continue
        parts = sharding_parts(leaf, program.evaluator)
        if parts is None and isinstance(leaf, CallResult) and leaf.api in SHARDINGS:
            return True
        spec = spec_of(parts[1] if parts is not None else leaf, program.evaluator)
        if spec is None or spec.open or any(not entry.known or entry.axes for entry in spec.entries):
            return True
    return False


class _Origins:
    """Answers for expressions: the origins that each may have, by the ways to it."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self._open: set[ast.AST] = set()

    def find_origins(self, place: Place, depth: int = 0) -> Origins:
        """Where the arrays of an expression come from."""
        node = place.node
        if depth > _DEPTH or node in self._open:
            return _UNKNOWN if depth > _DEPTH else _HOSTS  # a round says nothing new
        self._open.add(node)
        try:
            return self._origins_of_expression(place, depth + 1)
        finally:
            self._open.discard(node)

    def _origins_of_expression(self, place: Place, depth: int) -> Origins:
        match place.node:
            case ast.Constant() | ast.JoinedStr() | ast.Compare():
                return _HOSTS
            case ast.Name() as name:
                return self._origins_of_name(place, name, depth)
            case ast.Call() as call:
                return self._origins_of_call(place, call, depth)
            case ast.Tuple(elts=parts) | ast.List(elts=parts):
                return self._origins_of_any(place, parts, depth)
            case ast.Dict(values=parts):
                return self._origins_of_any(place, parts, depth)
            case ast.BinOp(left=one, right=two):
                return self._origins_of_operation(place, [one, two], depth)
            case ast.UnaryOp(operand=one):
                return self._origins_of_operation(place, [one], depth)
            case ast.IfExp(body=one, orelse=two):
                return self._origins_of_any(place, [one, two], depth)
            case ast.Subscript(value=one) | ast.Starred(value=one):
                return self.find_origins(Place(place.file, one), depth)
            case ast.Attribute(value=one):
                known = self.program.value(place.file, place.node)
                if isinstance(known, Api | Constant):
                    return _HOSTS
                return self.find_origins(Place(place.file, one), depth)
        return _UNKNOWN

    def _origins_of_any(self, place: Place, parts: Iterable[ast.expr], depth: int) -> Origins:
        found = [self.find_origins(Place(place.file, part), depth) for part in parts]
        return frozenset().union(*found) if found else _HOSTS

    def _origins_of_operation(
        self, place: Place, parts: list[ast.expr], depth: int, by_jax: bool = False
    ) -> Origins:
        """Return the origins of an operation's result, which is placed where one of its operands is."""
        made = _HOSTS
        for part in parts:
            given = self.find_origins(Place(place.file, part), depth)
            made = frozenset(min(one, other, key=_WINS.index) for one in made for other in given)
        new: Origin = "fresh" if self._is_under_mesh(place) else "loose"
        return frozenset(new if one == "loose" or (one == "host" and by_jax) else one for one in made)

    def _is_under_mesh(self, place: Place) -> bool:
        return bool(self.program.surrounding_contexts(place.file, place.node).contexts)

    def _origins_of_name(self, place: Place, name: ast.Name, depth: int) -> Origins:
        bindings, _ = lookup_bindings(place.file, name, name.id)
        if not bindings:
            return _UNKNOWN
        found = [self._origins_of_binding(place, binding, depth) for binding in bindings]
        return frozenset().union(
            *found, self._origins_of_any(place, _values_put_in_containers(place.file, bindings), depth) - _HOSTS
        )

    def _origins_of_binding(self, place: Place, binding: Binding, depth: int) -> Origins:
        if binding.kind == "param":
            return self._origins_of_parameter(place, binding, depth)
        if binding.value is None:
            return _UNKNOWN
        value: ast.expr = binding.value
        if binding.kind == "unpack" and binding.index is not None and isinstance(value, ast.Tuple | ast.List):
            if binding.index < len(value.elts):
                value = value.elts[binding.index]
        if binding.kind == "for" and isinstance(value, ast.Call) and _is_counting(value):
            return _HOSTS
        return self.find_origins(Place(place.file, value), depth)

    def _origins_of_parameter(self, place: Place, binding: Binding, depth: int) -> Origins:
        function = binding.scope.node
        ends = self.program.flow.ends(place.file, function)
        called = ends.direct_calls()
        if not ends.complete or not called or len(called) < len(ends.found):
            return _UNKNOWN
        if not isinstance(function, ast.FunctionDef | ast.Lambda):
            return _UNKNOWN
        names = tuple(arg.arg for arg in (*function.args.posonlyargs, *function.args.args))
        if binding.scope.parent is not None and binding.scope.parent.kind == "class":
            names = names[1:]
        found: Origins = frozenset()
        for call in called:
            given = self.program.evaluator.read_arguments(call)
            if given.open_positional or given.open_keywords:
                return _UNKNOWN
            argument = given.argument_for(binding.name, names)
            if argument is not None:
                found |= self.find_origins(argument, depth)
            elif binding.value is not None:
                found |= self.find_origins(Place(place.file, binding.value), depth)
            else:
                return _UNKNOWN
        return found

    def _origins_of_call(self, place: Place, call: ast.Call, depth: int) -> Origins:
        parts = [*call.args, *(keyword.value for keyword in call.keywords)]
        callees = options(self.program.value(place.file, call.func))
        return frozenset().union(
            *(self._origins_by_callee(place, call, one, parts, depth) for one in callees)
        )

    def _origins_by_callee(
        self, place: Place, call: ast.Call, callee: Value, parts: list[ast.expr], depth: int
    ) -> Origins:
        match callee:
            case Api(name=name):
                return self._origins_of_library_call(place, name, parts, depth)
            case Transformed(api=Api(name=name), call=settings) if settings is not None:
                if _PLACED_BY & set(settings.keywords) or (name == _PJIT and len(settings.positional) > 1):
                    return _PLACED
                if name != "functools.partial":
                    return self._origins_of_operation(place, parts, depth, by_jax=True)
            case Function() as function if isinstance(function.node, ast.FunctionDef):
                scope = function.place.file.walk_scope(function.place.file.scope(function.node))
                results = [one.value for one in scope.returns if one.value is not None]
                return self._origins_of_any(Place(function.place.file, function.node), results, depth)
        if isinstance(call.func, ast.Attribute):  # a method of an array
            return self._origins_of_operation(place, [call.func.value], depth)
        return _UNKNOWN

    def _origins_of_library_call(self, place: Place, name: str, parts: list[ast.expr], depth: int) -> Origins:
        if name in _PLACING:
            return _PLACED if len(parts) > 1 else self._origins_of_operation(place, parts, depth)
        if name.startswith(_HOST):
            return _HOSTS
        if name in _REARRANGES or name.startswith(_REARRANGING):
            return self._origins_of_any(place, parts[_REARRANGES.get(name, 0) :][:1], depth)
        if name.startswith("jax.tree") and parts:
            return self._origins_of_mapped_call(place, parts, depth)
        if not name.startswith(_MAKING):
            return _UNKNOWN
        return self._origins_of_operation(place, parts, depth, by_jax=True)

    def _origins_of_mapped_call(self, place: Place, parts: list[ast.expr], depth: int) -> Origins:
        for option in options(self.program.value(place.file, parts[0])):
            if isinstance(option, Api) and option.name in _PLACING:
                return _PLACED if len(parts) > 2 else self._origins_of_operation(place, parts[1:], depth)
            if isinstance(option, Function) and isinstance(option.node, ast.Lambda):
                body = option.node.body
                if isinstance(body, ast.Call):
                    inner = options(self.program.value(option.place.file, body.func))
                    if all(isinstance(one, Api) and one.name in _PLACING for one in inner):
                        return _PLACED
        return self._origins_of_operation(place, parts[1:], depth, by_jax=True)


def _values_put_in_containers(file: FileFacts, bindings: Iterable[Binding]) -> list[ast.expr]:
    """Return the values put into dicts and lists after they are made: `tree[key] = x`, `parts.append(x)`."""
    made = {binding.scope: binding for binding in bindings if isinstance(binding.value, _GROWING)}
    found: list[ast.expr] = []
    for scope, binding in made.items():
        for node in file.mentions_in(scope, binding.name):
            parent = file.parent(node)
            outer = file.parent(parent) if parent is not None else None
            if isinstance(parent, ast.Subscript) and parent.value is node and isinstance(outer, ast.Assign):
                found += [outer.value] if parent in outer.targets else []
            elif isinstance(parent, ast.Attribute) and isinstance(outer, ast.Call) and outer.func is parent:
                found += [*outer.args, *(one.value for one in outer.keywords)] if parent.attr in _PUTS else []
    return found


def _is_counting(node: ast.Call) -> bool:
    return isinstance(node.func, ast.Name) and node.func.id in ("range", "enumerate")
