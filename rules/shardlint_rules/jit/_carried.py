"""Arguments that a call gives and binds again to its result, which come back with another sharding. For SL213."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator

from shardlint.model.mesh.meshes import is_sharding
from shardlint.model.reach import assigned_once
from shardlint.model.values import Items, Place, Value
from shardlint.rules_api.site import Site
from shardlint.source.lazy import dataclass
from shardlint_rules.jit.sharded import calls

Placement = Callable[[Site, Value], object]


@dataclass(frozen=True)
class Carried:
    """What a call carries on, at which positions of `in_shardings` and of the results, the entries, and the call."""

    name: str
    taken: ast.expr
    given: ast.expr
    place: Place


def carried(site: Site, placement: Placement) -> Iterator[Carried]:
    """The arguments of which the entry in `in_shardings` is another than that of the result they are bound to."""
    taking, giving = site.keyword("in_shardings"), site.keyword("out_shardings")
    if taking is None or giving is None or site.keyword("static_argnums") or site.keyword("static_argnames"):
        return
    for seen in calls(site):
        statement = seen.file.parent(seen.call)
        if not isinstance(statement, ast.Assign) or len(statement.targets) != 1 or seen.arguments.open_positional:
            continue
        target = statement.targets[0]
        whole = not isinstance(target, ast.Tuple)
        results = [target] if isinstance(target, ast.Name | ast.Attribute) else list(getattr(target, "elts", []))
        names = {seen.file.text(one): at for at, one in enumerate(results) if isinstance(one, ast.Name | ast.Attribute)}
        for at, argument in enumerate(seen.call.args):
            name = seen.file.text(argument)
            if name not in names:
                continue
            taken = _entry(site, taking.value, at, False)
            given = _entry(site, giving.value, names[name], whole)
            if taken is None or given is None or site.text(taken) == site.text(given):
                continue
            if _differ(site, taken, given, placement):
                yield Carried(name, taken, given, Place(seen.file, seen.call))


def _entry(site: Site, node: ast.expr, at: int, whole: bool) -> ast.expr | None:
    """The expression for one argument or result; one sharding is for all of them."""
    written = assigned_once(site.file, node) if isinstance(node, ast.Name) else node
    if isinstance(written, ast.Tuple | ast.List) and not whole:
        if any(isinstance(one, ast.Starred) for one in written.elts) or at >= len(written.elts):
            return None
        return written.elts[at]
    value = site.value(node)
    return node if is_sharding(value) or (whole and not isinstance(value, Items)) else None


def _differ(site: Site, taken: ast.expr, given: ast.expr, placement: Placement) -> bool:
    """True if two entries surely are different shardings; None leaves it to the argument, or to the compiler."""
    one, other = placement(site, site.value(taken)), placement(site, site.value(given))
    return one is not None and other is not None and one != other
