"""SL330."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from typing import ClassVar

from shardlint.model.mesh.logical import rules_of
from shardlint.model.values import Constant, Items, Value, options
from shardlint.rules_api.rule import Calls, Certainty, Finding, Harm, Lines, Rule, Violates
from shardlint.rules_api.site import Site
from shardlint.syntax import FileFacts
from shardlint.syntax.nodes import walk
from shardlint_rules.mesh._first_match import (
    covers,
    hidden,
    hidden_by_joining,
    hidden_of,
    inner_only,
    looked_up,
    of_linen,
    ways,
)

_SPEC = "jax.sharding.PartitionSpec"
# The functions of Linen that look up logical names, and the position of their rules.
_LOOKUPS = {
    "flax.linen.logical_axis_rules": 0,
    "flax.linen.set_logical_axis_rules": 0,
    "flax.linen.logical_to_mesh": 1,
    "flax.linen.logical_to_mesh_axes": 1,
    "flax.linen.logical_to_mesh_sharding": 2,
}
_LEAST = 2
# The first of the pairs in a table.
_PAIRS = r"[^#\n]*[(\[](?:\s++|#[^\n]*+)*+[(\[]\s*+[\"']\w++[\"']\s*+,"


class RuleMatchesNothing(Rule):
    """A rule of a partition table never takes effect: an earlier rule shadows it, or `re.match` anchors it.

    The weights or activations it is for get the earlier rule, often `(".*", P())`, and are replicated. Nothing is
    raised.

    ## Reports
    - `before` (likely): a pair of a regular expression and a spec that matches everything a later pair matches, such
      as `("kernel", P())` before `("mlp/kernel", P("model"))`, where the loops of the project stop at the first match.
    - `hidden` (likely): two rules of Linen for one logical name, `("mlp", None)` before `("mlp", "model")`, also in
      lists that are joined or come from another file.
    - proven: `re.match` of a pattern that matches none of the paths it is tried on, and stands inside one of them.
    - `anchored` (likely): `re.match(pattern, path)` over a table whose expressions begin with layers inside other
      layers; it only tries the beginning of the path.

    ## Write instead
    The more specific rule first.

    ## Limits
    NNX takes the last rule of a logical name, so files of projects that use NNX are not reported.
    """

    code = "SL330"
    name = "partition-rule-matches-nothing"
    harm = Harm.SILENT
    certainty = Certainty.POSSIBLE
    likely = ("hidden", "before", "anchored")
    assumptions: ClassVar[Mapping[str, str]] = {
        "hidden": "Linen looks up the names in this table.",
        "before": "A loop of the project that stops at the first match looks up names in this table.",
        "anchored": "The paths begin with the name of the outermost layer.",
    }
    triggers = (
        Calls(_SPEC, file_says=(r"(?:)[\"'][^\"'\n/]*+/[^\"'\n]*+[\"']\s*,\s*[\w.]+\(",)),
        Calls("re.match", *_LOOKUPS),
        Lines(_PAIRS, on="any"),
        Violates("pattern.anchored"),
    )
    fixes = "none"
    forms = ("call", "line", "violation")

    def check(self, site: Site) -> Iterator[Finding]:
        """At most one finding for a pair of a table, or for a call that looks one up."""
        if site.form == "violation":
            yield self._matched_nothing(site)
        elif site.form == "line":
            yield from self._in_table(site)
        elif site.api in _LOOKUPS:
            yield from self._in_rules(site)
        elif site.api == "re.match":
            yield from self._anchored(site)
        else:
            yield from self._covering(site)

    def _covering(self, site: Site) -> Iterator[Finding]:
        """A pair that matches all that a later one does."""
        pair = site.file.parent(site.call)
        table = site.file.parent(pair) if isinstance(pair, ast.Tuple) else None
        pattern = _pattern(pair) if isinstance(pair, ast.Tuple) else None
        if not isinstance(pair, ast.Tuple) or pattern is None or not isinstance(table, ast.Tuple | ast.List):
            return
        spec = site.text(site.call)
        later = [one for one in table.elts[table.elts.index(pair) + 1 :] if isinstance(one, ast.Tuple)]
        others = [text for one in later if (text := _pattern(one)) and site.text(one.elts[1]) != spec]
        if not others:
            return
        lookups = site.program.once(site.file, "lookups in tables", lambda: ways(site))
        dead = [text for text in others if lookups and all(covers(pattern, text, way) for way in lookups)]
        if dead:
            yield site.finding(
                pair,
                f"The rule for `{dead[0]}` never takes effect: `{pattern}` matches first.",
                label="matches first",
                help="move this rule after the more specific ones",
                form="before",
                why="the loops of the project over such tables stop at the first match"
                + (f"; {len(dead) - 1} more rules are shadowed" if len(dead) > 1 else ""),
            )

    def _matched_nothing(self, site: Site) -> Finding:
        said = site.violation.said
        return site.finding(
            site.syntax,
            f"The rule `{said['pattern']}` matches no path: `re.match` tries the beginning alone.",
            help="use re.search, or begin the expressions with `.*`",
            certainty=Certainty.PROVEN,
            why=f"it stands inside the path `{said['path']}`",
        )

    def _in_table(self, site: Site) -> Iterator[Finding]:
        """A rule of Linen for a logical name with a later rule for the same name."""
        if not isinstance(site.syntax, ast.Assign | ast.AnnAssign | ast.Return) or site.syntax.value is None:
            return
        joined = hidden_by_joining(site.file)
        for table in walk(site.syntax.value):
            if not isinstance(table, ast.List | ast.Tuple):
                continue
            own = list(hidden(table))
            known = {id(one.node) for one, _ in own}
            for one, later in (*own, *(both for both in joined if both[0].node in table.elts)):
                if id(one.node) in known and (one, later) not in own:
                    continue
                if not of_linen(site):
                    return
                axes = tuple(sorted(later.axes - one.axes))
                yield self._shadowed(
                    site, one.node, one.name, axes, f"line {later.node.lineno} has a later rule"
                )

    def _in_rules(self, site: Site) -> Iterator[Finding]:
        """Rules of Linen by value: of another file, or of several lists."""
        given, at = site.arguments, _LOOKUPS[site.api]
        place = given.keywords.get("rules") or (given.positional[at] if len(given.positional) > at else None)
        if place is None or given.open_positional:
            return
        for option in options(site.program.evaluator.value(place)):
            table = rules_of(option)
            found = hidden_of(table.rules) if table is not None else None
            if found is not None and of_linen(site):
                if any(_shows_hidden(one) for one in site.program.together(site.file)):
                    return  # reported there
                name, first, later = found
                shown = " and ".join(repr(one) for one in first) or "None"
                node = place.node if place.file is site.file else site.call
                yield self._shadowed(site, node, name, later, f"the first of two rules gives {shown}")
                return

    def _shadowed(self, site: Site, node: ast.AST, name: str, axes: tuple[str, ...], why: str) -> Finding:
        return site.finding(
            node,
            f'Logical axis "{name}" is never sharded over {", ".join(axes)}: Linen takes its first rule.',
            label=f'two rules for "{name}"',
            help="remove one of the two rules, or put the other one first",
            form="hidden",
            why=why,
        )

    def _anchored(self, site: Site) -> Iterator[Finding]:
        """`re.match` with expressions that begin with an inner layer."""
        name = looked_up(site.call)
        loop = next((one for one in _loops(site) if _first_target(one) == name), None) if name else None
        if loop is None:
            return
        for option in options(site.value(loop.iter)):
            pairs = option.items if isinstance(option, Items) else ()
            steps = [step for one in pairs if (step := _step(one)) is not None]
            inner = [one for one in dict.fromkeys(steps) if inner_only(site, one)]
            if len(inner) >= _LEAST:
                shown = ", ".join(f"`{one}`" for one in inner[:3])
                yield site.finding(
                    site.call,
                    f"Rules for {shown} never match: `re.match` only tries the beginning of the path.",
                    help="use re.search, or begin the expressions with .*",
                    form="anchored",
                    why="these layers are inside other layers, so no path begins with them",
                )
                return


def _shows_hidden(file: FileFacts) -> bool:
    """True if a rule that shadows a later one is reported in the file that lists them."""
    if not any(map(file.says, ("import jax", "from jax", "import flax", "from flax"))):
        return False  # plain data: such files are not checked
    tables = [one for one in walk(file.tree) if isinstance(one, ast.List | ast.Tuple)]
    return any(True for one in tables for _ in hidden(one)) or bool(hidden_by_joining(file))


def _pattern(node: ast.expr) -> str | None:
    """The expression of a pair that has a call for its spec."""
    if isinstance(node, ast.Tuple) and len(node.elts) == 2 and isinstance(node.elts[0], ast.Constant):
        value = node.elts[0].value
        return value if isinstance(value, str) and isinstance(node.elts[1], ast.Call) else None
    return None


def _loops(site: Site) -> Iterator[ast.For | ast.comprehension]:
    """The loops around a call, the innermost first."""
    for one in site.file.ancestors(site.call):
        if isinstance(one, ast.For):
            yield one
        elif isinstance(one, ast.GeneratorExp | ast.ListComp | ast.DictComp):
            yield from one.generators


def _first_target(loop: ast.For | ast.comprehension) -> str | None:
    target = loop.target.elts[0] if isinstance(loop.target, ast.Tuple) else None
    return target.id if isinstance(target, ast.Name) else None


def _step(pair: Value) -> str | None:
    """The plain name with which the expression of a rule begins, before its first slash."""
    first = pair.items[0] if isinstance(pair, Items) and len(pair.items) == 2 else None
    if not isinstance(first, Constant) or not isinstance(first.value, str) or "/" not in first.value:
        return None
    step = first.value.split("/")[0]
    return step if step.isidentifier() else None
