"""How many arrays a function returns, counted by the parameters whose trees its results are like."""

from __future__ import annotations

import ast
from collections import Counter
from dataclasses import field

from shardlint.model.evaluator.evaluate import Evaluator
from shardlint.model.signatures import Definition
from shardlint.model.values import Api, Function, Place, Transformed, options
from shardlint.source.lazy import dataclass
from shardlint.syntax import Binding, FileFacts
from shardlint.syntax.bindings import lookup_bindings

_DEPTH = 6
# The result is a tree like the first argument, or the second.
_FIRST = frozenset(
    """
optax.apply_updates equinox.apply_updates optax.incremental_update jax.lax.with_sharding_constraint
equinox.filter_shard jax.lax.stop_gradient jax.lax.optimization_barrier
""".split()
)
# The result is one array.
_ARRAY = frozenset(
    [
        f"jax.numpy.{name}"
        for name in """
abs add arange argsort asarray array cbrt ceil clip concatenate copy cos cosh cumsum cumprod divide dot einsum exp
expand_dims eye flip floor full full_like hstack log log1p logical_and logical_not logical_or matmul maximum minimum
moveaxis multiply negative ones ones_like outer pad power repeat reshape roll round sign sin sinh sort sqrt square
squeeze stack subtract swapaxes take tan tanh tensordot tile transpose tril triu vstack where zeros zeros_like
sum mean min max prod any all argmax argmin std var
""".split()
    ]
    + [
        f"jax.lax.{name}"
        for name in """
add sub mul div max min neg exp log tanh dot dot_general dynamic_slice dynamic_slice_in_dim dynamic_index_in_dim
dynamic_update_slice dynamic_update_slice_in_dim dynamic_update_index_in_dim slice slice_in_dim reshape transpose
concatenate select gather scatter scatter_add broadcast broadcast_in_dim conv_general_dilated rsqrt
""".split()
    ]
    + [
        f"jax.nn.{name}"
        for name in "relu gelu silu swish sigmoid softmax log_softmax softplus elu one_hot".split()
    ]
)
_METHODS = frozenset(
    "astype reshape transpose ravel flatten squeeze swapaxes repeat dot clip conj sum mean min max prod any all".split()
)
_AT = frozenset("set add multiply divide power min max apply mul sub subtract get".split())


@dataclass
class Results:
    """As many arrays as these parameters' trees hold, each as often as it says, and `arrays` single ones."""

    like: Counter[str] = field(default_factory=Counter)
    arrays: int = 0

    def donations_left_over(self, donated: list[str]) -> list[str]:
        """Those of the donated parameters that can find no buffer's place, when there are more than `arrays`."""
        if any(count > 1 or name not in donated for name, count in self.like.items()):
            return []  # a tree of unknown size has room for others
        rest = [name for name in donated if name not in self.like]
        return rest if len(rest) > self.arrays else []


def count_results(evaluator: Evaluator, file: FileFacts, returned: list[ast.expr]) -> Results | None:
    """Return the number of results that a function returns on every path; None if the text does not tell."""
    counter = _Counter(evaluator, file)
    found = [counter.count_in(one) for one in returned]
    first = found[0] if found else None
    return first if all(one == first for one in found) else None


