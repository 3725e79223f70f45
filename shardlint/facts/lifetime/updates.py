"""Does a function return an update of its argument: an array (or tree of arrays) of the same shape and type?

XLA takes a donated buffer only for such an output. A walk over the body in order, for what the text shows plainly:
`params - rate * grads`, `optax.apply_updates(params, updates)`, `state.replace(...)`, `jax.tree.map(f, params, grads)`.
"""

from __future__ import annotations

import ast

from shardlint.model.api import JIT_WRAPPERS
from shardlint.model.evaluator.evaluate import Evaluator
from shardlint.model.needs import Memo
from shardlint.model.signatures import Definition
from shardlint.model.values import Api, CallResult, Function, Place, Transformed, Value, options
from shardlint.source.lazy import dataclass
from shardlint.syntax import FileFacts, last_name
from shardlint.syntax.nodes import walk_nodes

_DEPTH = 3
# The first argument comes back with its shape and type.
_FIRST = frozenset(
    """
optax.tree.add_scale optax.tree.add optax.tree.sub optax.tree_utils.tree_add_scale optax.tree_utils.tree_add
optax.tree_utils.tree_sub optax.tree_utils.tree_add_scalar_mul
optax.apply_updates equinox.apply_updates dataclasses.replace jax.lax.with_sharding_constraint equinox.filter_shard
jax.lax.optimization_barrier jax.lax.stop_gradient equinox.combine jax.numpy.copy optax.incremental_update
jax.numpy.sin jax.numpy.cos jax.numpy.tanh jax.numpy.exp jax.numpy.log jax.numpy.sqrt jax.numpy.square jax.numpy.abs
jax.numpy.negative jax.numpy.clip jax.numpy.roll jax.numpy.flip jax.numpy.sign jax.nn.relu jax.nn.gelu jax.nn.silu
jax.nn.sigmoid jax.nn.softmax jax.lax.dynamic_update_slice jax.lax.dynamic_update_index_in_dim
jax.lax.dynamic_update_slice_in_dim jax.numpy.zeros_like jax.numpy.ones_like
""".split()
)
# The second one does.
_SECOND = frozenset(("jax.tree.map", "jax.tree.map_with_path", "equinox.tree_at"))
_CONSTRAINTS = ("with_sharding_constraint", "with_logical_constraint")
_METHODS = frozenset(("apply_gradients", "replace", "_replace", "copy", "update_state"))
_AT = frozenset(
    ("set", "add", "multiply", "divide", "power", "min", "max", "apply", "mul", "sub", "subtract")
)
_GRADS = ("jax.grad", "equinox.filter_grad")
_VALUE_AND_GRADS = ("jax.value_and_grad", "equinox.filter_value_and_grad")


@dataclass(frozen=True)
class Update:
    """Updated parts of an argument that a function returns: the whole, or some attributes or items."""

    whole: bool
    parts: tuple[str, ...]
    array: bool
    used: bool


# What a name stands for in a body: parts of the argument that it has the shape of. () is all of it.
Parts = frozenset[tuple[str, ...]]
_NONE: Parts = frozenset()


class Updates:
    """Answers for the parameters of functions; remembered."""

    def __init__(self, evaluator: Evaluator) -> None:
        self.evaluator = evaluator
        self._known: Memo[tuple[ast.AST, str], Update | None] = Memo(evaluator.project.needs)

    def find_update(self, function: Value, parameter: str | None, depth: int = 0) -> Update | None:
        """Return the updated parts of a parameter that a function returns; None if its body is not known."""
        while isinstance(function, Transformed) and function.api.name in ("functools.partial", "jax.checkpoint"):
            function = function.inner
        if not isinstance(function, Function) or parameter is None or depth > _DEPTH:
            return None
        key = (function.node, parameter)
        if key not in self._known:
            self._known.begin_answer(key, None)  # a function inside its own answer tells nothing
            body = _Body(self, function.place.file, function.node, parameter, depth)
            self._known.make_answer(key, body.find_returned_update)
        return self._known[key]


