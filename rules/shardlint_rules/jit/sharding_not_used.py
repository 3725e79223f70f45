"""SL231."""

from __future__ import annotations

import ast
from collections.abc import Iterator

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
from shardlint_rules.jit._axis_unread import AXES, over_an_axis, reads_it
from shardlint_rules.jit._forgotten import FORWARDED, PASSED, left_out, literal
from shardlint_rules.jit._unplaced import converted, given_a_mesh, kept_unread, made_here, unplaced

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

# What loads arrays, by name; and what gives arrays of numpy.
_LOADING = (
    "from_bytes",
    "from_state_dict",
    "load",
    "load_checkpoint",
    "loads",
    "msgpack_restore",
    "restore",
    "restore_checkpoint",
)
_HOST = (
    "flax.serialization.from_bytes",
    "flax.serialization.msgpack_restore",
    "numpy.load",
    "pickle.load",
    "pickle.loads",
)


class ShardingNotUsed(Rule):
    """A function takes a mesh, shardings or rules, and does nothing with them.

    ## What it does
    Reports a parameter such as `mesh`, `shardings`, `specs` or `rules` that a function never reads, while a function it
    calls takes a parameter of that name with a default of None and is not given it. A `sharding` or `shardings` that is
    never read is reported by itself where the function makes or loads arrays, and so is a `jax.device_put(x)` without a
    place in a function that never reads its `sharding`, `jnp.asarray(x)` that is returned by one, an array made and
    returned in a function that is given a `mesh` and never reads it, or in a class that keeps one and never reads it,
    and an `axis_name` that a function which maps or reduces never reads. And a call of
    jax that is given a literal `backend` or `devices`, where the function has a parameter for it and gives that to
    another call (possible), or that takes `devices` or an `axis_name` too and is not given them, `pmap` or a function
    of the project (possible).

    ## Why it hurts
    Who calls it believes the arrays are placed. With the default None they stay on the default device, or whole on
    every device, and nothing is raised.

    ## Evidence
    The proof shows the weights on one device. Left alone: functions without a body, methods that stand for those of a
    base class, functions that are handed on as values (a caller decides what they take), `del sharding`, names with
    an underscore, and whatever hands its parameters on by `locals()`.
    """

    code = "SL231"
    name = "sharding-not-used"
    harm = Harm.SILENT
    likely = ("unplaced", "made", "converted", "axis")
    triggers = (
        Takes(*dict.fromkeys((*_SHARDINGS, *_OF_BATCHES, *_SPECS, *_RULES, *PASSED, *FORWARDED, *AXES))),
    )
    fixes = "none"

    def check(self, site: Site) -> Iterator[Finding]:
        """One finding for a parameter."""
        parameter = site.syntax
        scope = _function_of(site.file, parameter)
        if not isinstance(parameter, ast.arg) or scope is None:
            return
        if parameter.arg in PASSED:
            yield from self._literal(site, scope, parameter.arg)
        if parameter.arg in FORWARDED and site.wants("left-out"):
            yield from self._left_out(site, scope, parameter.arg)
        if parameter.arg in AXES and site.wants("axis"):
            yield from self._axis(site, scope, parameter)
        if parameter.arg not in (*_SHARDINGS, *_OF_BATCHES, *_SPECS, *_RULES):
            return
        name = parameter.arg
        if name in (*_SHARDINGS, *_OF_BATCHES) and site.wants("unplaced"):
            yield from self._unplaced(site, scope, name)
        if _read(site, scope, name):
            return
        for call in site.file.walked(scope).calls:
            taking = _takes(site, call, name)
            if taking is not None:
                yield site.finding(
                    call,
                    f"`{scope.name}` takes `{name}` and never reads it: what {taking} makes is placed as without one.",
                    label=f"`{taking}` takes `{name}`, with a default of None, and is not given it",
                    help=f"hand it on: {name}={name}",
                )
                return
        if name == "mesh" and site.wants("made"):
            yield from self._made(site, scope)
        if name not in _SHARDINGS or _stands_for_another(site, scope):
            return
        whole = converted(site, scope.node) if site.wants("converted") else None  # type: ignore[arg-type]
        if whole is not None and not site.program.project.is_test(site.file.path):
            yield site.finding(
                whole,
                f"`{scope.name}` takes `{name}`, and this puts all of what it is given on the default device.",
                label=f"`{name}` is never read",
                help=f"place it: jax.device_put(..., {name})",
                certainty=Certainty.POSSIBLE,
                form="converted",
                why=f"`{name}` is a parameter, and the function returns what it makes an array of",
            )
            return
        making = next((call for call in site.file.walked(scope).calls if _loads(call)), None)
        if making is not None and _result(site, making):
            host = all(isinstance(one, Api) and one.name in _HOST for one in options(site.value(making.func)))
            yield site.finding(
                making,
                f"`{scope.name}` takes `{name}`, and what this gives is placed as without it.",
                label=f"`{name}` is never read",
                help=f"place it: jax.device_put(..., {name})",
                certainty=Certainty.PROVEN if host else Certainty.POSSIBLE,
                form="" if host else "never-read",
                why="" if host else f"`{name}` is a parameter, and the function returns what it loads",
            )

    def _axis(self, site: Site, scope: Scope, parameter: ast.arg) -> Iterator[Finding]:
        """The name of an axis that a function which maps or reduces takes, and never reads."""
        node, name = scope.node, parameter.arg
        assert isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        doing = over_an_axis(node)
        if doing is None or reads_it(node, name) or site.program.project.is_test(site.file.path):
            return
        if not _stands_for_another(site, scope):
            yield site.finding(
                parameter,
                f"`{node.name}` takes the name of an axis, and {doing} without it: a collective over that axis finds "
                "nothing that binds it, or nothing is reduced over it.",
                label=f"`{name}` is never read",
                help=f"hand it on, or take no `{name}`",
                certainty=Certainty.POSSIBLE,
                form="axis",
                why=f"nothing in `{node.name}` reads it",
            )

    def _made(self, site: Site, scope: Scope) -> Iterator[Finding]:
        """Arrays that are made on one device in a function that takes a mesh and never reads it."""
        node = scope.node
        assert isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        if site.program.project.is_test(site.file.path) or _stands_for_another(site, scope):
            return
        made = made_here(site, node)
        if made is not None and given_a_mesh(site, node, "mesh"):
            yield site.finding(
                made,
                f"`{node.name}` takes a mesh, and this lies whole on one device (on every device under jax.set_mesh).",
                label="`mesh` is never read",
                help="say where it goes: device=NamedSharding(mesh, ...)",
                certainty=Certainty.POSSIBLE,
                form="made",
                why="a caller gives it a mesh, and nothing reads that",
            )

    def _unplaced(self, site: Site, scope: Scope, name: str) -> Iterator[Finding]:
        """A `device_put` without a place, where nothing is done with the sharding, or nothing but keeping it."""
        node = scope.node
        assert isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        kept = kept_unread(site, node, name)
        if site.program.project.is_test(site.file.path) or (
            kept is None and (_read(site, scope, name) or _stands_for_another(site, scope))
        ):
            return
        for call in unplaced(site, kept or node):
            yield site.finding(
                call,
                f"`{kept.name if kept else node.name}` takes `{name}`, and this puts arrays without it: they stay "
                "where they are, and what numpy has goes to one device.",
                label=f"`{name}` is not given here",
                help=f"place it: jax.device_put(..., {name})",
                certainty=Certainty.POSSIBLE,
                form="unplaced",
                why=f"nothing reads what `{name}` is kept in" if kept else f"nothing reads `{name}`",
            )
            return

    def _left_out(self, site: Site, scope: Scope, name: str) -> Iterator[Finding]:
        """A call is not given what another of the same function is given."""
        node = scope.node
        assert isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        if site.program.project.is_test(site.file.path):
            return
        found = left_out(site, node, name, lambda call: _takes(site, call, name))
        if found is not None:
            given, call, taking = found
            yield site.finding(
                call.func,
                f"`{node.name}` is given `{name}` and hands it on at line {given.lineno}: what {taking} does here is "
                "done as without it.",
                label=f"`{taking}` takes `{name}` too, and is not given it",
                help=f"hand it on: {name}={name}",
                certainty=Certainty.POSSIBLE,
                form="left-out",
                why=f"`{name}` is a parameter of the function around it, and given to another call",
            )

    def _literal(self, site: Site, scope: Scope, name: str) -> Iterator[Finding]:
        """A call of jax is given a literal where its function has a parameter for it."""
        node = scope.node
        assert isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        if site.program.project.is_test(site.file.path):
            return
        given = literal(site, node, name)
        if given is not None:
            yield site.finding(
                given,
                f"This is {site.text(given)} whatever `{name}` the caller of `{node.name}` gives.",
                label=f"`{node.name}` takes `{name}` for this",
                help=f"hand it on: {name}",
                certainty=Certainty.POSSIBLE,
                form="literal",
                why=f"`{name}` is a parameter of the function around it",
            )


