"""SL319."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from typing import ClassVar

from shardlint.config.certainty import Certainty
from shardlint.model.guards import met_by_every_call
from shardlint.model.mesh.meshes import leaves
from shardlint.model.reach import lookup
from shardlint.model.values import (
    Assumed,
    CallResult,
    ClassValue,
    Constant,
    Items,
    Leaves,
    Parameter,
    Table,
    Value,
    options,
)
from shardlint.rules_api.rule import Calls, Finding, Harm, Rule
from shardlint.rules_api.site import Site
from shardlint.syntax import FileFacts
from shardlint.syntax.nodes import walk
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
    """A spec that may be `None` is given to what takes no `None`.

    ## What it does
    Reports `NamedSharding(mesh, spec)`, `with_sharding_constraint`, `reshard` and the conversions of `multihost_utils`
    where the spec is `None` on some way: a parameter or field whose default is `None`, one branch of a condition, a
    leaf of a tree of specs. It is quiet where any test of the function asks about the spec. By default where it is None
    on every way, and where the project makes an object without the field that holds the spec.

    ## Why it hurts
    `None` is not "replicated": that is `PartitionSpec()`. `NamedSharding(mesh, None)` raises TypeError, the others
    ValueError, and only on the way that nobody tried: the call without a spec, the configuration without an axis.
    Under `jax.set_mesh`, `with_sharding_constraint` takes `None` for `PartitionSpec()`: every device gets the whole
    array.

    ## Evidence
    The proof runs it. `jit` takes `None` in its shardings, `device_put` as its target, and `shard_map` as a spec: they
    are left alone.
    """

    code = "SL319"
    name = "optional-spec"
    harm = Harm.CRASH
    releases: ClassVar[Mapping[str, str]] = {"jax": ">=0.5.3"}
    assumes = True
    likely = ("left-out",)
    triggers = (Calls(*_TAKING),)
    forms = ("call",)
    fixes = "none"

    def check(self, site: Site) -> Iterator[Finding]:
        """One finding for a call whose spec may be None."""
        node = self._spec(site)
        last = node.values[-1] if isinstance(node, ast.BoolOp) and isinstance(node.op, ast.Or) else node
        if node is None or last is None or asked_about(site.file, last, besides=node):
            return
        if part_of_spec(site, node):
            return  # a tuple: SL305 and SL326 speak of it
        found = self._why(site, node)
        if found is None:
            return
        why, certainty = found
        form = "" if certainty is Certainty.PROVEN else "default"
        left_out = _left_out(site, node) if form else None
        if left_out is not None:
            form, why = "left-out", "None where it is left out"
        kind = "TypeError" if site.api == "jax.sharding.NamedSharding" else "ValueError"
        constraint = site.api == "jax.lax.with_sharding_constraint"
        if constraint and site.context.contexts:
            return  # there None is taken for PartitionSpec()
        where = " where no mesh is set, and under jax.set_mesh it gathers the array" if constraint else ""
        yield site.finding(
            node,
            f"On {site.release('jax')} {site.api.rpartition('.')[2]} raises {kind} for None{where}.",
            label=why,
            help="write PartitionSpec() for replicated, or leave the call out where there is no spec",
            certainty=certainty,
            form=form,
            why=left_out or "",
        )

    def _spec(self, site: Site) -> ast.expr | None:
        if site.api in _CONVERTED:
            place = site.arguments.get("pspecs", ("local_inputs", "global_mesh", "pspecs"))
            return place.node if place is not None and isinstance(place.node, ast.expr) else None
        return site.argument(_TAKING[site.api])

    def _why(self, site: Site, node: ast.expr) -> tuple[str, Certainty] | None:
        """Why the spec may be None, and how sure that is."""
        if isinstance(node, ast.BoolOp) and isinstance(node.op, ast.Or):
            # `spec or default` is None only where the last one is.
            return self._why(site, node.values[-1])
        value = site.program.evaluator.trees.expanded(site.value(node))
        found = options(value)
        if len(found) == 1 and isinstance(found[0], Parameter):
            return self._parameter(site, found[0])
        if found == (_NONE,):
            # A literal None in NamedSharding is SL305's.
            literal = isinstance(node, ast.Constant)
            return None if literal and site.api not in _CONVERTED else ("this is None", Certainty.PROVEN)
        if site.api in (*_CONVERTED, *_PUT) and _holds_none(value):
            return "a spec in this tree is None", Certainty.PROVEN
        if _NONE in found and _none_here(site.file, node):
            return "this is None on one way", Certainty.POSSIBLE
        defaults = [one for one in found if isinstance(one, Assumed) and one.value == _NONE]
        return (f"None if it is not given: {defaults[0].why}", Certainty.POSSIBLE) if defaults else None

    def _parameter(self, site: Site, parameter: Parameter) -> tuple[str, Certainty] | None:
        """A parameter whose default is None, unless all its calls give it."""
        if not _default_is_none(parameter):
            return None
        left_out = any(option == _NONE for option in options(site.program.followed(parameter)))
        if not left_out and not isinstance(site.program.followed(parameter), Parameter):
            return None
        here = _NONE in site.program.callers.seen(parameter)
        if left_out or here:
            # None that comes from an outer function's parameter may come on a way that nobody takes.
            owner = parameter.place.file.home(parameter.place.node).function()
            met = here and owner is not None and met_by_every_call(site.file, site.call, owner.node)
            certainty = Certainty.PROVEN if met else Certainty.POSSIBLE
            return f"a call leaves `{parameter.name}` out, and its default is None", certainty
        return f"the default of `{parameter.name}` is None", Certainty.POSSIBLE


def _left_out(site: Site, node: ast.expr) -> str | None:
    """Where an object of the class that holds the spec is made without it, in words."""
    if not isinstance(node, ast.Attribute):
        return None
    for one in options(site.value(node.value)):
        if not isinstance(one, CallResult) or not isinstance(one.by, ClassValue):
            continue
        cls = one.by
        if not isinstance(cls.place.node, ast.ClassDef):
            continue
        names = tuple(site.program.evaluator.classes.objects.fields(cls))
        for end in site.program.flow.in_sight(cls.place.file, cls.place.node).found:
            call = end.place.node
            if end.kind != "called" or not isinstance(call, ast.Call) or node.attr not in names:
                continue
            for made in options(site.program.value(end.place.file, call)):
                if not isinstance(made, CallResult) or made.by != cls or made.call is None:
                    continue
                if not made.call.may_have(node.attr, names):
                    where = f"{end.place.file.path.name}:{call.lineno}"
                    return f"`{cls.place.node.name}(...)` at {where} leaves `{node.attr}` out, and its default is None"
    return None


def _default_is_none(parameter: Parameter) -> bool:
    file = parameter.place.file
    for binding in file.bindings(file.home(parameter.place.node), parameter.name):
        if binding.node is parameter.place.node:
            return isinstance(binding.value, ast.Constant) and binding.value.value is None
    return False


def _none_here(file: FileFacts, node: ast.expr) -> bool:
    """Whether the None is written in the function: what a helper gives on some way may be meant for other callers."""
    if isinstance(node, ast.IfExp):
        return any(isinstance(part, ast.Constant) and part.value is None for part in (node.body, node.orelse))
    if not isinstance(node, ast.Name):
        return False
    bindings, _ = lookup(file, node, node.id)
    around = {file.text(test) for test, _ in _conditions(file, node)}
    written = [
        one.value
        for one in bindings
        if one.kind == "assign"
        and one.value is not None
        and not any(not holds and file.text(test) in around for test, holds in _conditions(file, one.value))
    ]
    return any(
        (isinstance(value, ast.Constant) and value.value is None)
        or (isinstance(value, ast.IfExp) and _none_here(file, value))
        for value in written
    )


def _conditions(file: FileFacts, node: ast.AST) -> Iterator[tuple[ast.expr, bool]]:
    """The tests of the `if` around a node, and whether they hold there."""
    inner = node
    for outer in file.ancestors(node):
        if isinstance(outer, ast.If) and inner is not outer.test:
            yield outer.test, inner in outer.body
        inner = outer


def _holds_none(value: Value) -> bool:
    """Whether a tree of specs surely has None for a leaf."""
    match value:
        case Items(items=items):
            if any(isinstance(name, Constant) and isinstance(name.value, str) for name in leaves(value)):
                return False  # a tuple of axis names: SL326 speaks of it
            return any(item == _NONE or _holds_none(item) for item in items)
        case Table(entries=entries):
            return any(item == _NONE or _holds_none(item) for _, item in entries)
        case Leaves(of=leaf):
            return leaf == _NONE
    return False


def asked_about(file: FileFacts, node: ast.expr, owner: bool = True, besides: ast.expr | None = None) -> bool:
    """Whether a test in the function, or around it, asks about what an expression names: `if spec is None`.

    With `owner` also one that asks about the object it is a field of. `besides` is a test that does not count.
    """
    names = {file.text(node), *(part.id for part in walk(node) if isinstance(part, ast.Name))} - {
        "self",
        "cls",
    }
    if not owner and isinstance(node, ast.Attribute):
        names = set()
    names |= {part.attr for part in walk(node) if isinstance(part, ast.Attribute)}
    function = file.home(node).function()
    while function is not None:
        tested = (
            _tested(file, function.node)
            if not isinstance(besides, ast.BoolOp)
            else frozenset(_names_in_tests(function.node, besides))
        )
        if not names.isdisjoint(tested):
            return True
        function = function.parent.function() if function.parent is not None else None
    return False


def _tested(file: FileFacts, function: ast.AST) -> frozenset[str]:
    """The names and attributes that the tests in a function speak of."""
    return file.remembered("names in tests", function, lambda: frozenset(_names_in_tests(function)))


def _names_in_tests(function: ast.AST, besides: ast.expr | None = None) -> Iterator[str]:
    for tested in _tests(function):
        if tested is besides:
            continue
        for part in walk(tested):
            if isinstance(part, ast.Name | ast.Attribute):
                yield part.id if isinstance(part, ast.Name) else part.attr


def _tests(node: ast.AST) -> Iterator[ast.expr]:
    for part in walk(node):
        match part:
            case ast.If(test=test) | ast.IfExp(test=test) | ast.While(test=test) | ast.Assert(test=test):
                yield test
            case ast.BoolOp() | ast.Compare():
                yield part
            case ast.comprehension(ifs=ifs):
                yield from ifs
            case ast.Match(subject=subject):
                yield subject
