"""Why no result of a function can take the buffer of a donated argument. Shared by SL220 and SL223."""

from __future__ import annotations

import ast

from shardlint.facts.lifetime.donation import PMAP
from shardlint.facts.lifetime.lifetimes import Lifetimes
from shardlint.facts.model_inputs import is_only_called
from shardlint.model.signatures import Jitted
from shardlint.model.values import Api, Function, Place, Transformed, Value, options
from shardlint.rules_api.site import Site
from shardlint.syntax import FileFacts
from shardlint.syntax.bindings import lookup_bindings
from shardlint_rules.jit.results import returned_expressions

_REDUCING = frozenset("sum mean min max prod any all argmax argmin std var item".split())
# With one argument these give a scalar, whatever it is.
_SCALARS = ("jax.numpy.linalg.norm", "optax.global_norm", "optax.tree.norm", "jax.numpy.vdot")
_MAPS = ("jax.tree.map", "jax.tree_util.tree_map")
_DEPTH = 6
_SAME = ("functools.partial", "jax.checkpoint")


def inner_function(function: Jitted) -> Function | None:
    """The definition behind a jitted function, through partials."""
    inner = unwrap_function(function.inner)
    return inner if isinstance(inner, Function) else None


def unwrap_function(value: Value) -> Value:
    """A function without the partials and checkpoints around it."""
    while isinstance(value, Transformed) and value.api.name in _SAME:
        value = value.inner
    return value


def reason_no_output_fits(site: Site, function: Jitted, name: str) -> str | None:
    """Why no result can take an argument's buffer; None where one may."""
    inner = inner_function(function)
    if inner is None or name in ("self", "cls"):
        return None
    file, node = inner.place.file, inner.node
    results = returned_expressions(file, node)
    if not results:
        return None
    update = site.program.find_room(Lifetimes).donations.updates.find_update(inner, name)
    if update is not None and not update.used:
        if function.api == PMAP:
            return None
        if function.setting_expression("keep_unused") is not None or function.settings.open_keywords:
            return None  # it is handed over all the same, and an output may take it
        return "the function does not use it"
    if all(_has_other_shape(site, file, name, result, 0) for result in results):
        return "no result has the shape and dtype of this argument"
    if is_only_called(site.program.evaluator, inner, name):
        return "a model takes it, and the function returns only results of the model"
    return None


def _has_other_shape(site: Site, file: FileFacts, name: str, node: ast.expr, depth: int) -> bool:
    """Return whether a result surely has another shape or type than the parameter."""

    def changes_shape(part: ast.expr) -> bool:
        return _has_other_shape(site, file, name, part, depth + 1)

    match node:
        case ast.Constant() | ast.Compare():
            return True
        case ast.Tuple() | ast.List():
            return bool(node.elts) and all(changes_shape(element) for element in node.elts)
        case ast.Dict():
            return bool(node.values) and all(changes_shape(element) for element in node.values)
        case ast.UnaryOp():
            return changes_shape(node.operand)
        case ast.IfExp():
            return changes_shape(node.body) and changes_shape(node.orelse)
        case ast.Subscript():
            return is_sliced_elementwise(node, name)
        case ast.BinOp():
            return is_sliced_elementwise(node, name) or (
                changes_shape(node.left) and changes_shape(node.right)
            )
        case ast.Call():
            return _reduces_rank(site, file, name, node) or _reduces_leaves(site, file, node, depth)
        case ast.Name() if depth < _DEPTH:
            bindings, _ = lookup_bindings(file, node, node.id)
            only = bindings[0] if len(bindings) == 1 and bindings[0].kind == "assign" else None
            value = only.value if only is not None else None
            # A list or dict may be filled later.
            return value is not None and not isinstance(value, ast.List | ast.Dict) and changes_shape(value)
    return False


def is_sliced_elementwise(node: ast.expr, name: str) -> bool:
    """Return whether a part of the parameter is used in it elementwise."""
    match node:
        case ast.Subscript():
            return _is_name(node.value, name) and _drops_elements(node.slice)
        case ast.BinOp():
            return is_sliced_elementwise(node.left, name) or is_sliced_elementwise(node.right, name)
        case ast.UnaryOp():
            return is_sliced_elementwise(node.operand, name)
    return False


def _is_name(node: ast.expr, name: str) -> bool:
    return isinstance(node, ast.Name) and node.id == name


def _drops_elements(index: ast.expr) -> bool:
    """Return whether an index or slice surely leaves out some elements."""
    if isinstance(index, ast.Tuple):
        return any(_drops_elements(element) for element in index.elts)
    if isinstance(index, ast.Slice):
        start = index.lower is not None and not (
            isinstance(index.lower, ast.Constant) and index.lower.value == 0
        )
        return start or (isinstance(index.upper, ast.UnaryOp) and isinstance(index.upper.op, ast.USub))
    return isinstance(index, ast.Constant) and isinstance(index.value, int)


def _reduces_leaves(site: Site, file: FileFacts, call: ast.Call, depth: int) -> bool:
    """Return whether a call is a `tree.map` that makes a scalar of each leaf."""
    found = options(site.program.evaluator.value(Place(file, call.func)))
    if not call.args or not all(isinstance(one, Api) and one.name in _MAPS for one in found):
        return False
    function = call.args[0]
    if not isinstance(function, ast.Lambda) or not function.args.args:
        return False
    return _has_other_shape(site, file, function.args.args[0].arg, function.body, depth + 1)


def _reduces_rank(site: Site, file: FileFacts, name: str, call: ast.Call) -> bool:
    """Return whether a call gives a scalar, or the parameter with fewer dimensions."""
    func = call.func
    if not isinstance(func, ast.Attribute) or any(one.arg == "keepdims" for one in call.keywords):
        return False
    found = options(site.program.evaluator.value(Place(file, func)))
    if all(isinstance(option, Api) and option.name in _SCALARS for option in found):
        return not call.keywords and (len(call.args) == 1 or func.attr == "vdot")
    if all(isinstance(option, Api) and option.name.startswith("jax.numpy.") for option in found):
        if func.attr not in _REDUCING:
            return False
        if len(call.args) == 1 and not call.keywords:
            return True
        return bool(call.args) and _is_name(call.args[0], name)
    if any(isinstance(option, Api) for option in found) or func.attr not in _REDUCING:
        return False
    return (not call.args and not call.keywords) or _is_name(func.value, name)
