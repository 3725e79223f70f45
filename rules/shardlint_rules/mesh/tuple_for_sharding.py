"""SL326."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from shardlint.config.certainty import Certainty
from shardlint.model.evaluator.annotations import annotated
from shardlint.model.values import Api, Assumed, ClassValue, Constant, Function, Items, Place, Value, options
from shardlint.rules_api.rule import Attributes, Calls, Finding, Harm, Rule
from shardlint.rules_api.site import Site
from shardlint.syntax import last_name
from shardlint.syntax.nodes import walk
from shardlint_rules.mesh.optional_spec import asked_about
from shardlint_rules.mesh.spec_parts import part_of_spec

_TAKING = {"jax.lax.with_sharding_constraint": "shardings", "jax.reshard": "out_shardings"}
_NAMED_SO = ("with_sharding_constraint", "sharding_constraint", "constrain", "shard_constraint")
_JITS = ("jax.jit", "jax.experimental.pjit.pjit")
_OF_JIT = ("in_shardings", "out_shardings")
_RAISING_TYPE = ("jax.lax.with_sharding_constraint", *_JITS)
# What a field may be annotated with that is a tuple of axis names.
_TUPLES = ("builtins.tuple", "typing.Tuple", "flax.typing.Sharding", "flax.typing.LogicalNames")


class TupleForSharding(Rule):
    """A tuple of axis names is given where a sharding is taken.

    ## What it does
    Reports `jax.lax.with_sharding_constraint(x, ("data", None))` and `jax.reshard`: with the tuple written out, under
    a name, in a field whose default it is, in a field that is annotated as a tuple (`flax.typing.Sharding`), or as a
    part of a spec: `spec[1:]`, `tuple(spec)` and `(*spec, None)` are tuples. Such parts are reported in `in_shardings`
    and `out_shardings` too; where the text does not tell which axes they name, as possible. And parts that are given to
    a function of the project with such a name, which hands them to jax's.

    ## Why it hurts
    A tuple is a tree, here of strings, and a string is not a sharding: `TypeError`. Flax's own
    `with_sharding_constraint` functions take such tuples, so this is what is left when a call of theirs becomes one of
    jax's. An empty tuple, a common default, raises `ValueError`, as `reshard` does for both.

    ## Evidence
    The proof runs it. A tuple of shardings for a tuple of arrays is left alone. Parts of a spec were given to
    `with_sharding_constraint` and to `jit` on jax 0.4.30, 0.4.38, 0.5.3, 0.6.2, 0.7.2, 0.8.3, 0.10.2 and 0.12: all
    raised `TypeError`, but for `in_shardings` made of None alone, which says nothing of the arrays. Since jax 0.6
    `spec[1:] + P(None)` is a spec again, and is left alone.
    """

    code = "SL326"
    name = "tuple-for-sharding"
    harm = Harm.CRASH
    likely = ("default", "wrapper")
    assumes = True
    triggers = (
        Calls(*_TAKING),
        Calls(*_JITS, file_says=_OF_JIT),
        Attributes("spec", file_says=(".spec[", "(*", "tuple(")),
    )
    forms = ("call", "partial", "attribute")
    fixes = "none"

    def check(self, site: Site) -> Iterator[Finding]:
        """At most one finding for a constraint, and one for each part of a spec that `jit` is given."""
        if site.form == "attribute":
            yield from self._of_wrapper(site)
            return
        if site.api in _JITS:
            yield from self._of_jit(site)
            return
        if site.form == "partial":
            return
        node = site.argument(_TAKING[site.api])
        if node is None:
            return
        if part_of_spec(site, node):
            yield self._finding(site, node, "", Certainty.PROVEN, "")
            return
        found = options(site.value(node))
        if found and all(_names(one) for one in found):
            # An empty tuple may be the sharding of an empty tuple of arrays.
            sure = any(isinstance(one, Items) and one.items for one in found)
            yield self._finding(
                site, node, "", Certainty.PROVEN if sure else Certainty.POSSIBLE, "" if sure else "empty"
            )
            return
        field = _field(site, node) if site.wants("annotated", "default") else None
        if field is not None and not asked_about(site.file, node):
            why, form = field
            yield self._finding(site, node, why, Certainty.POSSIBLE, form)

    def _of_wrapper(self, site: Site) -> Iterator[Finding]:
        """A part of a spec that a function of the project hands to jax's constraint."""
        part = site.file.parent(site.syntax)
        part = site.file.parent(part) if isinstance(part, ast.Starred) else part
        call = site.file.parent(part) if part is not None else None
        if not isinstance(part, ast.expr) or not isinstance(call, ast.Call) or part not in call.args[1:2]:
            return
        if not site.wants("wrapper") or not part_of_spec(site, part):
            return
        for option in options(site.value(call.func)):
            if not isinstance(option, Function) or not _hands_on(option):
                return
        if last_name(call.func) in _NAMED_SO:
            yield self._finding(
                site, part, f"`{last_name(call.func)}` gives it to jax.lax's", Certainty.POSSIBLE, "wrapper"
            )

    def _of_jit(self, site: Site) -> Iterator[Finding]:
        for name in _OF_JIT:
            keyword = site.keyword(name)
            if keyword is None:
                continue
            for node in _parts(site, keyword.value):
                if all(_says_axis(one) for one in options(site.value(node))):
                    yield self._finding(site, node, "", Certainty.PROVEN, "")
                elif site.wants("part"):
                    why = f"`{site.text(node)}` is a tuple, which raises where it names an axis"
                    yield self._finding(site, node, why, Certainty.POSSIBLE, "part")

    def _finding(self, site: Site, node: ast.expr, why: str, certainty: Certainty, form: str) -> Finding:
        kind = "TypeError" if site.api in _RAISING_TYPE and form != "empty" else "an error"
        return site.finding(
            node,
            f"On {site.release('jax')} this raises {kind}: a tuple is a tree of shardings, and a name is none.",
            label="a tuple of axis names is not a sharding",
            help="write PartitionSpec(*names)",
            certainty=certainty,
            form="" if certainty is Certainty.PROVEN else form,
            why=why,
        )


