"""SL231."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from typing import ClassVar

from shardlint.model.signatures import Parameters, of_definition
from shardlint.model.values import (
    Api,
    CallArguments,
    ClassValue,
    Function,
    Place,
    Transformed,
    Value,
    options,
)
from shardlint.rules_api.rule import Certainty, Finding, Harm, Rule, Takes
from shardlint.rules_api.site import Site
from shardlint.syntax import FileFacts, Scope, last_name
from shardlint.syntax.nodes import defaults, walk
from shardlint_rules.jit._unplaced import (
    class_with_unread_attribute,
    created_arrays,
    gets_mesh_from_callers,
    returned_conversion,
    unplaced_puts,
)

_SHARDINGS = (
    "sharding",
    "shardings",
    "out_shardings",
    "param_shardings",
    "params_shardings",
    "state_shardings",
)
_OF_BATCHES = ("batch_sharding", "data_sharding", "input_sharding")
_SPECS = ("mesh", "specs", "pspec", "pspecs", "partition_spec", "partition_specs")
_RULES = ("rules", "axis_rules", "logical_axis_rules", "partition_rules", "axis_mapping")
# These return numpy arrays.
_HOST_LOADERS = (
    "flax.serialization.from_bytes",
    "flax.serialization.msgpack_restore",
    "numpy.load",
    "pickle.load",
    "pickle.loads",
)


class ShardingNotUsed(Rule):
    """A function takes a mesh, shardings or rules and never reads them.

    The arrays stay on the default device or replicated, and nothing raises. The caller expects placed arrays.

    ## Reports
    - proven: a function that never reads its `mesh`, `shardings`, `specs`, `rules` or a similar parameter. It calls a
      function with an optional parameter of the same name, and does not pass that parameter.
    - proven: a function that never reads its `sharding` and returns the result of `numpy.load`, `pickle.load` or
      `flax.serialization`.
    - `unplaced` (likely): a function or class that never reads its `sharding`, and calls `jax.device_put(x)` without
      a sharding or returns `jnp.asarray(x)`.
    - `created` (likely): a function that never reads its `mesh`, though a caller passes one, and returns
      `jnp.zeros(shape)` or a similar new array.

    ## Write instead
    Pass the parameter to the called function, or place the arrays with it.

    ## Limits
    Not reported: functions without a body, overrides of a method of a base class, functions that are passed as values,
    functions with `del sharding`, and functions that read `locals()`.
    """

    code = "SL231"
    name = "sharding-not-used"
    harm = Harm.SILENT
    likely = ("unplaced", "created")
    assumptions: ClassVar[Mapping[str, str]] = {
        "unplaced": "You want to place these arrays with the sharding parameter.",
        "created": "No caller places the returned arrays.",
    }
    triggers = (Takes(*_SHARDINGS, *_OF_BATCHES, *_SPECS, *_RULES),)
    fixes = "none"

    def check(self, site: Site) -> Iterator[Finding]:
        """At most one finding for a parameter."""
        parameter = site.syntax
        scope = _function_of(site.file, parameter)
        if not isinstance(parameter, ast.arg) or scope is None:
            return
        node, name = scope.node, parameter.arg
        assert isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        unread = not _reads(node, name)
        if unread:
            for call in site.file.walked(scope).calls:
                callee = _takes(site, call, name)
                if callee is not None:
                    function, argument = scope.name, name
                    yield site.finding(
                        call,
                        f"`{function}` ignores its `{argument}`: `{last_name(call.func)}` runs without it.",
                        why=f"`{callee}` takes `{argument}` too, with None as its default",
                        help=f"pass `{argument}={argument}` to `{callee}`",
                    )
                    return
        overrides = _signature_is_fixed(site, scope)
        if unread and not overrides and name in _SHARDINGS:
            load = next((one for one in site.file.walked(scope).calls if _returns_loaded(site, one)), None)
            if load is not None:
                yield self._ignored(site, load, node.name, name, Certainty.PROVEN, "")
                return
        if site.program.project.is_test(site.file.path):
            return
        if name == "mesh" and unread and not overrides:
            created = next(created_arrays(site, node), None)
            if created is not None and gets_mesh_from_callers(site, node, name):
                yield self._ignored(site, created, node.name, name, Certainty.POSSIBLE, "created")
        elif name in (*_SHARDINGS, *_OF_BATCHES):
            owner = class_with_unread_attribute(site, node, name)
            if owner is not None or (unread and not overrides):
                put = next(unplaced_puts(site, owner or node), None)
                if put is None and owner is None and name in _SHARDINGS:
                    put = returned_conversion(site, node)
                if put is not None:
                    yield self._ignored(site, put, (owner or node).name, name, Certainty.POSSIBLE, "unplaced")

    def _ignored(
        self, site: Site, array: ast.Call, owner: str, name: str, certainty: Certainty, form: str
    ) -> Finding:
        sharding = f"NamedSharding({name}, ...)" if name == "mesh" else name
        return site.finding(
            array,
            f"`{owner}` ignores its `{name}`: this array stays on the default device.",
            why=f"nothing reads `{name}`",
            help=f"place the array: `jax.device_put(..., {sharding})`",
            certainty=certainty,
            form=form,
        )


def _function_of(file: FileFacts, parameter: ast.AST) -> Scope | None:
    """The function that takes a parameter, if its body does something."""
    arguments = file.parent(parameter)
    node = file.parent(arguments) if isinstance(arguments, ast.arguments) else arguments
    if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        return None
    body = [
        one for one in node.body if not (isinstance(one, ast.Expr) and isinstance(one.value, ast.Constant))
    ]
    return file.scope(node) if any(not isinstance(one, ast.Pass | ast.Raise) for one in body) else None


def _reads(node: ast.FunctionDef | ast.AsyncFunctionDef, name: str) -> bool:
    """True if a function mentions its parameter, or may read all its locals."""
    words = walk(ast.Module(node.body, []))
    return any(isinstance(one, ast.Name) and one.id in (name, "locals", "vars", "eval") for one in words)


def _takes(site: Site, call: ast.Call, name: str) -> str | None:
    """The name of the called function if it takes this parameter, with None as default, and does not get it."""
    arguments = site.program.evaluator.arguments(Place(site.file, call))
    if arguments.open_positional or arguments.open_keywords or name in arguments.keywords:
        return None
    values = options(site.value(call.func))
    if len(values) != 1:
        return None
    definition = _definition(site, values[0])
    if definition is None:
        return None
    parameters, node = definition
    if not parameters.fits(arguments) or _passes(parameters, arguments, name):
        return None
    return node.name if isinstance(_default(node, name), ast.Constant) else None


def _definition(site: Site, value: Value) -> tuple[Parameters, ast.FunctionDef] | None:
    """The parameters of a function or method of the project, or of the `__init__` of a class."""
    while isinstance(value, Transformed) and value.api.name != "functools.partial":
        value = value.inner
    if isinstance(value, ClassValue):
        init = site.program.evaluator.classes.objects.init(value)
        if init is None:
            return None
        value = Function(init.place, True, value)
    if not isinstance(value, Function) or not isinstance(value.node, ast.FunctionDef):
        return None
    parameters = of_definition(value.node)
    return (parameters.without_first() if value.bound else parameters), value.node


def _passes(parameters: Parameters, arguments: CallArguments, name: str) -> bool:
    if name in parameters.positional:
        return parameters.positional.index(name) < len(arguments.positional)
    return name not in parameters.keyword_only


def _default(node: ast.FunctionDef, name: str) -> ast.expr | None:
    """The default of a parameter, if it is None."""
    expression = next((default for one, default in defaults(node.args) if one.arg == name), None)
    return expression if isinstance(expression, ast.Constant) and expression.value is None else None


def _signature_is_fixed(site: Site, scope: Scope) -> bool:
    """True if others decide what a function takes: one passed as a value, or a method of a class with bases."""
    if scope.parent is not None and scope.parent.kind == "class":
        bases = getattr(scope.parent.node, "bases", [])
        if any(site.text(base) not in ("object", "nn.Module", "nnx.Module", "eqx.Module") for base in bases):
            return True
    node = scope.node
    assert isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    if any("overload" in site.text(one) or "abstract" in site.text(one) for one in node.decorator_list):
        return True
    if any(isinstance(site.file.parent(one), ast.Dict | ast.List | ast.Tuple) for one in site.file.mentions(node.name)):
        return True  # what is called by its key takes what the others take
    return any(
        end.kind == "escaped" and node not in end.place.file.ancestors(end.place.node)
        for end in site.program.flow.ends(site.file, node).found
    )


def _returns_loaded(site: Site, call: ast.Call) -> bool:
    """True for a call that loads numpy arrays which the function returns."""
    values = options(site.value(call.func))
    return all(isinstance(one, Api) and one.name in _HOST_LOADERS for one in values) and _is_returned(
        site, call
    )


def _is_returned(site: Site, call: ast.Call) -> bool:
    """True if the function returns the result of a call, itself or by its name."""
    node: ast.AST | None = call
    while node is not None and not isinstance(node, ast.stmt):
        node = site.file.parent(node)
    if isinstance(node, ast.Return):
        return True
    if not isinstance(node, ast.Assign) or not isinstance(node.targets[0], ast.Name):
        return False
    name, scope = node.targets[0].id, site.file.home(call).function()
    returns = site.file.walked(scope).returns if scope is not None else []
    return any(
        isinstance(one, ast.Name) and one.id == name
        for statement in returns
        if statement.value is not None
        for one in walk(statement.value)
    )
