"""The shape of an array, where literals in the text prove it.

`shape_of` is the question. A dimension the text does not tell is None in the answer; where the rank is not known
either, the answer is None. Nothing is guessed: indexing and contractions but matrix products tell nothing.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Mapping, Sequence
from dataclasses import field
from types import MappingProxyType

from shardlint.model import api
from shardlint.model.values import (
    LARGEST,
    Api,
    CallResult,
    Choice,
    Computed,
    Constant,
    Environment,
    Items,
    Place,
    Value,
    Values,
    options,
)
from shardlint.source.lazy import dataclass
from shardlint.syntax import Binding
from shardlint.syntax.bindings import lookup_bindings

__all__ = ["ELEMENTWISE", "PRODUCTS", "Shape", "shape_of", "shape_of_value"]

Shape = tuple[int | None, ...]

_DEPTH = 16
# One question may look at so many expressions: helpers that call each other in circles have no end of calls.
_STEPS = 200
_ARRAYS = ("jax.numpy.", "numpy.")
# Made from a shape: where it stands, as a position and under a name.
_FROM_SHAPE: dict[str, tuple[int, str]] = {
    **{f"{module}{name}": (0, "shape") for module in _ARRAYS for name in ("zeros", "ones", "empty", "full")},
    **{
        f"jax.random.{name}": (1, "shape")
        for name in (
            "normal",
            "uniform",
            "randint",
            "bits",
            "exponential",
            "laplace",
            "gumbel",
            "rademacher",
            "cauchy",
        )
    },
    "jax.random.bernoulli": (2, "shape"),
    "jax.random.truncated_normal": (3, "shape"),
    **{f"numpy.random.{name}": (0, "size") for name in ("random", "random_sample", "standard_normal")},
    **{f"numpy.random.{name}": (2, "size") for name in ("normal", "uniform", "randint")},
    "jax.ShapeDtypeStruct": (0, "shape"),
    "jax.experimental.mesh_utils.create_device_mesh": (0, "mesh_shape"),
    "jax.make_array_from_callback": (0, "shape"),
}
# As long as its own argument `shape` (or `size`) is not given, the result is a scalar.
_SCALAR_WITHOUT = tuple(name for name in _FROM_SHAPE if ".random." in name)
# As their first argument is; `shape=` overrides it where they take one.
_LIKE = frozenset(
    [
        f"{module}{name}"
        for module in _ARRAYS
        for name in ("zeros_like", "ones_like", "full_like", "empty_like", "copy")
    ]
    + ["jax.device_put", "jax.lax.with_sharding_constraint", "jax.reshard", "equinox.filter_shard"]
    + ["jax.block_until_ready", "jax.device_get"]
)
# Functions of one array that keep its shape, and how it is split.
ELEMENTWISE = frozenset(
    f"jax.numpy.{name}"
    for name in "abs clip conj cos exp log negative nan_to_num real round sign sin sqrt square tanh".split()
) | frozenset(
    f"jax.nn.{name}" for name in "celu elu gelu relu relu6 sigmoid silu softplus swish tanh".split()
)
PRODUCTS = ("jax.numpy.matmul", "jax.numpy.dot", "jax.lax.dot")
_FROM_DATA = frozenset(
    f"{module}{name}" for module in _ARRAYS for name in ("array", "asarray", "ascontiguousarray")
)
_KEEPING_METHODS = ("astype", "copy", "block_until_ready", "conj")


def shape_of(
    evaluator: Values,
    place: Place,
    environment: Environment | None = None,
    given: Mapping[ast.AST, Shape] = MappingProxyType({}),
) -> Shape | None:
    """The shape of the array an expression makes.

    `environment` is as in `Evaluator.value`. `given` are shapes of parameters (their `ast.arg`) that the caller knows.
    """
    return _Reader(evaluator, given).read_shape(place, environment or evaluator.environment(place))


def shape_of_value(evaluator: Values, value: Value) -> Shape | None:
    """The shape of the array a value is."""
    return _Reader(evaluator).shape_of_value(value)


@dataclass
class _Reader:
    """One question."""

    evaluator: Values
    given: Mapping[ast.AST, Shape] = field(default_factory=dict)
    depth: int = 0
    steps: int = 0
    known: dict[tuple[ast.AST, Environment | None], Shape | None] = field(default_factory=dict)

    def read_shape(self, place: Place, env: Environment | None) -> Shape | None:
        key = place.node, env
        if key not in self.known:
            self.known[key] = None  # an array that is made of itself
            self.steps += 1
            if self.depth <= _DEPTH and self.steps <= _STEPS:
                self.depth += 1
                self.known[key] = self._shape_of_place(place, env)
                self.depth -= 1
        return self.known[key]

    def _shape_of_place(self, place: Place, env: Environment | None) -> Shape | None:
        file, node = place.file, place.node
        match node:
            case ast.Constant(value=bool() | int() | float() | complex()):
                return ()
            case ast.Name():
                return self._shape_of_name(place, node, env)
            case ast.Call():
                return self._shape_of_call(place, node, env)
            case ast.Attribute(attr="T"):
                inner = self.read_shape(Place(file, node.value), env)
                return inner[::-1] if inner is not None else None
            case ast.UnaryOp(op=ast.USub() | ast.UAdd()):
                return self.read_shape(Place(file, node.operand), env)
            case ast.BinOp(
                op=ast.Add() | ast.Sub() | ast.Mult() | ast.Div() | ast.FloorDiv() | ast.Mod() | ast.Pow()
            ):
                return self._shape_of_arithmetic(place, node, env)
            case ast.BinOp(op=ast.MatMult(), left=left, right=right):
                return self._shape_of_product(
                    self.read_shape(Place(file, left), env), self.read_shape(Place(file, right), env)
                )
            case ast.IfExp():
                return _common_shape([self.read_shape(Place(file, part), env) for part in (node.body, node.orelse)])
            case ast.NamedExpr():
                return self.read_shape(Place(file, node.value), env)
            case ast.Attribute() | ast.Subscript():
                return self.shape_of_value(self.evaluator.value(place, env))
        return None

    def shape_of_value(self, value: Value) -> Shape | None:
        if isinstance(value, Choice):
            return _common_shape([self.shape_of_value(option) for option in options(value)])
        if isinstance(value, CallResult) and isinstance(value.by, Api) and value.call is not None:
            return self.read_shape(value.call.place, value.call.environment)
        if isinstance(value, Constant) and isinstance(value.value, int | float | complex):
            return ()
        if isinstance(value, Computed) and value.place is not None:
            return self.read_shape(value.place, value.environment)
        return None

    # names

    def _shape_of_name(self, place: Place, node: ast.Name, env: Environment | None) -> Shape | None:
        file = place.file
        bindings, scope = lookup_bindings(file, node, node.id)
        if scope is None or not bindings or any(binding.kind == "more" for binding in bindings):
            return None
        if scope.kind == "module" and file.evaluation_scope(node) is not scope and node.id in file.rebound_globals:
            return None
        inner = env if scope is file.evaluation_scope(node) else None
        return _common_shape([self._shape_of_binding(place, binding, inner) for binding in bindings])

    def _shape_of_binding(self, place: Place, binding: Binding, env: Environment | None) -> Shape | None:
        if binding.kind in ("assign", "walrus") and binding.value is not None:
            return self.read_shape(Place(place.file, binding.value), env)
        if binding.node in self.given:
            return self.given[binding.node]
        if binding.kind in ("param", "for", "comprehension"):
            self.evaluator.rests_on_call()
            value = env.bound_value(binding.name, binding.kind, binding.node) if env is not None else None
            return self.shape_of_value(value) if value is not None else None
        if binding.kind == "from":
            return self.shape_of_value(self.evaluator.evaluate_binding(place.file, binding))
        return None

    # calls

    def _shape_of_call(self, place: Place, node: ast.Call, env: Environment | None) -> Shape | None:
        callee = self.evaluator.value(Place(place.file, node.func), env)
        if isinstance(callee, Api):
            return self._shape_made_by(callee.name, place, node, env)
        if isinstance(node.func, ast.Attribute):
            base = Place(place.file, node.func.value)
            return self._shape_by_method(base, place, node.func.attr, node, env)
        return self.shape_of_value(
            self.evaluator.value(place, env)
        )  # a function of the project that returns an array

    def _shape_made_by(
        self, name: str, place: Place, node: ast.Call, env: Environment | None
    ) -> Shape | None:
        arguments = self.evaluator.read_arguments(place, env)
        if arguments.open_positional or arguments.open_keywords:
            return None
        first = arguments.positional[0] if arguments.positional else None
        if name in _FROM_SHAPE:
            index, keyword = _FROM_SHAPE[name]
            given = arguments.argument_for(keyword, (*("",) * index, keyword))
            if given is None:
                return () if name in _SCALAR_WITHOUT else None
            return self.read_dimensions(given, env)
        if name in ("numpy.random.rand", "numpy.random.randn"):
            return tuple(self.read_dimension(one, env) for one in arguments.positional)
        if name in _LIKE:
            given = arguments.keywords.get("shape")
            if given is not None and self.evaluator.value(given, env) != Constant(None):
                return self.read_dimensions(given, env)
            return self.read_shape(first, env) if first is not None else None
        if name in ELEMENTWISE:
            return self.read_shape(first, env) if first is not None else None
        if name in PRODUCTS and len(arguments.positional) == 2:
            return self._shape_of_product(*(self.read_shape(one, env) for one in arguments.positional))
        if name in _FROM_DATA:
            return (
                self._shape_of_data(first, env)
                if first is not None and "ndmin" not in arguments.keywords
                else None
            )
        if name in api.DEVICE_LISTS:
            return (None,)
        if not name.startswith(_ARRAYS) or any(keyword.arg != "dtype" for keyword in node.keywords):
            return None
        return self._shape_by_function(name.rpartition(".")[2], arguments.positional, env)

    def _shape_by_function(self, name: str, places: Sequence[Place], env: Environment | None) -> Shape | None:
        """`arange`, `eye` and functions that say the new shape."""
        numbers = [self._number_at_place(one, env) for one in places]
        match name, numbers:
            case "arange", [int() | float() as stop]:
                return (max(0, math.ceil(stop)),)
            case "arange", [int() | float() as start, int() | float() as stop]:
                return (max(0, math.ceil(stop - start)),)
            case "arange", [int() as start, int() as stop, int() as step] if step:
                return (max(0, -((start - stop) // step)),)
            case "arange", [_] | [_, _] | [_, _, _]:
                return (None,)
            case "linspace", [_, _]:
                return (50,)
            case "linspace", [_, _, count]:
                return (count if isinstance(count, int) else None,)
            case (("eye" | "identity"), [count]):
                size = count if isinstance(count, int) else None
                return (size, size)
            case "eye", [rows, columns]:
                return tuple(one if isinstance(one, int) else None for one in (rows, columns))
            case "reshape", [_, _]:
                return self._shape_after_reshape(self.read_shape(places[0], env), self.read_dimensions(places[1], env))
            case "broadcast_to", [_, _]:
                return self.read_dimensions(places[1], env)
        return None

    def _shape_by_method(
        self, base: Place, place: Place, name: str, node: ast.Call, env: Environment | None
    ) -> Shape | None:
        if any(isinstance(argument, ast.Starred) for argument in node.args):
            return None
        given = [Place(place.file, argument) for argument in node.args]
        if name == "reshape" and given and not node.keywords:
            asked = (
                self.read_dimensions(given[0], env)
                if len(given) == 1
                else tuple(self.read_dimension(one, env) for one in given)
            )
            return self._shape_after_reshape(self.read_shape(base, env), asked)
        inner = self.read_shape(base, env)
        if inner is None:
            return None
        if name in _KEEPING_METHODS:
            return inner
        if name == "transpose" and not given and not node.keywords:
            return inner[::-1]
        if name in ("ravel", "flatten"):
            return (_product_of_sizes(inner),)
        return None

    def _shape_after_reshape(self, before: Shape | None, shape: Shape | None) -> Shape | None:
        if shape is None or -1 not in shape:
            return shape
        others = _product_of_sizes(tuple(one for one in shape if one != -1))
        total = _product_of_sizes(before) if before is not None else None
        left = total // others if total is not None and others and total % others == 0 else None
        return tuple(left if one == -1 else one for one in shape)

    def _shape_of_data(self, place: Place, env: Environment | None) -> Shape | None:
        """Return the shape of the array that a display of numbers, or another array, makes."""
        node = place.node
        if not isinstance(node, ast.List | ast.Tuple):
            return self.read_shape(place, env)
        if any(isinstance(element, ast.Starred) for element in node.elts):
            return None
        if not node.elts:
            return (0,)
        inner = _common_shape([self._shape_of_data(Place(place.file, element), env) for element in node.elts])
        return (len(node.elts), *inner) if inner is not None else None

    def _shape_of_arithmetic(self, place: Place, node: ast.BinOp, env: Environment | None) -> Shape | None:
        """An array and a number. Two arrays of one shape keep it too; other pairs may be broadcast."""
        left, right = (
            self.read_shape(Place(place.file, node.left), env),
            self.read_shape(Place(place.file, node.right), env),
        )
        if left is None or right is None:
            return None
        if not left or not right:
            return left or right
        return left if left == right and None not in left else None

    def _shape_of_product(self, left: Shape | None, right: Shape | None) -> Shape | None:
        """A product with a matrix: other ranks may be broadcast."""
        if left is None or right is None or not left or len(right) != 2:
            return None
        return (*left[:-1], right[1])

    # dimensions

    def read_dimensions(self, place: Place, env: Environment | None) -> Shape | None:
        """Return the shape in an expression that is the argument `shape`."""
        node = place.node
        if isinstance(node, ast.Attribute) and node.attr == "shape":
            of_array = self.read_shape(Place(place.file, node.value), env)
            if of_array is not None:
                return of_array
        if isinstance(node, ast.Tuple | ast.List):
            if any(isinstance(element, ast.Starred) for element in node.elts):
                return None
            return tuple(self.read_dimension(Place(place.file, element), env) for element in node.elts)
        value = self.evaluator.value(place, env)
        if isinstance(value, Items) and not value.open:
            return tuple(_integer_value(item) for item in value.items)
        size = _integer_value(value)
        return (size,) if size is not None else None

    def read_dimension(self, place: Place, env: Environment | None) -> int | None:
        """Return the size in an expression that is one entry of a shape."""
        match place.node:
            case ast.Subscript(value=ast.Attribute(attr="shape", value=array), slice=index):
                shape, at = (
                    self.read_shape(Place(place.file, array), env),
                    self._number_at_place(Place(place.file, index), env),
                )
                if shape is not None and isinstance(at, int) and -len(shape) <= at < len(shape):
                    return shape[at]
                return None
        return _integer_value(self.evaluator.value(place, env))

    def _number_at_place(self, place: Place, env: Environment | None) -> int | float | None:
        value = self.evaluator.value(place, env)
        if (
            isinstance(value, Constant)
            and isinstance(value.value, int | float)
            and not isinstance(value.value, bool)
        ):
            return value.value if abs(value.value) < LARGEST else None  # a NaN is not
        return self.read_dimension(place, env)


def _integer_value(value: Value) -> int | None:
    if isinstance(value, Constant) and isinstance(value.value, int) and not isinstance(value.value, bool):
        return value.value if abs(value.value) < LARGEST else None
    return None


def _product_of_sizes(shape: Shape) -> int | None:
    known = [one for one in shape if one is not None]
    if len(known) < len(shape):
        return None
    product = 1
    for size in known:
        product *= size
        if abs(product) >= LARGEST:
            return None
    return product


def _common_shape(shapes: list[Shape | None]) -> Shape | None:
    """The shape of which all of several ways make an array; a dimension they differ in is None."""
    found = [shape for shape in shapes if shape is not None]
    if not found or len(found) != len(shapes) or len({len(shape) for shape in found}) != 1:
        return None
    return tuple(_common_size(sizes) for sizes in zip(*found, strict=True))


def _common_size(sizes: Sequence[int | None]) -> int | None:
    return sizes[0] if len(set(sizes)) == 1 else None
