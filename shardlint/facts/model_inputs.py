"""Does a function only run a model on its argument, so that no result is made of it, array for array?

What a model computes from its weights is no weight, nor is a sum: where an argument only goes into such calls, no
result is like it. Told by following names through the body; whatever is not known may be made of it.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from shardlint.model.api import JIT_WRAPPERS
from shardlint.model.evaluator.evaluate import Evaluator
from shardlint.model.signatures import Definition, parameters_of
from shardlint.model.values import Api, Constant, Function, Place, Transformed, options
from shardlint.source.lazy import dataclass
from shardlint.syntax import FileFacts
from shardlint.syntax.nodes import child_nodes, walk_nodes

__all__ = ["is_only_called"]

_DEPTH = 4
# Methods that run a model on the weights that are their first argument.
_RUN = ("apply", "apply_fn", "apply_fun")
# What is asked of an array and is none itself.
_ASKED = frozenset("shape dtype ndim size sharding nbytes itemsize".split())
_ASKING = frozenset(
    """
builtins.len builtins.isinstance builtins.hasattr builtins.type builtins.print jax.numpy.shape jax.eval_shape
""".split()
)
_SCALAR = frozenset("sum mean min max prod any all argmax argmin std var item".split())
_SAME = frozenset((*JIT_WRAPPERS, "functools.partial", "jax.checkpoint"))


def is_only_called(evaluator: Evaluator, function: Function, parameter: str) -> bool:
    """Return whether an argument is used only as a model's weights, and no result holds anything of its shape made of
    it.
    """
    body = _Body(evaluator, function.place.file, function.node, parameter, 0, _SharedResults({}, {}))
    return not body.follow_returns() and body.ran


@dataclass(frozen=True)
class _SharedResults:
    """Memoized results shared by the function bodies that one question visits."""

    calls: dict[ast.AST, list[ast.Call | ast.NamedExpr]]
    """What is called and named in an expression."""
    parameters: dict[tuple[ast.AST, str, int], tuple[bool, bool]]
    """Of a function's parameter, met at a depth: whether it is returned, and whether it is run as a model."""


