"""SL231."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from typing import ClassVar

from shardlint.model.signatures import Parameters, parameters_of_definition
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
from shardlint.rules_api.rule import Finding, Harm, Rule, Takes, detector
from shardlint.rules_api.site import Site
from shardlint.syntax import last_name
from shardlint.syntax.nodes import parameters_with_defaults, walk_nodes
from shardlint_rules.jit._unplaced_arrays import (
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
_Definition = ast.FunctionDef | ast.AsyncFunctionDef


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

    @detector("parameter")
    def report_call(self, site: Site) -> Finding | None:
        """A call that leaves out the parameter of the same name."""
        parameter = _parameter_name(site)
        function = _find_ignoring(site)
        for call in site.file.walk_scope(site.file.scope(function)).calls if function is not None else ():
            callee = _callee_missing_argument(site, call, parameter)
            if function is not None and callee is not None:
                owner = function.name
                return site.finding(
                    call,
                    f"`{owner}` ignores its `{parameter}`: `{last_name(call.func)}` runs without it.",
                    why=f"`{callee}` takes `{parameter}` too, with None as its default",
                    help=f"pass `{parameter}={parameter}` to `{callee}`",
                )
        return None

    @detector("parameter")
    def report_load(self, site: Site) -> Finding | None:
        """A call that loads the array which the function returns."""
        function = _find_ignoring(site) if _parameter_name(site) in _SHARDINGS else None
        if function is None or _signature_is_fixed(site, function):
            return None
        calls = site.file.walk_scope(site.file.scope(function)).calls
        load = next((one for one in calls if _returns_loaded(site, one)), None)
        return _make_finding(site, load, function.name) if load is not None else None

    @detector("parameter", finds="created")
    def report_creation(self, site: Site) -> Finding | None:
        """An array that is created in a function with a mesh."""
        function = _find_ignoring(site) if _parameter_name(site) == "mesh" else None
        if function is None or site.program.project.is_test(site.file.path) or _signature_is_fixed(site, function):
            return None
        created = next(created_arrays(site, function), None)
        if created is None or not gets_mesh_from_callers(site, function, "mesh"):
            return None
        return _make_finding(site, created, function.name)

    @detector("parameter", finds="unplaced")
    def report_placement(self, site: Site) -> Finding | None:
        """An array that is placed without the sharding."""
        name, function = _parameter_name(site), _find_function(site)
        if function is None or name not in (*_SHARDINGS, *_OF_BATCHES) or site.program.project.is_test(site.file.path):
            return None
        owner = class_with_unread_attribute(site, function, name)
        if owner is None and (_reads_parameter(function, name) or _signature_is_fixed(site, function)):
            return None
        put = next(unplaced_puts(site, owner or function), None)
        if put is None and owner is None and name in _SHARDINGS:
            put = returned_conversion(site, function)
        return _make_finding(site, put, (owner or function).name) if put is not None else None


def _make_finding(site: Site, array: ast.Call, owner: str) -> Finding:
    """The finding of an array that stays where it is."""
    parameter = _parameter_name(site)
    sharding = f"NamedSharding({parameter}, ...)" if parameter == "mesh" else parameter
    return site.finding(
        array,
        f"`{owner}` ignores its `{parameter}`: this array stays on the default device.",
        why=f"nothing reads `{parameter}`",
        help=f"place the array: `jax.device_put(..., {sharding})`; in a method, store the parameter in `self` first",
    )


def _parameter_name(site: Site) -> str:
    """The name of the parameter."""
    return getattr(site.syntax, "arg", "")


def _find_function(site: Site) -> _Definition | None:
    """The function that takes the parameter, if its body does something."""
    arguments = site.file.parent(site.syntax)
    node = site.file.parent(arguments) if isinstance(arguments, ast.arguments) else arguments
    if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        return None
    body = [one for one in node.body if not (isinstance(one, ast.Expr) and isinstance(one.value, ast.Constant))]
    return node if any(not isinstance(one, ast.Pass | ast.Raise) for one in body) else None


def _find_ignoring(site: Site) -> _Definition | None:
    """The function that takes the parameter, if it does something and does not read the parameter."""
    function = _find_function(site)
    return None if function is None or _reads_parameter(function, _parameter_name(site)) else function


def _reads_parameter(node: _Definition, name: str) -> bool:
    """True if a function mentions its parameter, or may read all its locals."""
    words = walk_nodes(ast.Module(node.body, []))
    return any(isinstance(one, ast.Name) and one.id in (name, "locals", "vars", "eval") for one in words)


def _callee_missing_argument(site: Site, call: ast.Call, name: str) -> str | None:
    """The name of the called function if it takes this parameter, with None as default, and does not get it."""
    arguments = site.program.evaluator.read_arguments(Place(site.file, call))
    if arguments.open_positional or arguments.open_keywords or name in arguments.keywords:
        return None
    values = options(site.value(call.func))
    if len(values) != 1:
        return None
    definition = _find_definition(site, values[0])
    if definition is None:
        return None
    parameters, node = definition
    if not parameters.accepts_call(arguments) or _passes_parameter(parameters, arguments, name):
        return None
    return node.name if isinstance(_find_default(node, name), ast.Constant) else None


def _find_definition(site: Site, value: Value) -> tuple[Parameters, ast.FunctionDef] | None:
    """The parameters of a function or method of the project, or of the `__init__` of a class."""
    while isinstance(value, Transformed) and value.api.name != "functools.partial":
        value = value.inner
    if isinstance(value, ClassValue):
        init = site.program.evaluator.classes.objects.find_init(value)
        if init is None:
            return None
        value = Function(init.place, True, value)
    if not isinstance(value, Function) or not isinstance(value.node, ast.FunctionDef):
        return None
    parameters = parameters_of_definition(value.node)
    return (parameters.without_first() if value.bound else parameters), value.node


def _passes_parameter(parameters: Parameters, arguments: CallArguments, name: str) -> bool:
    if name in parameters.positional:
        return parameters.positional.index(name) < len(arguments.positional)
    return name not in parameters.keyword_only


def _find_default(node: ast.FunctionDef, name: str) -> ast.expr | None:
    """The default of a parameter, if it is None."""
    expression = next((default for one, default in parameters_with_defaults(node.args) if one.arg == name), None)
    return expression if isinstance(expression, ast.Constant) and expression.value is None else None


def _signature_is_fixed(site: Site, node: _Definition) -> bool:
    """True if others decide what a function takes: one passed as a value, or a method of a class with bases."""
    scope = site.file.scope(node)
    if scope.parent is not None and scope.parent.kind == "class":
        bases = getattr(scope.parent.node, "bases", [])
        if any(site.text(base) not in ("object", "nn.Module", "nnx.Module", "eqx.Module") for base in bases):
            return True
    if any("overload" in site.text(one) or "abstract" in site.text(one) for one in node.decorator_list):
        return True
    if any(
        isinstance(site.file.parent(one), ast.Dict | ast.List | ast.Tuple)
        for one in site.file.find_mentions(node.name)
    ):
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
    name, scope = node.targets[0].id, site.file.evaluation_scope(call).enclosing_function()
    returns = site.file.walk_scope(scope).returns if scope is not None else []
    return any(
        isinstance(one, ast.Name) and one.id == name
        for statement in returns
        if statement.value is not None
        for one in walk_nodes(statement.value)
    )
