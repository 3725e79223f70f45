"""SL345."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from shardlint.model.mesh.meshes import is_spec
from shardlint.model.values import Constant, options
from shardlint.rules_api.rule import Calls, Certainty, Edit, Finding, Harm, Rule, Safety
from shardlint.rules_api.site import Site

_SPEC = "jax.sharding.PartitionSpec"


class TupleAmongSpecs(Rule):
    """One entry of a table of specs is a tuple of axis names.

    ## What it does
    Reports a tuple, or a list, of axis names and `None` in a dictionary or list whose other entries are
    `PartitionSpec`s, where it names an axis that these name too: `{"up": P(None, "model"), "down": ("model", None)}`.
    Tables in which tuples are no exception are left alone: code that reads them takes both.

    ## Why it hurts
    `PartitionSpec` is a leaf of a tree, a tuple is a tree of its own: `tree.map` goes into it, `is_leaf=lambda s:
    isinstance(s, P)` does not hold, and `isinstance(spec, P)` answers no. What follows depends on who reads the table:
    an error about trees that do not match or about a string, or a weight that stays whole on every device.

    ## Fix safety
    Unsafe: the array is sharded where it was not.

    ## Evidence
    Run on jax 0.4.38 to 0.12: a `PartitionSpec` is a leaf for `jax.tree` on each of them, a tuple is none.
    """

    code = "SL345"
    name = "tuple-among-specs"
    harm = Harm.SILENT
    certainty = Certainty.POSSIBLE
    likely = ("one-of-several",)
    triggers = (Calls(_SPEC),)
    forms = ("call",)
    fixes = "unsafe"

    def check(self, site: Site) -> Iterator[Finding]:
        """One finding for a table, at its first spec."""
        entries = _entries(site)
        written = [one for one in entries if _is_call(site, one)]
        if not written or written[0] is not site.call:
            return
        odd = [one for one in entries if isinstance(one, ast.Tuple | ast.List)]
        specs = [one for one in entries if one not in odd]
        if len(odd) > 2 or len(specs) < 2 * len(odd) or not all(is_spec(site.value(one)) for one in specs):
            return
        named = {axis for one in specs for axis in _axes(site, one)}
        for one in odd:
            names = _names(site, one)
            if names is None or not names & named:
                continue
            text, func = site.text(one), site.text(site.call.func)
            start, end = site.file.span(one)
            inner = ", ".join(site.text(part) for part in one.elts)
            fix = site.fix(
                Safety.UNSAFE,
                f"write {func}({inner})",
                [Edit(start, end, f"{func}({inner})")],
                "the array is sharded where it was not",
            )
            yield site.finding(
                one,
                f"`{text}` is a tree of names, not a spec: `jax.tree` goes into it, and `isinstance(spec, "
                "PartitionSpec)` does not hold for it.",
                label=f"a {'list' if isinstance(one, ast.List) else 'tuple'} among PartitionSpecs",
                help=f"write {func}({inner})",
                form="one-of-several",
                why=f"the other {len(specs)} entries are PartitionSpecs, and name {_words(names & named)} too",
                fix=fix,
            )


def _entries(site: Site) -> Sequence[ast.expr]:
    """The entries of the dictionary, the list, or the call of `dict`, that a spec stands in."""
    outer = site.file.parent(site.call)
    if isinstance(outer, ast.keyword):
        call = site.file.parent(outer)
        plain = isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id == "dict"
        return [one.value for one in call.keywords] if plain and isinstance(call, ast.Call) else []
    if isinstance(outer, ast.Dict) and site.call in outer.values:
        return outer.values
    return outer.elts if isinstance(outer, ast.List) else []


def _is_call(site: Site, node: ast.expr) -> bool:
    return isinstance(node, ast.Call) and is_spec(site.value(node))


def _axes(site: Site, node: ast.expr) -> set[str]:
    spec = site.spec_of(site.value(node))
    return {axis for entry in spec.entries for axis in entry.axes} if spec is not None else set()


def _names(site: Site, node: ast.Tuple | ast.List) -> set[str] | None:
    """The names in a tuple of names, `None` and tuples of names; None where something else stands in it."""
    found: set[str] = set()
    for part in node.elts:
        if isinstance(part, ast.Tuple):
            inner = _names(site, part)
            if not inner:
                return None
            found |= inner
            continue
        for one in options(site.value(part)):
            if not isinstance(one, Constant) or not (one.value is None or isinstance(one.value, str)):
                return None
            if one.value is not None:
                found.add(one.value)
    return found


def _words(names: set[str]) -> str:
    return ", ".join(f'"{one}"' for one in sorted(names))
