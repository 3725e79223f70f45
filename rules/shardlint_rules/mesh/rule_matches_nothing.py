"""SL330."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from shardlint.rules_api.rule import Calls, Certainty, Finding, Harm, Rule
from shardlint.rules_api.site import Site
from shardlint.source.patterns import regex

_LEAVES = frozenset("kernel bias scale embedding weight w b".split())
_WORD = regex(r"[A-Za-z_][A-Za-z_0-9]*")
_LAYER = regex(
    r"(?:self\.(\w+)\s*=\s*|(\w+)\s*=\s*)(?:[\w.]+\.)?(?:Dense|DenseGeneral|Linear|Embed|Embedding|Conv|LayerNorm|RMSNorm)\("
)
_NAMED = regex(r"\bname\s*=\s*[\"'](\w+)[\"']")
_LEAST = 2


class RuleMatchesNothing(Rule):
    """A partition rule names a layer that the model does not have.

    ## What it does
    Looks at tables of pairs of a regular expression and a `PartitionSpec` that stand in the file of their model, and
    reports a pair whose expression names a layer that the file does not make, where other pairs of the table name
    layers it makes, and it makes dense layers or embeddings that no pair speaks of.

    ## Why it hurts
    The table was written for another model. The weights it should split meet the last rule, mostly `(".*", P())`, and
    lie whole on every device; nothing is raised.

    ## Evidence
    The proof shows the weights whole. Left alone: tables in files without layers, tables of which every pair or none
    names a layer of the file, models whose layers all have a rule, and layers that are named in a file of
    which this one imports something.
    """

    code = "SL330"
    name = "partition-rule-matches-nothing"
    harm = Harm.SILENT
    certainty = Certainty.POSSIBLE
    likely = ("layer",)
    triggers = (
        Calls("jax.sharding.PartitionSpec", file_says=(r"(?:)[\"'][^\"'\n/]*+/[^\"'\n]*+[\"']\s*,\s*[\w.]+\(",)),
    )
    fixes = "none"
    forms = ("call",)

    def check(self, site: Site) -> Iterator[Finding]:
        """At most one finding for a pair of a table."""
        pair = site.file.parent(site.call)
        table = site.file.parent(pair) if isinstance(pair, ast.Tuple) else None
        pattern = _pattern(pair) if isinstance(pair, ast.Tuple) else None
        if pair is None or pattern is None or not isinstance(table, ast.Tuple | ast.List) or not site.call.args:
            return
        patterns = [one for one in map(_pattern, table.elts) if one is not None]
        if len(patterns) <= _LEAST:
            return
        layers = _layers(site)
        alive = [one for one in patterns if _speaks_of(one, layers)]
        left = sorted(one for one in layers if not any(_speaks_of(each, {one}) for each in patterns))
        names = _names(pattern)
        if not names or pattern in alive or len(alive) < _LEAST or not left or _elsewhere(site, table, names):
            return
        shown = ", ".join(f"`{one}`" for one in left[:3])
        yield site.finding(
            pair,
            f"no layer of this file is called {' or '.join(sorted(names))}",
            f"The rule matches nothing, and for {shown} there is none but one for all the rest.",
            help=f"write rules for {shown}",
            certainty=Certainty.POSSIBLE,
            form="layer",
            why=f"the file makes {len(layers)} layers, and the table speaks of others",
        )


def _pattern(node: ast.expr) -> str | None:
    if isinstance(node, ast.Tuple) and len(node.elts) == 2 and isinstance(node.elts[0], ast.Constant):
        value = node.elts[0].value
        return value if isinstance(value, str) and isinstance(node.elts[1], ast.Call) else None
    return None


def _names(pattern: str) -> frozenset[str]:
    """The layers that an expression names: the words of its last step that is no `kernel` or `bias`."""
    for step in reversed(pattern.strip("^$").split("/")):
        words = frozenset(_WORD.findall(re.sub(r"\[[^\]]*\]|\\.", " ", step)))
        if words and not words <= _LEAVES:
            return words - _LEAVES
        if not words:
            return frozenset()
    return frozenset()


def _layers(site: Site) -> frozenset[str]:
    """What the layers are called that the file makes."""
    text = site.file.source.text
    made = {one or other for one, other in _LAYER.findall(text)} | set(_NAMED.findall(text))
    return frozenset(one for one in made if len(one) > 1)


def _speaks_of(pattern: str, layers: frozenset[str] | set[str]) -> bool:
    """Whether an expression names one of these layers, or may mean any."""
    names = _names(pattern)
    return any(
        one == name or (name.endswith("_") and one.startswith(name)) for one in layers for name in names
    )


def _elsewhere(site: Site, table: ast.AST, names: frozenset[str]) -> bool:
    """Whether the file says one of the names anywhere but in the table, or a file does that it imports."""
    start, end = site.file.span(table)
    text = site.file.source.text
    said = re.compile("|".join(rf"\b{re.escape(one)}" for one in sorted(names)))
    return any(said.search(one) for one in (text[:start] + text[end:], *_imported(site)))


def _imported(site: Site) -> Iterator[str]:
    """The texts of the project's files of which this one imports something: layers may come from there."""
    project, path = site.program.project, site.file.path
    for one in site.file.statements_beginning(r"from\b", ("from",)):
        if not isinstance(one, ast.ImportFrom):
            continue
        module = one.module or ""
        found = project.relative(path, one.level, module) if one.level else project.resolve(module, path)
        facts = project.facts(found) if found is not None else None
        if facts is not None:
            yield facts.source.text
