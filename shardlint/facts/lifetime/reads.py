"""Does a read of a name look at the data of an array, or only at what outlives it (shape, dtype, sharding)?"""

from __future__ import annotations

import ast
import enum

from shardlint.facts.lifetime.reads_inside import surely_reads_argument
from shardlint.model.api import JIT_WRAPPERS
from shardlint.model.evaluator.evaluate import Evaluator
from shardlint.model.values import Api, Function, Place, Transformed, Value, options
from shardlint.syntax import FileFacts


class Reading(enum.Enum):
    """Part of an array that a read accesses."""

    NONE = "nothing that a deleted array has lost"
    PERHAPS = "code that is not seen decides"
    IF_ARRAY = "its data, if it is an array; not if it holds arrays"
    DATA = "its data"


# Of a deleted array these can be read.
_KEPT = frozenset(
    """
shape dtype ndim size nbytes itemsize sharding aval weak_type committed is_fully_replicated
is_fully_addressable is_deleted delete device_buffer format layout _fields apply_fn tx graphdef __class__
__dict__ named_shape
""".split()
)
_DERIVED = frozenset(("T", "mT", "at", "real", "imag", "addressable_shards", "global_shards"))
_ARRAY_METHODS = frozenset(
    """
sum mean min max std var prod any all astype reshape ravel flatten transpose copy item tolist dot argmax
argmin argsort sort cumsum round clip squeeze swapaxes block_until_ready is_ready addressable_data devices
__array__ view trace take repeat copy_to_host_async on_device_size_in_bytes
""".split()
)
_OUTLIVES = frozenset(
    "keys items values lower trace eval_shape is_deleted delete unsafe_buffer_pointer".split()
)
_HARMLESS = frozenset(
    """
builtins.len builtins.isinstance builtins.type builtins.id builtins.hasattr builtins.getattr builtins.callable
builtins.hash builtins.issubclass builtins.zip builtins.enumerate builtins.dict builtins.tuple jax.numpy.shape
jax.numpy.ndim jax.numpy.size jax.numpy.result_type jax.numpy.zeros_like jax.numpy.ones_like
jax.numpy.full_like jax.numpy.empty_like jax.numpy.dtype jax.numpy.issubdtype jax.numpy.isscalar numpy.shape
numpy.ndim numpy.size numpy.result_type numpy.prod jax.eval_shape jax.make_jaxpr jax.typeof jax.tree.structure
jax.tree.leaves jax.tree.flatten jax.tree_util.tree_structure jax.tree_util.tree_leaves
jax.tree_util.tree_flatten jax.tree_util.tree_flatten_with_path jax.tree_leaves jax.tree_flatten
jax.tree.leaves_with_path jax.tree.flatten_with_path jax.tree_structure equinox.filter equinox.partition
equinox.is_array equinox.filter_eval_shape jax.debug.visualize_array_sharding jax.ShapeDtypeStruct
flax.jax_utils.unreplicate_shape gc.collect weakref.ref
""".split()
)
_READING = ("jax.numpy.", "jax.nn.", "jax.lax.", "jax.scipy.", "numpy.", "optax.")
_READING_ONE = frozenset(
    """
jax.device_get jax.device_put jax.block_until_ready builtins.float builtins.int builtins.complex builtins.sum
builtins.abs equinox.apply_updates equinox.filter_shard jax.lax.with_sharding_constraint
""".split()
)
_SHOWING = frozenset(f"builtins.{name}" for name in ("print", "str", "repr", "list", "bool", "max", "min"))
_PURE = tuple(
    f"{module}."
    for module in "jax numpy optax equinox math builtins time logging absl einops functools".split()
)
STAGED = (*JIT_WRAPPERS, "jax.pmap", "jax.shard_map", "equinox.filter_pmap")


def array_of_read(node: ast.expr) -> ast.expr:
    """Return the array that a read accesses: `x` of the chain `x.sum` or `x.T`, which only an array has."""
    if isinstance(node, ast.Attribute) and (node.attr in _ARRAY_METHODS or node.attr in _DERIVED):
        return node.value
    return node


def part_of_read(evaluator: Evaluator, file: FileFacts, node: ast.expr, depth: int = 0) -> Reading:
    """Return the part of the array that the read at `node` (a whole chain of attributes and constant keys) accesses."""
    part: ast.expr = node
    while isinstance(part, ast.Attribute | ast.Subscript):
        if isinstance(part, ast.Attribute) and part.attr in _KEPT:
            return Reading.NONE
        part = part.value
    parent = file.parent(node)
    if isinstance(parent, ast.Call) and parent.func is node and isinstance(node, ast.Attribute):
        if node.attr in _OUTLIVES:
            return Reading.NONE
        return Reading.DATA if node.attr in _ARRAY_METHODS else Reading.PERHAPS
    found = _reading_by_parent(evaluator, file, node, depth)
    if found is not Reading.DATA and isinstance(node, ast.Subscript):
        return Reading.IF_ARRAY
    if isinstance(node, ast.Attribute) and node.attr in _DERIVED:
        return Reading.DATA
    return found


