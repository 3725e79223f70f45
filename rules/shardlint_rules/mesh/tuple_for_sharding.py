"""SL326."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from typing import ClassVar

from shardlint.model.values import Constant, Function, Items, Value, options
from shardlint.rules_api.rule import Attributes, Calls, Finding, Harm, Rule, detector
from shardlint.rules_api.site import Site
from shardlint.syntax import last_name
from shardlint.syntax.nodes import walk_nodes
from shardlint_rules.mesh.spec_parts import part_of_spec

_TAKING = {"jax.lax.with_sharding_constraint": "shardings", "jax.reshard": "out_shardings"}
_NAMED_SO = ("with_sharding_constraint", "sharding_constraint", "constrain", "shard_constraint")
_JITS = ("jax.jit", "jax.experimental.pjit.pjit")
_OF_JIT = ("in_shardings", "out_shardings")
_RAISING_TYPE = ("jax.lax.with_sharding_constraint", *_JITS)


class TupleForSharding(Rule):
    """A tuple of axis names is passed where jax takes a sharding.

    The call raises TypeError: jax reads the tuple as a tree of strings, and a string is not a sharding. `jax.reshard`
    raises ValueError. Only flax's `with_sharding_constraint` functions take such tuples.

    ## Reports
    - proven: `jax.lax.with_sharding_constraint(x, ("data", None))` and `jax.reshard` with a tuple of axis names, also
      through a name or a field.
    - proven: a part of a spec as the sharding: `spec[1:]`, `tuple(spec)` and `(*spec, None)` are tuples. In
      `in_shardings` and `out_shardings`, only a part that names an axis is reported.
    - `wrapper` (likely): a part of a spec as the argument of a project function that passes it to jax's constraint.

    ## Limits
    A tuple of shardings for a tuple of arrays is not reported. Since jax 0.6 `spec[1:] + P(None)` is a spec.
    """

    code = "SL326"
    name = "tuple-for-sharding"
    harm = Harm.CRASH
    likely = ("wrapper",)
    assumptions: ClassVar[Mapping[str, str]] = {"wrapper": "The part of the spec names an axis."}
    assumes = True
    triggers = (
        Calls(*_TAKING),
        Calls(*_JITS, file_says=_OF_JIT),
        Attributes("spec", file_says=(".spec[", "(*", "tuple(")),
    )
    fixes = "none"

    @detector("call", of=tuple(_TAKING))
    def report_tuple(self, site: Site) -> Finding | None:
        """A tuple in the place of the sharding of a constraint."""
        node = site.argument(_TAKING[site.api])
        if node is None:
            return None
        if part_of_spec(site, node):
            return self._make_finding(site, node)
        found = options(site.value(node))
        # An empty tuple may be the sharding of an empty tuple of arrays.
        if not any(isinstance(one, Items) and one.items for one in found):
            return None
        return self._make_finding(site, node) if all(map(_is_tuple_of_names, found)) else None

    @detector("attribute", finds="wrapper")
    def report_part_for_wrapper(self, site: Site) -> Finding | None:
        """A part of a spec that a function of the project hands to jax's constraint."""
        part = site.file.parent(site.syntax)
        part = site.file.parent(part) if isinstance(part, ast.Starred) else part
        call = site.file.parent(part) if part is not None else None
        if not isinstance(part, ast.expr) or not isinstance(call, ast.Call) or part not in call.args[1:2]:
            return None
        name = last_name(call.func)
        if name not in _NAMED_SO or not part_of_spec(site, part):
            return None
        if not all(
            isinstance(one, Function) and _forwards_second_parameter(one)
            for one in options(site.value(call.func))
        ):
            return None
        return self._make_finding(site, part, f"the `{name}` of this project passes the tuple to the constraint of jax")

    @detector("call", "partial", of=_JITS)
    def find_parts_in_jit(self, site: Site) -> Iterator[Finding]:
        """Each part of a spec with an axis among the shardings of `jit`."""
        for name in _OF_JIT:
            keyword = site.keyword(name)
            if keyword is None:
                continue
            for node in _list_parts(site, keyword.value):
                if all(_is_axis_name(one) for one in options(site.value(node))):
                    yield self._make_finding(site, node)

    def _make_finding(self, site: Site, node: ast.expr, why: str = "") -> Finding:
        raises = "raises TypeError" if site.api in _RAISING_TYPE else "raises"
        return site.finding(
            node,
            f"On {site.release('jax')} this {raises}: `{_short_text(site, node)}` is a tuple of axis names, "
            "not a sharding.",
            label="a tuple, not a sharding",
            help=f"write `PartitionSpec({_spec_arguments_text(site, node)})`",
            why=why,
        )


def _forwards_second_parameter(function: Function) -> bool:
    """Return whether a function passes its second parameter unchanged to a constraint of jax."""
    node = function.node
    taken = [one.arg for one in node.args.args][1:2] if isinstance(node, ast.FunctionDef) else []
    words = list(walk_nodes(node))
    if any(isinstance(one, ast.Name) and one.id in taken and isinstance(one.ctx, ast.Store) for one in words):
        return False
    return any(
        isinstance(one, ast.Call)
        and last_name(one.func).lstrip("_") == "with_sharding_constraint"
        and [given.id for given in one.args[1:2] if isinstance(given, ast.Name)] == taken != []
        for one in words
    )


def _is_tuple_of_names(value: Value) -> bool:
    """Return whether a value is surely a tuple of axis names, or an empty one."""
    if not isinstance(value, Items) or value.open or value.kind not in ("tuple", "list"):
        return False
    return all(
        (isinstance(one, Constant) and (one.value is None or isinstance(one.value, str)))
        or (_is_tuple_of_names(one) and _is_filled_sequence(one))
        for one in value.items
    ) and (
        not value.items or any(not (isinstance(one, Constant) and one.value is None) for one in value.items)
    )


def _list_parts(site: Site, node: ast.expr) -> Iterator[ast.expr]:
    """The parts of specs in a tree of shardings that is written out."""
    if part_of_spec(site, node):
        yield node
    elif isinstance(node, ast.Tuple | ast.List):
        for one in node.elts:
            yield from _list_parts(site, one)
    elif isinstance(node, ast.Dict):
        for one in node.values:
            yield from _list_parts(site, one)


def _is_axis_name(value: Value) -> bool:
    return isinstance(value, Items) and any(
        isinstance(one, Constant) and isinstance(one.value, str) for one in value.items
    )


def _is_filled_sequence(value: Value) -> bool:
    return isinstance(value, Items) and bool(value.items)


def _spec_arguments_text(site: Site, node: ast.expr) -> str:
    if isinstance(node, ast.Tuple):
        return ", ".join(site.shown(one) for one in node.elts)
    return f"*({site.shown(node)})" if isinstance(node, ast.BinOp | ast.IfExp) else f"*{site.shown(node)}"


def _short_text(site: Site, node: ast.expr) -> str:
    text = site.shown(node)
    return text if len(text.split()) < 5 else "it"
