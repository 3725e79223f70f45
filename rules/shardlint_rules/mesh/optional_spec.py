"""SL319."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from typing import ClassVar

from shardlint.facts.shardings import literal_leaves
from shardlint.model.evaluator.assumed_values import Assuming
from shardlint.model.values import (
    Assumed,
    CallResult,
    ClassValue,
    Constant,
    Items,
    Leaves,
    Parameter,
    Place,
    Table,
    Value,
    options,
)
from shardlint.rules_api.rule import Calls, Finding, Harm, Rule, detector
from shardlint.rules_api.site import Site
from shardlint.syntax import FileFacts
from shardlint.syntax.nodes import walk_nodes
from shardlint_rules.mesh._every_call import met_by_every_call
from shardlint_rules.mesh.spec_parts import part_of_spec

_PUT = ("jax.lax.with_sharding_constraint", "jax.reshard")
_CONVERTED = tuple(
    f"jax.experimental.multihost_utils.{name}"
    for name in ("host_local_array_to_global_array", "global_array_to_host_local_array")
)
_TAKING = {
    "jax.sharding.NamedSharding": "spec",
    "jax.lax.with_sharding_constraint": "shardings",
    "jax.reshard": "out_shardings",
    **dict.fromkeys(_CONVERTED, "pspecs"),
}
_NONE = Constant(None)


class OptionalSpec(Rule):
    """A spec that is `None` is passed to a function that doesn't take `None`.

    `NamedSharding(mesh, None)` raises TypeError. The other functions raise ValueError. With a mesh in context,
    `with_sharding_constraint` takes `None` as `PartitionSpec()`, and replicates the array. Write `PartitionSpec()` for
    replicated.

    ## Reports
    - proven: `NamedSharding`, `with_sharding_constraint`, `reshard` or a conversion of `multihost_utils` with a spec
      that is `None`, or with a tree of specs that contains `None`.
    - proven: one of these functions with a parameter as the spec, if the parameter is `None` by default and a call
      leaves it out.
    - `mesh-may-be-set` (possible): one of the proven forms with `with_sharding_constraint`, if unknown callers may set
      a mesh.
    - `omitted-field` (likely): one of these functions with a field as the spec, if the field is `None` by default and
      the project creates an object without it.

    ## Limits
    Not reported: functions that test the spec. These arguments accept `None`: `in_shardings` and `out_shardings` of
    `jit`, the target of `device_put`, and `in_specs` of `shard_map`.
    """

    code = "SL319"
    name = "optional-spec"
    harm = Harm.CRASH
    releases: ClassVar[Mapping[str, str]] = {"jax": ">=0.5.3"}
    assumes = True
    likely = ("omitted-field",)
    assumptions: ClassVar[Mapping[str, str]] = {
        "omitted-field": "The object without the field reaches this call."
    }
    triggers = (Calls(*_TAKING),)
    fixes = "none"

    @detector("call")
    def report_spec(self, site: Site) -> Finding | None:
        """The spec of a call that may be None."""
        node = self._find_spec(site)
        last = node.values[-1] if isinstance(node, ast.BoolOp) and isinstance(node.op, ast.Or) else node
        if node is None or last is None or is_object_tested(site.file, last, besides=node):
            return None
        if part_of_spec(site, node):
            return None  # a tuple: SL305 and SL326 speak of it
        constraint = site.api == "jax.lax.with_sharding_constraint"
        if constraint and site.context.contexts:
            return None  # there None means PartitionSpec()
        form, why = "", self._explain_why(site, node)
        if why is None:
            form, why = "omitted-field", self._call_without_spec(site, last)
        if why is None:
            return None
        if constraint and not form and not (site.context.complete and site.context.bare):
            form = "mesh-may-be-set"
        kind = "TypeError" if site.api == "jax.sharding.NamedSharding" else "ValueError"
        where = ", or replicates the array under a mesh" if constraint else ""
        return site.finding(
            node,
            f"On {site.release('jax')} `{site.short_name}` raises {kind} for a spec that is None{where}.",
            label="None here",
            help="write `PartitionSpec()` for replicated, or skip the call if there is no spec",
            form=form,
            why=why,
        )

    def _find_spec(self, site: Site) -> ast.expr | None:
        if site.api in _CONVERTED:
            place = site.arguments.argument_for("pspecs", ("local_inputs", "global_mesh", "pspecs"))
            return place.node if place is not None and isinstance(place.node, ast.expr) else None
        return site.argument(_TAKING[site.api])

    def _explain_why(self, site: Site, node: ast.expr) -> str | None:
        """Why the spec surely is None in some call; None if it may not be."""
        if isinstance(node, ast.BoolOp) and isinstance(node.op, ast.Or):
            # `spec or default` is None only if the last one is.
            return self._explain_why(site, node.values[-1])
        evaluator = site.program.evaluator
        strict = evaluator.strict.value(Place(site.file, node)) if isinstance(evaluator, Assuming) else None
        if isinstance(strict, Parameter) and _default_is_none(strict):
            return None  # a call may leave it out that does not come here
        value = evaluator.trees.expand_tree_map(site.value(node))
        found = options(value)
        if len(found) == 1 and isinstance(found[0], Parameter):
            return self._find_parameter(site, found[0])
        if found == (_NONE,):
            # SL305 reports a literal None in NamedSharding.
            literal = isinstance(node, ast.Constant)
            if literal:
                return "the spec is the literal None" if site.api in _CONVERTED else None
            return f"`{site.shown(node)}` is None"
        if site.api in (*_CONVERTED, *_PUT) and _holds_none(value):
            return "a spec in this tree is None"
        return None

    def _find_parameter(self, site: Site, parameter: Parameter) -> str | None:
        """A parameter whose default is None, and that a call leaves out which surely leads here."""
        if not _default_is_none(parameter) or _NONE not in site.program.callers.visible_argument_values(parameter):
            return None
        # None that comes from an outer function's parameter may come in a call that nobody makes.
        owner = parameter.place.file.evaluation_scope(parameter.place.node).enclosing_function()
        if owner is None or not met_by_every_call(site.file, site.call, owner.node):
            return None
        return f"a call leaves out `{parameter.name}`, whose default is None"

    def _call_without_spec(self, site: Site, node: ast.expr) -> str | None:
        """The call that makes an object without the field that holds the spec, if its default is None."""
        found = options(site.program.evaluator.trees.expand_tree_map(site.value(node)))
        if not any(isinstance(one, Assumed) and one.value == _NONE for one in found):
            return None
        return _call_without_field(site, node)


def _call_without_field(site: Site, node: ast.expr) -> str | None:
    """The call that makes an object of the class without the field that holds the spec, in words."""
    if not isinstance(node, ast.Attribute):
        return None
    for one in options(site.value(node.value)):
        if not isinstance(one, CallResult) or not isinstance(one.by, ClassValue):
            continue
        cls = one.by
        if not isinstance(cls.place.node, ast.ClassDef):
            continue
        names = tuple(site.program.evaluator.classes.objects.list_fields(cls))
        for end in site.program.flow.in_sight(cls.place.file, cls.place.node).found:
            call = end.place.node
            if end.kind != "called" or not isinstance(call, ast.Call) or node.attr not in names:
                continue
            for made in options(site.program.value(end.place.file, call)):
                if not isinstance(made, CallResult) or made.by != cls or made.call is None:
                    continue
                if not made.call.may_have_argument(node.attr, names):
                    where = f"{end.place.file.path.name}:{call.lineno}"
                    return f"`{cls.place.node.name}(...)` at {where} leaves out `{node.attr}`, whose default is None"
    return None


def _default_is_none(parameter: Parameter) -> bool:
    file = parameter.place.file
    for binding in file.bindings(file.evaluation_scope(parameter.place.node), parameter.name):
        if binding.node is parameter.place.node:
            return isinstance(binding.value, ast.Constant) and binding.value.value is None
    return False


def _holds_none(value: Value) -> bool:
    """Return whether a tree of specs surely has None for a leaf."""
    match value:
        case Items(items=items):
            if any(isinstance(name, Constant) and isinstance(name.value, str) for name in literal_leaves(value)):
                return False  # a tuple of axis names: SL326 speaks of it
            return any(item == _NONE or _holds_none(item) for item in items)
        case Table(entries=entries):
            return any(item == _NONE or _holds_none(item) for _, item in entries)
        case Leaves(of=leaf):
            return leaf == _NONE
    return False


def is_object_tested(file: FileFacts, node: ast.expr, owner: bool = True, besides: ast.expr | None = None) -> bool:
    """Return whether a test in the function, or around it, is about the object of an expression: `if spec is None`.

    With `owner` also one that asks about the object it is a field of. `besides` is a test that does not count.
    """
    names = {file.source_text(node), *(part.id for part in walk_nodes(node) if isinstance(part, ast.Name))} - {
        "self",
        "cls",
    }
    if not owner and isinstance(node, ast.Attribute):
        names = set()
    names |= {part.attr for part in walk_nodes(node) if isinstance(part, ast.Attribute)}
    function = file.evaluation_scope(node).enclosing_function()
    while function is not None:
        tested = (
            _tested_names(file, function.node)
            if not isinstance(besides, ast.BoolOp)
            else frozenset(_names_in_tests(function.node, besides))
        )
        if not names.isdisjoint(tested):
            return True
        function = function.parent.enclosing_function() if function.parent is not None else None
    return False


def _tested_names(file: FileFacts, function: ast.AST) -> frozenset[str]:
    """The names and attributes that the tests in a function speak of."""
    return file.remember_for_node("names in tests", function, lambda: frozenset(_names_in_tests(function)))


def _names_in_tests(function: ast.AST, besides: ast.expr | None = None) -> Iterator[str]:
    for tested in _test_expressions(function):
        if tested is besides:
            continue
        for part in walk_nodes(tested):
            if isinstance(part, ast.Name | ast.Attribute):
                yield part.id if isinstance(part, ast.Name) else part.attr


def _test_expressions(node: ast.AST) -> Iterator[ast.expr]:
    for part in walk_nodes(node):
        match part:
            case ast.If(test=test) | ast.IfExp(test=test) | ast.While(test=test) | ast.Assert(test=test):
                yield test
            case ast.BoolOp() | ast.Compare():
                yield part
            case ast.comprehension(ifs=ifs):
                yield from ifs
            case ast.Match(subject=subject):
                yield subject