def _reading_by_parent(evaluator: Evaluator, file: FileFacts, node: ast.AST, depth: int) -> Reading:
    parent = file.parent(node)
    match parent:
        case ast.Call():
            if parent.func is node:
                return Reading.NONE
            return _reading_by_call(evaluator, file, parent, node, depth)
        case ast.keyword() | ast.Starred() | ast.NamedExpr():
            return _reading_by_parent(evaluator, file, parent, depth)
        case ast.Tuple() | ast.List() | ast.Set() | ast.Dict() | ast.IfExp():
            return _reading_by_parent(evaluator, file, parent, depth)
        case ast.BinOp() | ast.AugAssign():
            return Reading.DATA
        case ast.UnaryOp():
            return Reading.PERHAPS if isinstance(parent.op, ast.Not) else Reading.DATA
        case ast.Compare():
            if all(isinstance(op, ast.Is | ast.IsNot) for op in parent.ops):
                return Reading.NONE
            return (
                Reading.PERHAPS
                if any(isinstance(op, ast.In | ast.NotIn) for op in parent.ops)
                else Reading.DATA
            )
        case ast.FormattedValue() | ast.Subscript() | ast.Slice() | ast.For() | ast.comprehension():
            return Reading.IF_ARRAY
        case ast.Attribute():
            return Reading.NONE if parent.attr in _KEPT else Reading.PERHAPS
        case ast.Assign() | ast.AnnAssign() | ast.Expr() | ast.Assert() | ast.withitem() | ast.Delete():
            return Reading.NONE
    return Reading.PERHAPS


def _reading_by_call(
    evaluator: Evaluator, file: FileFacts, call: ast.Call, node: ast.AST, depth: int
) -> Reading:
    """Return the part of an argument that a function reads."""
    if isinstance(call.func, ast.Attribute) and call.func.attr in _OUTLIVES:
        return Reading.NONE
    answers = {
        _reading_by_function(evaluator, file, call, node, option, depth)
        for option in options(evaluator.value(Place(file, call.func)))
    }
    return answers.pop() if len(answers) == 1 else Reading.PERHAPS


def _reading_by_function(
    evaluator: Evaluator, file: FileFacts, call: ast.Call, node: ast.AST, value: Value, depth: int
) -> Reading:
    if isinstance(value, Transformed) and value.api.name in STAGED:
        return Reading.DATA
    if isinstance(value, Function):
        return _read_part_in_body(evaluator, file, call, node, value, depth)
    if not isinstance(value, Api):
        return Reading.PERHAPS
    if value.name in _HARMLESS:
        return Reading.NONE
    if value.name in _SHOWING:
        return Reading.IF_ARRAY
    if value.name == "jax.tree.map" and call.args:
        inner = evaluator.value(Place(file, call.args[0]))
        if isinstance(inner, Api) and inner.name != value.name:
            return _reading_by_function(evaluator, file, call, node, inner, depth)
        if isinstance(inner, Function):
            return _read_part_in_body(evaluator, file, call, node, inner, depth, mapped=True)
        return Reading.PERHAPS
    if value.name in _READING_ONE or value.name.startswith(_READING):
        return Reading.DATA
    return Reading.PERHAPS


def _read_part_in_body(
    evaluator: Evaluator,
    file: FileFacts,
    call: ast.Call,
    node: ast.AST,
    function: Function,
    depth: int,
    mapped: bool = False,
) -> Reading:
    """Return the part of an argument that a function of the project reads; with `mapped`, of each array of it."""

    def is_name_read(file: FileFacts, name: ast.expr, depth: int) -> bool:
        parent = file.parent(name)
        if isinstance(parent, ast.Attribute):
            if parent.attr in _ARRAY_METHODS or parent.attr in _DERIVED:
                return part_of_read(evaluator, file, parent, depth) is Reading.DATA
            return False
        found = _reading_by_parent(evaluator, file, name, depth)
        return found is Reading.DATA or (mapped and found is Reading.IF_ARRAY)

    found = surely_reads_argument(evaluator, file, call, node, function, is_name_read, depth, mapped)
    return Reading.DATA if found else Reading.PERHAPS


def keeps_objects(evaluator: Evaluator, file: FileFacts, call: ast.Call) -> bool:
    """Return whether a call surely changes no object in place: it is a library's pure function, or compiled."""
    if isinstance(call.func, ast.Attribute) and call.func.attr in (*_ARRAY_METHODS, *_OUTLIVES):
        return True
    return all(
        (isinstance(option, Api) and option.name.startswith(_PURE))
        or (isinstance(option, Transformed) and option.api.name in STAGED)
        for option in options(evaluator.value(Place(file, call.func)))
    )