class _Body:
    def __init__(
        self, updates: Updates, file: FileFacts, node: Definition, parameter: str, depth: int
    ) -> None:
        self.updates = updates
        self.file = file
        self.node = node
        self.parameter = parameter
        self.depth = depth
        self.names: dict[str, Parts] = {parameter: frozenset([()])}
        self.returned: list[Parts] = []
        self.array = False
        self.lambdas: dict[str, Parts] = {}

    def find_returned_update(self) -> Update:
        file, node = self.file, self.node
        scope = file.walk_scope(file.scope(node))
        used = any(
            isinstance(mention, ast.Name) and isinstance(mention.ctx, ast.Load)
            for inner in file.inner_scopes(scope)
            for mention in inner.named.get(self.parameter, ())
        )
        if isinstance(node, ast.Lambda):
            self.returned.append(self._parts_of_result(node.body))
        else:
            self._walk_block(node.body)
        if not self.returned:
            return Update(False, (), self.array, used)
        common = frozenset.intersection(*self.returned)
        parts = {path[0] for path in common if path}
        return Update(() in common, tuple(sorted(parts)), self.array, used)

    def _walk_block(self, statements: list[ast.stmt]) -> None:
        for statement in statements:
            match statement:
                case ast.Assign():
                    for target in statement.targets:
                        self._bind_target(target, statement.value)
                case ast.AnnAssign() if statement.value is not None:
                    self._bind_target(statement.target, statement.value)
                case ast.AugAssign():
                    self._parts_of_expression(statement.target)
                case ast.Return():
                    value = statement.value
                    if not (isinstance(value, ast.Constant) and value.value is None):
                        self.returned.append(self._parts_of_result(value) if value is not None else _NONE)
                case ast.If():
                    before = dict(self.names)
                    self._walk_block(statement.body)
                    after, self.names = self.names, before
                    self._walk_block(statement.orelse)
                    for name in {*after, *self.names}:
                        self.names[name] = after.get(name, _NONE) & self.names.get(name, _NONE)
                case ast.For() | ast.While() | ast.With() | ast.Try():
                    self._walk_block(statement.body)

    def _bind_target(self, target: ast.expr, value: ast.expr) -> None:
        if isinstance(target, ast.Name):
            self.names[target.id] = self._parts_of_expression(value)
        elif isinstance(target, ast.Tuple | ast.List):
            if isinstance(value, ast.Tuple | ast.List) and len(value.elts) == len(target.elts):
                found = [self._parts_of_expression(element) for element in value.elts]
            else:
                found = [self._parts_of_element(value, index) for index in range(len(target.elts))]
            for element, parts in zip(target.elts, found, strict=True):
                if isinstance(element, ast.Name):
                    self.names[element.id] = parts
                elif isinstance(element, ast.Tuple | ast.List):
                    for name in walk_nodes(element):
                        if isinstance(name, ast.Name):
                            self.names[name.id] = _NONE

    def _parts_of_element(self, value: ast.expr, index: int) -> Parts:
        """Return the parts in one element of an unpacked value."""
        if isinstance(value, ast.Name | ast.Attribute | ast.Subscript):
            return frozenset((*path, f"[{index}]") for path in self._parts_of_expression(value))
        if isinstance(value, ast.Call):
            name = self._api_name(value.func)
            several = self._shape_preserved_argument(name, value)
            if isinstance(several, ast.Tuple | ast.List):  # (params, state) = constrain((params, state), sharding)
                return self._parts_of_expression(several.elts[index]) if index < len(several.elts) else _NONE
            if name == "jax.lax.scan" and index == 0 and len(value.args) > 1:
                return self._parts_of_expression(value.args[1])
            if isinstance(value.func, ast.Attribute) and value.func.attr == "update" and index == 1:
                # updates, opt_state = tx.update(grads, opt_state, params)
                return self._parts_of_expression(value.args[1]) if len(value.args) > 1 else _NONE
            for option in options(self.updates.evaluator.value(Place(self.file, value.func))):
                if isinstance(option, Transformed) and option.api.name in _VALUE_AND_GRADS and index == 1:
                    return self._parts_of_gradient(option, value)
        return _NONE

    def _parts_of_gradient(self, gradient: Transformed, call: ast.Call) -> Parts:
        """Gradients have the shape of the argument that is differentiated."""
        if gradient.call is None or "argnums" in gradient.call.keywords or not call.args:
            return _NONE
        return self._parts_of_expression(call.args[0]) if "has_aux" not in gradient.call.keywords else _NONE

    def _parts_of_result(self, node: ast.expr) -> Parts:
        """Return the parts in a returned value, also inside displays and the objects it is packed into."""
        if isinstance(node, ast.Tuple | ast.List):
            return frozenset(part for element in node.elts for part in self._parts_of_result(element))
        if isinstance(node, ast.Dict):
            return frozenset(part for element in node.values for part in self._parts_of_result(element))
        if isinstance(node, ast.IfExp):
            return self._parts_of_result(node.body) & self._parts_of_result(node.orelse)
        if isinstance(node, ast.BinOp) and any(isinstance(one, ast.Tuple) for one in (node.left, node.right)):
            return self._parts_of_result(node.left) | self._parts_of_result(
                node.right
            )  # (params, state) + (loss,)
        if isinstance(node, ast.Call):
            several = self._shape_preserved_argument(self._api_name(node.func), node)
            if isinstance(several, ast.Tuple | ast.List | ast.Dict):
                return self._parts_of_result(several)
        return self._parts_of_expression(node)

    def _shape_preserved_argument(self, name: str, call: ast.Call) -> ast.expr | None:
        """The argument whose shapes and types a call gives back."""
        at = 0 if name in _FIRST else 1 if name in _SECOND else None
        return call.args[at] if at is not None and len(call.args) > at else None

    def _parts_of_expression(self, node: ast.expr) -> Parts:
        match node:
            case ast.Name():
                return self.names.get(node.id, _NONE)
            case ast.Attribute():
                return frozenset((*path, node.attr) for path in self._parts_of_expression(node.value))
            case ast.Subscript(slice=ast.Constant(value=str() | int() as key)):
                return frozenset((*path, f"[{key}]") for path in self._parts_of_expression(node.value))
            case ast.BinOp():
                return self._parts_of_operation(node)
            case ast.UnaryOp(op=ast.USub()):
                return self._parts_of_expression(node.operand)
            case ast.IfExp():
                return self._parts_of_expression(node.body) & self._parts_of_expression(node.orelse)
            case ast.NamedExpr():
                parts = self._parts_of_expression(node.value)
                self.names[node.target.id] = parts
                return parts
            case ast.Call():
                return self._parts_of_call(node)
        return _NONE

    def _parts_of_operation(self, node: ast.BinOp) -> Parts:
        left, right = self._parts_of_expression(node.left), self._parts_of_expression(node.right)
        if isinstance(node.op, ast.MatMult) or not isinstance(
            node.op, ast.Add | ast.Sub | ast.Mult | ast.Div | ast.Pow
        ):
            return _NONE
        if () in left or () in right:
            self.array = True
        if left and right:
            return left & right or left
        # What is added to it, or scales it, has its shape or a smaller one.
        if left:
            return left
        return right if isinstance(node.left, ast.Constant) else _NONE

    def _parts_of_call(self, call: ast.Call) -> Parts:
        func = call.func
        if isinstance(func, ast.Attribute) and func.attr in _AT and isinstance(func.value, ast.Subscript):
            at = func.value.value
            if isinstance(at, ast.Attribute) and at.attr == "at":
                found = self._parts_of_expression(at.value)
                self.array = self.array or () in found
                return found
        name = self._api_name(func)
        if name in _FIRST and call.args:
            found = self._parts_of_expression(call.args[0])
            if name.startswith(("jax.numpy.", "jax.nn.")) and () in found:
                self.array = True
            return found
        if name in _SECOND and len(call.args) > 1:
            return self._parts_of_expression(call.args[1])
        if name == "jax.lax.fori_loop" and len(call.args) > 3:
            return self._parts_of_expression(call.args[3])
        if name == "jax.lax.while_loop" and len(call.args) > 2:
            return self._parts_of_expression(call.args[2])
        if isinstance(func, ast.Attribute) and func.attr in _METHODS and not name:
            return self._parts_of_expression(func.value)
        found = self._parts_through_function(call)
        if not found and not name and call.args and last_name(func) in _CONSTRAINTS:
            return self._parts_of_expression(call.args[0])  # the project's own, around jax's
        return found

    def _parts_through_function(self, call: ast.Call) -> Parts:
        """Return the parts that a function of the project, or a gradient, returns."""
        found: Parts | None = None
        for option in options(self.updates.evaluator.value(Place(self.file, call.func))):
            parts = _NONE
            if isinstance(option, Transformed) and option.api.name in _GRADS:
                parts = self._parts_of_gradient(option, call)
            elif isinstance(option, Transformed | Function):
                parts = self._parts_by_callee(option, call)
            found = parts if found is None else found & parts
        return found or _NONE

    def _parts_by_callee(self, value: Value, call: ast.Call) -> Parts:
        from shardlint.model.signatures import parameters_of

        evaluator = self.updates.evaluator
        parameters = parameters_of(value, evaluator)
        while isinstance(value, Transformed) and value.api.name in (*JIT_WRAPPERS, "jax.checkpoint"):
            value = value.inner
        if parameters is None or not isinstance(value, Function):
            return _NONE
        given = parameters.bind_arguments(evaluator.read_arguments(Place(self.file, call)))
        if given is None or not _returns_single_result(value):
            return _NONE
        found: set[tuple[str, ...]] = set()
        for name, place in given.items():
            assert isinstance(place.node, ast.expr)
            parts = self._parts_of_expression(place.node)
            if parts:
                update = self.updates.find_update(value, name, self.depth + 1)
                if update is not None and update.whole:
                    found |= parts
        return frozenset(found)

    def _api_name(self, node: ast.expr) -> str:
        value = self.updates.evaluator.value(Place(self.file, node))
        if isinstance(value, CallResult) and isinstance(value.by, Api):
            return ""
        return value.name if isinstance(value, Api) else ""


def _returns_single_result(function: Function) -> bool:
    """Return whether a function returns one result, and not several as a tuple."""
    node = function.node
    if isinstance(node, ast.Lambda):
        return not isinstance(node.body, ast.Tuple)
    returns = [part for part in walk_nodes(node) if isinstance(part, ast.Return)]
    return bool(returns) and not any(
        isinstance(part.value, ast.Tuple | ast.Dict | ast.List) for part in returns
    )