def _function_of(file: FileFacts, parameter: ast.AST) -> Scope | None:
    """The function that takes a parameter, where it has a body that does something."""
    arguments = file.parent(parameter)
    node = file.parent(arguments) if isinstance(arguments, ast.arguments) else arguments
    if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        return None
    body = [
        one for one in node.body if not (isinstance(one, ast.Expr) and isinstance(one.value, ast.Constant))
    ]
    return file.scope(node) if any(not isinstance(one, ast.Pass | ast.Raise) for one in body) else None


def _read(site: Site, scope: Scope, name: str) -> bool:
    """Whether a function mentions its parameter in any way, or may read all it has."""
    node = scope.node
    assert isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    words = walk(ast.Module(node.body, []))
    return any(isinstance(one, ast.Name) and one.id in (name, "locals", "vars", "eval") for one in words)


def _takes(site: Site, call: ast.Call, name: str) -> str | None:
    """What is called, if it takes a parameter of this name that is None by default, and is not given it."""
    arguments = site.program.evaluator.arguments(Place(site.file, call))
    if arguments.open_positional or arguments.open_keywords or name in arguments.keywords:
        return None
    found = options(site.value(call.func))
    if len(found) != 1:
        return None
    definition = _definition(site, found[0])
    if definition is None:
        return None
    parameters, node = definition
    if not parameters.fits(arguments) or _given(parameters, arguments, name):
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