@dataclass
class _Counter:
    evaluator: Evaluator
    file: FileFacts
    depth: int = 0

    def count_in(self, node: ast.expr) -> Results | None:
        self.depth += 1
        try:
            return self._count_results(node) if self.depth < _DEPTH * 4 else None
        finally:
            self.depth -= 1

    def _count_results(self, node: ast.expr) -> Results | None:
        match node:
            case ast.Constant(value=None):
                return Results()
            case ast.Tuple() | ast.List():
                return self._sum_results(node.elts)
            case ast.Dict():
                return self._sum_results(node.values) if None not in node.keys else None
            case ast.Name():
                return self._results_of_name(node)
            case ast.IfExp():
                one, two = self.count_in(node.body), self.count_in(node.orelse)
                return one if one == two else None
            case ast.Call():
                name = self._api_name(node.func)
                if name in _FIRST and node.args:
                    return self.count_in(node.args[0])
                if name == "jax.tree.map" and len(node.args) > 1 and not node.keywords:
                    return self.count_in(node.args[1]) if self._returns_one_array(node.args[0]) else None
        return Results(arrays=1) if self._is_one_array(node) else None

    def _sum_results(self, nodes: list[ast.expr]) -> Results | None:
        total = Results()
        for node in nodes:
            one = self.count_in(node)
            if one is None:
                return None
            total.like.update(one.like)
            total.arrays += one.arrays
        return total

    def _results_of_name(self, node: ast.Name) -> Results | None:
        bindings, owner = lookup_bindings(self.file, node, node.id)
        if owner is None or owner.enclosing_function() is not self.file.evaluation_scope(node).enclosing_function():
            return None
        found = [self._results_of_binding(binding) for binding in bindings]
        return found[0] if found and all(one == found[0] for one in found) else None

    def _results_of_binding(self, binding: Binding) -> Results | None:
        if binding.kind == "param":
            return Results(Counter([binding.name]))
        # A list or dict may be filled later.
        if (
            binding.kind != "assign"
            or binding.value is None
            or isinstance(binding.value, ast.List | ast.Dict)
        ):
            return None
        return self.count_in(binding.value)

    def _returns_one_array(self, function: ast.expr) -> bool:
        """Return whether a function that `tree.map` applies to arrays gives one array."""
        for option in options(self.evaluator.value(Place(self.file, function))):
            while isinstance(option, Transformed) and option.api.name == "functools.partial":
                option = option.inner
            if isinstance(option, Api):
                if option.name not in _ARRAY:
                    return False
            elif not isinstance(option, Function) or not _returns_one(self.evaluator, option):
                return False
        return True

    def _is_one_array(self, node: ast.expr, depth: int = 0) -> bool:
        """Return whether an expression is one array, where parameters are."""
        if depth > _DEPTH:
            return False
        match node:
            case ast.Constant(value=bool() | int() | float()) | ast.Compare():
                return True
            case ast.UnaryOp():
                return self._is_one_array(node.operand, depth + 1) or isinstance(node.op, ast.Not)
            case ast.BinOp(left=left, right=right):
                return not any(isinstance(part, ast.List | ast.Tuple) for part in (left, right))
            case ast.Call(func=ast.Attribute(attr=attr, value=value)):
                if self._api_name(node.func) in _ARRAY:
                    return self._is_condition_only_where(node)
                if isinstance(value, ast.Subscript) and isinstance(value.value, ast.Attribute):
                    return value.value.attr == "at" and attr in _AT
                return attr in _METHODS and not self._api_name(node.func)
            case ast.Call():
                return self._api_name(node.func) in _ARRAY and self._is_condition_only_where(node)
        return False

    def is_single_array(self, node: ast.expr, depth: int = 0) -> bool:
        """Return whether an expression is one array, where the function's parameters are arrays themselves."""
        if isinstance(node, ast.IfExp):
            return self.is_single_array(node.body, depth) and self.is_single_array(node.orelse, depth)
        if isinstance(node, ast.Subscript):
            return self.is_single_array(node.value, depth + 1)
        if not isinstance(node, ast.Name):
            return self._is_one_array(node, depth)
        bindings, owner = lookup_bindings(self.file, node, node.id)
        if depth > _DEPTH or owner is None or owner.kind not in ("function", "lambda") or not bindings:
            return False
        return all(
            binding.kind == "param"
            or (binding.kind in ("assign", "augment") and self._is_one_array_binding(binding, node, depth))
            for binding in bindings
        )

    def _is_one_array_binding(self, binding: Binding, node: ast.Name, depth: int) -> bool:
        return binding.kind == "augment" or (
            binding.value is not None and self.is_single_array(binding.value, depth + 1)
        )

    def _is_condition_only_where(self, call: ast.Call) -> bool:
        """`jnp.where` with one argument gives a tuple."""
        return self._api_name(call.func) != "jax.numpy.where" or len(call.args) == 3

    def _api_name(self, func: ast.expr) -> str:
        value = self.evaluator.value(Place(self.file, func))
        return value.name if isinstance(value, Api) else ""


def _returns_one(evaluator: Evaluator, function: Function) -> bool:
    file, node = function.place.file, function.node
    counter = _Counter(evaluator, file)
    returned = returned_expressions(file, node)
    return bool(returned) and all(counter.is_single_array(one) for one in returned)


def returned_expressions(file: FileFacts, node: Definition) -> list[ast.expr]:
    """The expressions a function returns; none where it yields, or may end without a value."""
    if isinstance(node, ast.Lambda):
        file.walk_scope(file.scope(node))
        return [node.body]
    returns = file.walk_scope(file.scope(node)).returns
    if any(not isinstance(one, ast.Return) for one in returns):
        return []
    return [one.value for one in returns if one.value is not None]