class _Body:
    def __init__(
        self,
        evaluator: Evaluator,
        file: FileFacts,
        node: Definition,
        parameter: str,
        depth: int,
        shared_results: _SharedResults,
    ) -> None:
        self.evaluator = evaluator
        self.known = shared_results
        self.file = file
        self.node = node
        self.depth = depth
        self.ran = False
        """Whether it was met as the weights of a model."""
        self.names = {parameter}
        """Names of what may be made of it."""
        self.objects = {parameter}
        """Names of the argument itself, or of a part of it."""

    def follow_returns(self) -> bool:
        if isinstance(self.node, ast.Lambda):
            return self.is_made_of_argument(self.node.body)
        before = 0
        while len(self.names) > before:  # a loop may carry a name back
            before = len(self.names)
            self._follow_names(self.node.body)
        scope = self.file.walk_scope(self.file.scope(self.node))
        return any(one.value is not None and self.is_made_of_argument(one.value) for one in scope.returns)

    def _follow_names(self, statements: list[ast.stmt]) -> None:
        for statement in statements:
            for target, value in _assigned_pairs(statement):
                if self.is_made_of_argument(value):
                    self.names |= _root_names(target)
                    if isinstance(target, ast.Name) and self._is_tracked_object(value):
                        self.objects.add(target.id)
            for part in _statement_expressions(statement):
                self._called_with_it(part)
            if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                if self._mentions_tracked_name(statement):
                    self.names.add(statement.name)
                continue
            for field in ("body", "orelse", "finalbody"):
                self._follow_names(getattr(statement, field, []))
            for handler in (*getattr(statement, "handlers", ()), *getattr(statement, "cases", ())):
                self._follow_names(handler.body)

    def _called_with_it(self, expression: ast.expr) -> None:
        """`results.append(x)` puts it into `results`; `(y := x)` names it."""
        calls = self.known.calls
        if expression not in calls:
            parts = walk_nodes(expression)
            calls[expression] = [one for one in parts if isinstance(one, ast.Call | ast.NamedExpr)]
        for part in calls[expression]:
            if isinstance(part, ast.NamedExpr):
                if self.is_made_of_argument(part.value):
                    self.names.add(part.target.id)
            elif isinstance(part.func, ast.Attribute):
                if part.func.attr not in _RUN and any(map(self.is_made_of_argument, _all_arguments(part))):
                    self.names |= _root_names(part.func.value) & _local_names(self.file, self.node)

    def _mentions_tracked_name(self, node: ast.AST) -> bool:
        return any(isinstance(part, ast.Name) and part.id in self.names for part in walk_nodes(node))

    def is_made_of_argument(self, node: ast.AST) -> bool:
        """Return whether an expression may hold arrays made of the argument."""
        match node:
            case ast.Name():
                return node.id in self.names
            case ast.Attribute():
                return node.attr not in _ASKED and self.is_made_of_argument(node.value)
            case ast.Subscript():
                return self.is_made_of_argument(node.value)
            case ast.Compare() | ast.Constant():
                return False
            case ast.Lambda() | ast.ListComp() | ast.SetComp() | ast.DictComp() | ast.GeneratorExp():
                return self._mentions_tracked_name(node)
            case ast.Call():
                return self._call_returns_it(node)
        return any(self.is_made_of_argument(part) for part in child_nodes(node))

    def _call_returns_it(self, call: ast.Call) -> bool:
        func = call.func
        given = [part for part in _all_arguments(call) if self.is_made_of_argument(part)]
        inner, name = self._called_function(func), self._api_name(func)
        if inner is None and self._runs_a_model(call):
            self.ran = self.ran or call.args[0] in given
            return any(part is not call.args[0] for part in given)
        if not given:
            if self._calls_parameter(func):
                self.ran = True
                return False
            return not (_is_scalar(call) and not name) and self.is_made_of_argument(func)
        if name in _ASKING or (
            name.startswith("jax.numpy.") and name[10:] in _SCALAR and _has_one_argument(call)
        ):
            return False
        if inner is not None:
            bound = parameters_of(inner, self.evaluator)
            found = (
                bound.bind_arguments(self.evaluator.read_arguments(Place(self.file, call)))
                if bound is not None
                else None
            )
            if found is not None and len(found) == len(_all_arguments(call)):
                return any(
                    self._function_returns_it(inner, parameter)
                    for parameter, place in found.items()
                    if place.node in given
                )
        return True

    def _function_returns_it(self, inner: Function, parameter: str) -> bool:
        """Return whether a function of the project returns values that may be made of a parameter."""
        if self.depth >= _DEPTH:
            return True
        depth, known = self.depth + 1, self.known.parameters
        key = inner.node, parameter, depth
        if key not in known:  # loops ask again, and each call on the way multiplies
            body = _Body(self.evaluator, inner.place.file, inner.node, parameter, depth, self.known)
            known[key] = body.follow_returns(), body.ran
        returned, ran = known[key]
        self.ran = self.ran or ran
        return returned

    def _is_tracked_object(self, node: ast.expr) -> bool:
        while isinstance(node, ast.Attribute | ast.Subscript):
            node = node.value
        return isinstance(node, ast.Name) and node.id in self.objects

    def _calls_parameter(self, func: ast.expr) -> bool:
        """Return whether the argument itself is called, as a model is: `model(x)`, `jax.vmap(model)(x)`."""
        if isinstance(func, ast.Call) and self._api_name(func.func) == "jax.vmap" and len(func.args) == 1:
            func = func.args[0]
        return isinstance(func, ast.Name) and func.id in self.objects

    def _runs_a_model(self, call: ast.Call) -> bool:
        """`model.apply({"params": params}, x)`: the weights go in, and no variables come back."""
        func = call.func
        return (
            isinstance(func, ast.Attribute)
            and func.attr in _RUN
            and len(call.args) > 0
            and not self._returns_variables(call)
        )

    def _returns_variables(self, call: ast.Call) -> bool:
        """Return whether `apply` returns variables too."""
        given = next((one.value for one in call.keywords if one.arg == "mutable"), None)
        stars = any(one.arg is None for one in call.keywords)
        return stars or (
            given is not None and self.evaluator.value(Place(self.file, given)) != Constant(False)
        )

    def _api_name(self, node: ast.expr) -> str:
        value = self.evaluator.value(Place(self.file, node))
        return value.name if isinstance(value, Api) else ""

    def _called_function(self, node: ast.expr) -> Function | None:
        found = options(self.evaluator.value(Place(self.file, node)))
        value = found[0] if len(found) == 1 else None
        while (
            isinstance(value, Transformed) and value.api.name in _SAME and value.api.name != "functools.partial"
        ):
            value = value.inner
        return value if isinstance(value, Function) else None


def _all_arguments(call: ast.Call) -> list[ast.expr]:
    return [*call.args, *(keyword.value for keyword in call.keywords)]


def _is_scalar(call: ast.Call) -> bool:
    """`x.sum()`."""
    func = call.func
    return isinstance(func, ast.Attribute) and func.attr in _SCALAR and not _all_arguments(call)


def _has_one_argument(call: ast.Call) -> bool:
    return len(call.args) == 1 and not call.keywords


def _assigned_pairs(statement: ast.stmt) -> Iterator[tuple[ast.expr, ast.expr]]:
    match statement:
        case ast.Assign():
            yield from ((target, statement.value) for target in statement.targets)
        case ast.AnnAssign() if statement.value is not None:
            yield statement.target, statement.value
        case ast.AugAssign():
            yield statement.target, statement.value
        case ast.For() | ast.AsyncFor():
            yield statement.target, statement.iter
        case ast.With() | ast.AsyncWith():
            for item in statement.items:
                if item.optional_vars is not None:
                    yield item.optional_vars, item.context_expr


def _statement_expressions(statement: ast.stmt) -> list[ast.expr]:
    return [part for part in child_nodes(statement) if isinstance(part, ast.expr)]


def _root_names(node: ast.expr) -> set[str]:
    """The names that an assignment to a target changes, or what they hold."""
    match node:
        case ast.Name():
            return {node.id}
        case ast.Tuple() | ast.List():
            return {name for element in node.elts for name in _root_names(element)}
        case ast.Starred() | ast.Attribute() | ast.Subscript():
            return _root_names(node.value)
    return set()


def _local_names(file: FileFacts, node: Definition) -> set[str]:
    return set(file.bind_scope(file.scope(node)).bindings)