def _hands_on(function: Function) -> bool:
    """Whether a function gives its second parameter, as it is, to a constraint of jax."""
    node = function.node
    taken = [one.arg for one in node.args.args][1:2] if isinstance(node, ast.FunctionDef) else []
    words = list(walk(node))
    if any(isinstance(one, ast.Name) and one.id in taken and isinstance(one.ctx, ast.Store) for one in words):
        return False
    return any(
        isinstance(one, ast.Call)
        and last_name(one.func).lstrip("_") == "with_sharding_constraint"
        and [given.id for given in one.args[1:2] if isinstance(given, ast.Name)] == taken != []
        for one in words
    )


def _names(value: Value) -> bool:
    """Whether a value is surely a tuple of axis names, or an empty one."""
    if not isinstance(value, Items) or value.open or value.kind not in ("tuple", "list"):
        return False
    return all(
        (isinstance(one, Constant) and (one.value is None or isinstance(one.value, str)))
        or (_names(one) and _full(one))
        for one in value.items
    ) and (
        not value.items or any(not (isinstance(one, Constant) and one.value is None) for one in value.items)
    )


def _parts(site: Site, node: ast.expr) -> Iterator[ast.expr]:
    """The parts of specs in a tree of shardings that is written out."""
    if part_of_spec(site, node):
        yield node
    elif isinstance(node, ast.Tuple | ast.List):
        for one in node.elts:
            yield from _parts(site, one)
    elif isinstance(node, ast.Dict):
        for one in node.values:
            yield from _parts(site, one)


def _says_axis(value: Value) -> bool:
    return isinstance(value, Items) and any(
        isinstance(one, Constant) and isinstance(one.value, str) for one in value.items
    )


def _full(value: Value) -> bool:
    return isinstance(value, Items) and bool(value.items)


def _field(site: Site, node: ast.expr) -> tuple[str, str] | None:
    """Why a field of the object holds a tuple: its default, or its annotation; and the form."""
    if not isinstance(node, ast.Attribute) or not isinstance(node.value, ast.Name) or node.value.id != "self":
        return None
    scope = site.scope.function()
    while scope is not None and (scope.parent is None or scope.parent.kind != "class"):
        scope = scope.parent.function() if scope.parent is not None else None
    if scope is None or scope.parent is None:
        return None
    evaluator = site.program.evaluator
    fields = evaluator.classes.objects.fields(ClassValue(Place(site.file, scope.parent.node)))
    if node.attr not in fields:
        return None
    binding, owner = fields[node.attr]
    default = evaluator.classes.objects.default(binding, Place(owner.place.file, binding.node))
    inner = default.value if isinstance(default, Assumed) else default
    if inner is not None and _names(inner):
        return f"`{node.attr}` of `{owner.node.name}` has a tuple for its default", "default"
    if binding.annotation is None or inner is not None:
        return None
    kinds = annotated(evaluator, Place(owner.place.file, binding.annotation))
    if kinds and all(isinstance(kind, Api) and kind.name in _TUPLES for kind in kinds):
        return f"`{node.attr}` of `{owner.node.name}` is annotated as a tuple of names", "annotated"
    return None