def _given(parameters: Parameters, arguments: CallArguments, name: str) -> bool:
    if name in parameters.positional:
        return parameters.positional.index(name) < len(arguments.positional)
    return name not in parameters.keyword_only


def _default(node: ast.FunctionDef, name: str) -> ast.expr | None:
    """The default of a parameter, if it is None."""
    found = next((default for one, default in defaults(node.args) if one.arg == name), None)
    return found if isinstance(found, ast.Constant) and found.value is None else None


def _stands_for_another(site: Site, scope: Scope) -> bool:
    """Whether others decide what a function takes: one handed on as a value, or a method of a class with bases."""
    if scope.parent is not None and scope.parent.kind == "class":
        bases = getattr(scope.parent.node, "bases", [])
        if any(site.text(base) not in ("object", "nn.Module", "nnx.Module", "eqx.Module") for base in bases):
            return True
    node = scope.node
    assert isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    if any("overload" in site.text(one) or "abstract" in site.text(one) for one in node.decorator_list):
        return True
    return any(
        end.kind == "escaped" and node not in end.place.file.ancestors(end.place.node)
        for end in site.program.flow.ends(site.file, node).found
    )


def _loads(call: ast.Call) -> bool:
    """Whether a call loads arrays, by its name."""
    func = call.func
    name = last_name(func)
    return name in _LOADING or name.startswith(("load_", "restore_", "read_"))


def _result(site: Site, call: ast.Call) -> bool:
    """Whether what a call gives is, or is part of, what its function returns: itself or under a name."""
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
