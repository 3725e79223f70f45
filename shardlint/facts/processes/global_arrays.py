"""Arrays of which every process holds a part: what made them, followed through names, attributes, helpers and callers.

An array is global where `make_array_from_callback` and its like made it, where it was placed with a sharding over a
mesh of the devices of all processes, or where a compiled function computed it from such arrays. A computation with one
is a program that all processes must start.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from shardlint.facts.processes.all_devices import sharding_of_all
from shardlint.facts.project_objects import evaluate_held_member, find_classes, stored_values
from shardlint.model.api import JIT_WRAPPERS
from shardlint.model.values import Api, Function, Place, Transformed, Value
from shardlint.syntax import FileFacts
from shardlint.syntax.bindings import lookup_bindings
from shardlint.syntax.nodes import walk_nodes

if TYPE_CHECKING:
    from shardlint.model import Program

_DEPTH = 9
_CALLS = 4  # of how many calls of a function the arguments are looked at
_UTILS = "jax.experimental.multihost_utils."
MAKERS = frozenset(
    (
        "jax.make_array_from_process_local_data",
        "jax.make_array_from_callback",
        "jax.make_array_from_single_device_arrays",
        f"{_UTILS}host_local_array_to_global_array",
    )
)
_TREE_MAPS = ("jax.tree.map", "jax.tree_util.tree_map", "jax.tree_map", "builtins.map")
_HOST = (f"{_UTILS}process_allgather", "jax.device_get", f"{_UTILS}global_array_to_host_local_array")
METHODS = frozenset("astype clip dot flatten max mean min ravel reshape squeeze std sum transpose var".split())
"""Methods of an array that compute another one of it."""
Given = Mapping[str, Place]


class GlobalArrays:
    """Answers for one program. Each question is bounded: what is not found within `_DEPTH` steps is not global."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self._known: dict[ast.AST, str] = {}
        """Answers by expression, without parameters given; "" for one that is being asked, as it may go in a circle."""

    def maker_of_array(self, place: Place) -> str:
        """Return the name of the function that made the array of all processes which an expression is, or was computed
        from; "" if none is visible.
        """
        return self._maker_with_parameters(place, {}, 0)

    def _maker_with_parameters(self, place: Place, given: Given, depth: int) -> str:
        """As `maker`, in a function whose parameters are given as `given` says."""
        if depth > _DEPTH:
            return ""
        if given:
            return self._maker_of_expression(place, given, depth)
        if place.node not in self._known:
            self._known[place.node] = ""
            self._known[place.node] = self._maker_of_expression(place, given, depth)
        return self._known[place.node]

    def _maker_of_expression(self, place: Place, given: Given, depth: int) -> str:
        file, node = place.file, place.node
        match node:
            case ast.Call():
                return self._maker_of_call(place, node, given, depth)
            case ast.Name():
                return self._maker_of_name(place, node, given, depth)
            case ast.Attribute():
                return self._maker_of_attribute(place, node, depth) or self._maker_with_parameters(
                    Place(file, node.value), given, depth + 1
                )
            case ast.Subscript(value=inner) | ast.Starred(value=inner) | ast.NamedExpr(value=inner):
                return self._maker_with_parameters(Place(file, inner), given, depth + 1)
            case ast.Tuple(elts=parts) | ast.List(elts=parts) | ast.Dict(values=parts):
                return self._maker_of_any((Place(file, part) for part in parts), given, depth)
            case ast.GeneratorExp(elt=part) | ast.ListComp(elt=part) | ast.DictComp(value=part):
                return self._maker_with_parameters(Place(file, part), given, depth + 1)
            case ast.IfExp(body=one, orelse=other):
                return self._maker_of_any((Place(file, one), Place(file, other)), given, depth)
            case ast.BinOp(left=one, right=other):
                return self._maker_of_any((Place(file, one), Place(file, other)), given, depth)
        return ""

    def _maker_of_any(self, places: Iterable[Place], given: Given, depth: int) -> str:
        return next(filter(None, (self._maker_with_parameters(one, given, depth + 1) for one in places)), "")

    def _maker_of_call(self, place: Place, node: ast.Call, given: Given, depth: int) -> str:
        file = place.file
        for option in evaluate_held_member(self.program, Place(file, node.func)):
            found = self._maker_by_callee(option, place, node, given, depth)
            if found:
                return found
        func = node.func
        if isinstance(func, ast.Attribute) and func.attr in METHODS:
            return self._maker_with_parameters(Place(file, func.value), given, depth + 1)
        return ""

    def _maker_by_callee(self, option: Value, place: Place, node: ast.Call, given: Given, depth: int) -> str:
        file = place.file
        match option:
            case Api(name=name) if name in MAKERS:
                return name
            case Api(name=name) if name in _HOST:
                return ""
            case Api(name="jax.device_put"):
                return self._maker_of_placement(file, node)
            case Api(name="builtins.dict"):
                nodes = (*node.args, *(one.value for one in node.keywords))
                return self._maker_of_any((Place(file, one) for one in nodes), given, depth)
            case Api(name=name) if name in _TREE_MAPS and node.args:
                return self._maker_of_tree_map(place, node, depth)
            case Api(name=name) if name.startswith("jax.numpy."):
                return self._maker_of_any((Place(file, one) for one in node.args), given, depth)
            case Transformed(api=Api(name=name)) if name in JIT_WRAPPERS:
                made = option.call
                sharding = made.keywords.get("out_shardings") if made is not None else None
                if sharding is not None and sharding_of_all(self.program, sharding):
                    return "out_shardings over the devices of all processes"
                nodes = (*node.args, *(one.value for one in node.keywords))
                return self._maker_of_any((Place(file, one) for one in nodes), given, depth)
            case Function():
                return self._maker_of_result(option, place, node, given, depth)
        return ""

    def _maker_of_placement(self, file: FileFacts, call: ast.Call) -> str:
        target = next((one.value for one in call.keywords if one.arg == "device"), None)
        if target is None and len(call.args) > 1:
            target = call.args[1]
        if target is None or not sharding_of_all(self.program, Place(file, target)):
            return ""
        return "device_put with a sharding over the devices of all processes"

    def _maker_of_tree_map(self, place: Place, node: ast.Call, depth: int) -> str:
        """`tree.map(f, tree)`: what f gives back."""
        file, first = place.file, node.args[0]
        for option in evaluate_held_member(self.program, Place(file, first)):
            if isinstance(option, Api) and option.name in MAKERS:
                return option.name
            if isinstance(option, Function):
                found = self._maker_in_body(option, {}, depth)
                if found:
                    return found
            if isinstance(option, Transformed) and isinstance(option.inner, Api) and option.inner.name in MAKERS:
                return option.inner.name
        return ""

    def _maker_of_result(
        self, function: Function, place: Place, node: ast.Call, given: Given, depth: int
    ) -> str:
        """Return the maker of the array that a function of the project returns for these arguments."""
        inner: dict[str, Place] = {}
        if not any(isinstance(one, ast.Starred) for one in node.args):
            inner = {
                name: Place(place.file, one)
                for name, one in zip(function.positional_parameters, node.args, strict=False)
            }
        inner |= {one.arg: Place(place.file, one.value) for one in node.keywords if one.arg is not None}
        # What the arguments are is known here alone: the names in them are looked up in the caller.
        known = {
            name: one for name, one in inner.items() if self._maker_with_parameters(one, given, depth + 1)
        }
        return self._maker_in_body(function, known, depth)

    def _maker_in_body(self, function: Function, given: Given, depth: int) -> str:
        file, node = function.place.file, function.node
        if isinstance(node, ast.Lambda):
            return self._maker_with_parameters(Place(file, node.body), given, depth + 1)
        if isinstance(node, ast.AsyncFunctionDef):
            return ""
        returned = [one.value for one in file.walk_scope(file.scope(node)).returns if one.value is not None]
        returned += [one.value for one in walk_nodes(node) if isinstance(one, ast.Yield) and one.value is not None]
        return self._maker_of_any((Place(file, one) for one in returned), given, depth)

    def _maker_of_name(self, place: Place, node: ast.Name, given: Given, depth: int) -> str:
        file = place.file
        bindings, scope = lookup_bindings(file, node, node.id)
        for one in bindings:
            if one.kind == "param" and scope is not None:
                if node.id in given:
                    return self._maker_with_parameters(given[node.id], {}, depth + 1)
                found = self._maker_from_callers(file, scope.node, node.id, depth)
                if found:
                    return found
            elif one.value is not None and one.kind in ("assign", "unpack", "walrus", "for", "comprehension"):
                value: ast.expr = one.value
                if one.kind == "unpack" and isinstance(value, ast.Tuple | ast.List) and one.index is not None:
                    value = value.elts[one.index] if one.index < len(value.elts) else value
                if not any(part is node for part in walk_nodes(value)):
                    found = self._maker_with_parameters(Place(file, value), given, depth + 1)
                    if found:
                        return found
        return ""

    def _maker_from_callers(self, file: FileFacts, function: ast.AST, name: str, depth: int) -> str:
        """Return the maker of the array that the visible calls pass for a parameter, unless they disagree."""
        if not isinstance(function, ast.FunctionDef):
            return ""
        arguments = [one.arg for one in (*function.args.posonlyargs, *function.args.args)]
        answers = []
        for end in self.program.flow.ends(file, function).found[:_CALLS]:
            call = end.place.node
            if end.kind != "called" or not isinstance(call, ast.Call) or end.wrappers:
                continue
            written = next((one.value for one in call.keywords if one.arg == name), None)
            if written is None and name in arguments:
                at = arguments.index(name) - (arguments[:1] in (["self"], ["cls"]))
                written = call.args[at] if 0 <= at < len(call.args) else None
            if written is not None:
                answers.append(self._maker_with_parameters(Place(end.place.file, written), {}, depth + 1))
        return answers[0] if answers and all(answers) else ""

    def _maker_of_attribute(self, place: Place, node: ast.Attribute, depth: int) -> str:
        """`self.params`: what the methods of the class assign to it."""
        for cls in find_classes(self.program, Place(place.file, node.value)):
            file = cls.place.file
            for value in stored_values(file, cls.node, node.attr):
                found = self._maker_with_parameters(Place(file, value), {}, depth + 2)
                if found:
                    return found
        return ""
