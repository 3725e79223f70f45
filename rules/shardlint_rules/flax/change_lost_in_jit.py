"""SL516."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from typing import ClassVar

from shardlint.model.evaluator.annotations import annotated_classes
from shardlint.model.values import Api, CallResult, ClassValue, Place, Value, options
from shardlint.rules_api.rule import Calls, Certainty, Finding, Harm, Lines, Rule, detector
from shardlint.rules_api.site import Site
from shardlint.syntax import Scope
from shardlint.syntax.nodes import child_nodes, names_in, walk_nodes
from shardlint_rules.flax.update_lost_in_jit import only_jax_jit

_BASES = (
    "flax.nnx.Module",
    "flax.nnx.Optimizer",
    "flax.nnx.Metric",
    "flax.nnx.Pytree",
    "flax.nnx.MultiMetric",
)
# Nobody jits these by themselves.
_MAKING = ("__init__", "__post_init__", "setup")
_TAKES_STATE = (
    "flax.nnx.state",
    "flax.nnx.split",
    "flax.nnx.pop",
    "flax.nnx.to_pure_dict",
    "flax.nnx.as_pure",
)


class ChangeLostInJit(Rule):
    """An NNX module is changed in place under `jax.jit`, and its state is not returned.

    `jax.jit` traces a copy of its arguments and discards it after the call. Nothing is raised. Weights that were placed
    or loaded this way are lost.

    ## Reports
    - proven: `model.count[...] += 1`, `model.kernel = ...` or `nnx.update(model, state)` in a function that takes the
      module as an argument. Only `jax.jit` traces the function, and no `return` contains the module or its state.

    ## Write instead
    Trace the function with `nnx.jit`. Or return `nnx.state(model)`, and call `nnx.update(model, state)` outside the
    jitted function.

    ## Limits
    Not reported: parameters, if no type hint and no call shows that they are modules. Also not reported: functions that
    another transform traces too.
    """

    code = "SL516"
    name = "change-lost-in-jit"
    harm = Harm.SILENT
    releases: ClassVar[Mapping[str, str]] = {"flax": ">=0.11"}
    triggers = (
        Lines(r"\w+(?:\.\w+|\[[^\]\n]*\])+\s*(?:[-+*/]?=)[^=]", file_says=r"nnx", saying=("=",)),
        Calls("flax.nnx.update"),
    )
    where = "traced"
    fixes = "none"

    @detector("line")
    def report_assignment(self, site: Site) -> Finding | None:
        """A statement that sets an attribute, if the change is lost."""
        match site.syntax:
            case ast.Assign(targets=[target]) | ast.AugAssign(target=target):
                attributes = (part for part in walk_nodes(target) if isinstance(part, ast.Attribute))
                return self._report_change(site, target) if any(True for _ in attributes) else None
        return None

    @detector("call")
    def report_update(self, site: Site) -> Finding | None:
        """An `nnx.update`, if the change is lost."""
        return self._report_change(site, site.call.args[0]) if site.call.args else None

    def _report_change(self, site: Site, changed: ast.expr) -> Finding | None:
        while isinstance(changed, ast.Attribute | ast.Subscript):
            changed = changed.value
        scope = site.scope.enclosing_function()
        if scope is None or not isinstance(changed, ast.Name) or not isinstance(scope.node, ast.FunctionDef):
            return None
        if scope.name in _MAKING:
            return None
        parameter = _find_parameter(scope.node, changed.id)
        if parameter is None or len(site.file.bindings(scope, changed.id)) != 1:
            return None
        # Called as a method it is given no such argument: only what decorates it can jit it.
        is_self = _is_self(site, scope.node, parameter)
        if is_self and not scope.node.decorator_list:
            return None
        if not only_jax_jit(site, scope) or _is_returned_or_passed(site, scope, changed.id):
            return None
        shown = (_class_evidence if is_self else _shown_as_module)(site, scope.node, parameter)
        if not shown:
            return None
        return site.finding(
            changed,
            f"The change is lost: `jax.jit` traces a copy of `{changed.id}` and then discards the copy.",
            via=site.region,
            help="trace the function with `nnx.jit`, "
            f"or return `nnx.state({changed.id})` and call `nnx.update({changed.id}, state)` outside",
            certainty=Certainty.PROVEN,
            why=shown,
        )


def _find_parameter(node: ast.FunctionDef, name: str) -> ast.arg | None:
    every = (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs)
    return next((one for one in every if one.arg == name), None)


def _is_returned_or_passed(site: Site, scope: Scope, name: str) -> bool:
    """Return whether an object, or a part of its state, is returned, or passed to code that may store it."""
    kept = {name}
    for call in site.file.walk_scope(scope).calls:
        takes = all(
            isinstance(one, Api) and one.name in _TAKES_STATE for one in options(site.value(call.func))
        )
        parent = site.file.parent(call)
        if takes and name in names_in(call) and isinstance(parent, ast.Assign):
            kept |= {part for target in parent.targets for part in names_in(target)}
    for statement in site.file.walk_scope(scope).returns:
        value = statement.value if isinstance(statement, ast.Return) else statement
        if value is not None and kept & _names_passed_on(value, name):
            return True
    return False


def _names_passed_on(node: ast.AST, name: str) -> set[str]:
    """The names that an expression hands on as they are: not `loss` in `loss(x)`, nor `model` in `model(x)`."""
    match node:
        case ast.Call(func=ast.Name(id=called)) if called == name:
            return set()
        case ast.Call(args=args):
            return {one for part in args for one in names_in(part)}
    if isinstance(node, ast.Name):
        return {node.id}
    return {one for part in child_nodes(node) for one in _names_passed_on(part, name)}


def _is_self(site: Site, node: ast.FunctionDef, parameter: ast.arg) -> bool:
    """Return whether a parameter is the object that a method is called on."""
    first = (*node.args.posonlyargs, *node.args.args)[:1]
    return isinstance(site.file.parent(node), ast.ClassDef) and parameter in first


def _class_evidence(site: Site, node: ast.FunctionDef, parameter: ast.arg) -> str:
    """Return the evidence that the object of a method is an NNX object, in words."""
    owner = site.file.parent(node)
    if not isinstance(owner, ast.ClassDef) or not _is_module(site, ClassValue(Place(site.file, owner))):
        return ""
    return f"`{parameter.arg}` is the NNX object `{owner.name}`"


def _shown_as_module(site: Site, node: ast.FunctionDef, parameter: ast.arg) -> str:
    """Return the evidence that a parameter is an NNX object, in words."""
    evaluator = site.program.evaluator
    if parameter.annotation is not None:
        found = annotated_classes(evaluator, Place(site.file, parameter.annotation))
        if found and all(_is_module(site, one) for one in found):
            return f"`{parameter.arg}` is annotated `{site.text(parameter.annotation)}`"
    names = [one.arg for one in (*node.args.posonlyargs, *node.args.args)]
    if parameter.arg not in names:
        return ""
    index = names.index(parameter.arg)
    for end in site.program.flow.ends(site.file, node).found:
        call = end.place.node
        if end.kind != "called" or not isinstance(call, ast.Call) or index >= len(call.args):
            continue
        value = evaluator.value(Place(end.place.file, call.args[index]))
        if all(isinstance(one, CallResult) and _is_module(site, one.by) for one in options(value)):
            return f"line {call.lineno} passes an NNX object"
    return ""


def _is_module(site: Site, value: Value) -> bool:
    """Return whether a class is one of NNX that `jax.jit` flattens."""
    if isinstance(value, Api):
        return value.name in _BASES
    if not isinstance(value, ClassValue):
        return False
    bases = site.program.evaluator.list_bases(value)
    return any(isinstance(one, Api) and one.name in _BASES for base in bases for one in options(base))
