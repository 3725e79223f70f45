"""SL655."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from typing import ClassVar

from shardlint.model.reach import lookup
from shardlint.model.values import Api, Constant, Table, options
from shardlint.rules_api.rule import Calls, Certainty, Finding, Harm, Lines, Rule
from shardlint.rules_api.site import Site
from shardlint.source.lazy import dataclass
from shardlint.source.patterns import regex
from shardlint.syntax.nodes import walk
from shardlint_rules.einshard.calls import MAKE, SHARD
from shardlint_rules.einshard.expression import Expression, parse

# An embedding and a head may be split along different dimensions.
_APART = regex(r"(?i)emb|wte|tok|vocab|head|norm|lm_")

# Names for the dimensions of any array.
_ANY = frozenset(("i", "o", "in", "out", "x", "y", "a", "b", "rows", "cols", "in_dim", "out_dim"))


@dataclass(frozen=True)
class _One:
    """An expression of a group: where it stands, what it is for, and the names it has and splits."""

    node: ast.expr
    label: str
    has: frozenset[str]
    splits: frozenset[str]
    order: tuple[str | None, ...]


class OddOneOut(Rule):
    """One einshard expression splits another dimension than its siblings.

    ## What it does
    Reports, of the expressions in one function or one dict, the one that splits a dimension which the others leave
    whole where they have it, and leaves one whole that all others split.

    ## Why it hurts
    Where queries are split by head and keys inside the head, or both layers of an MLP along their outputs, each product
    needs the other array laid out anew: an all-to-all or all-gather in every forward pass. Nothing is raised.

    ## Use instead
    The dimension that the siblings split: `m h k -> m h* k` beside `m h k -> m h* k`, `f d -> f* d` behind
    `d f -> d f*`.

    ## Evidence
    Run with einshard 0.2.0 on jax 0.12: an all-to-all more in each forward pass. Left alone: groups in which two
    expressions stand against each other, embeddings and heads, and names that no sibling has.
    """

    code = "SL655"
    name = "einshard-odd-one-out"
    harm = Harm.SILENT
    certainty = Certainty.POSSIBLE
    likely = ("siblings",)
    releases: ClassVar[Mapping[str, str]] = {"einshard": ">=0.2"}
    triggers = (
        Calls(SHARD, MAKE),
        Lines(r"""[^#\n]*->[\w\s]*\w\*""", file_says="einshard", saying=("->",), on="any"),
    )
    forms = ("call", "line")
    in_tests = False
    fixes = "none"

    def check(self, site: Site) -> Iterator[Finding]:
        """One finding for the expression of a call, or of a table."""
        if not site.wants("siblings"):
            return
        group = _of_table(site) if site.form == "line" else _of_import(site) or _of_function(site)
        odd = [(one, lost, taken) for one in group for lost, taken in _odd(one, group)]
        if len({id(one) for one, _, _ in odd}) != 1:
            return
        one, lost, taken = odd[0]
        if site.form == "call" and not any(part is site.call for part in site.file.ancestors(one.node)):
            return
        where = (
            f"in `{one.label}`, "
            if any(other.node is one.node for other in group if other is not one)
            else ""
        )
        beside = next(other for other in group if lost in other.splits)
        yield site.finding(
            one.node,
            f"{where}this splits {taken}, and its siblings split {lost}",
            f"On {site.release('einshard')} the array is laid out otherwise than those it is multiplied with, and each "
            "product moves one of them between the devices.",
            help=f"write {lost}* in place of {taken}*",
            form="siblings",
            why=f"`{beside.label}` splits {lost}, as all others do that have it, and none but this one splits {taken}",
        )


def _odd(one: _One, group: list[_One]) -> Iterator[tuple[str, str]]:
    """The name that an expression should split by its siblings, and the one that it splits."""
    others = [other for other in group if other is not one]
    if len(one.splits) != 1 or _APART.search(one.label) or one.has & _ANY:
        return
    if len(one.has) < 3 and all(other.order == one.order for other in others if other.has == one.has):
        return  # `i o` of each matrix: the names say nothing of which dimensions belong together
    (taken,) = one.splits
    with_taken = [other for other in others if taken in other.has]
    if not with_taken or any(taken in other.splits for other in with_taken):
        return
    for name in sorted(one.has - one.splits):
        with_name = [other for other in others if name in other.has and other.splits]
        if with_name and all(name in other.splits for other in with_name) and len(others) > 1:
            yield name, taken
            return


def _parsed(node: ast.expr, label: str, text: object) -> _One | None:
    expression = parse(text) if isinstance(text, str) and "->" in text else None
    if not isinstance(expression, Expression) or expression.elided:
        return None
    has = frozenset(one.name for one in expression.left if one.name is not None)
    taken = {name: expression.taken(name) for name in has}
    splits = frozenset(name for name, one in taken.items() if one is not None and one.splits)
    return _One(node, label, has, splits, tuple(one.name for one in expression.left))


def _of_table(site: Site) -> list[_One]:
    """The expressions of a dict that a statement binds."""
    value = getattr(site.syntax, "value", None)
    if not isinstance(value, ast.Dict):
        return []
    found = []
    for key, text in zip(value.keys, value.values, strict=True):
        if isinstance(key, ast.Constant) and isinstance(text, ast.Constant):
            one = _parsed(text, str(key.value), text.value)
            found += [one] if one is not None else []
    return found


def _of_import(site: Site) -> list[_One]:
    """The expressions of a table of another file, of which a call takes one: `einshard(w, EXPRESSIONS[name])`."""
    given = site.argument("expression")
    if not isinstance(given, ast.Subscript) or not isinstance(given.value, ast.Name):
        return []
    bindings, _ = lookup(site.file, given.value, given.value.id)
    table = site.value(given.value)
    if not isinstance(table, Table) or any(one.kind != "from" for one in bindings):
        return []
    made = [
        _parsed(given, str(getattr(key, "value", key)), one.value)
        for key, one in table.entries
        if isinstance(one, Constant)
    ]
    return [one for one in made if one is not None]


def _of_function(site: Site) -> list[_One]:
    """The expressions of all calls in the function around a call."""
    scope = site.scope.function()
    if scope is None:
        return []
    found = []
    for call in walk(scope.node):
        if not isinstance(call, ast.Call) or len(call.args) < 2:
            continue
        if not all(
            isinstance(one, Api) and one.name in (SHARD, MAKE) for one in options(site.value(call.func))
        ):
            continue
        values = options(site.value(call.args[1]))
        value = values[0]
        if len(values) == 1 and isinstance(value, Constant):
            one = _parsed(call.args[1], site.shown(call.args[0]), value.value)
            found += [one] if one is not None else []
    return found
