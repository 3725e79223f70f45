"""SL330."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from shardlint.model.mesh.logical import rules_of
from shardlint.model.values import Constant, Items, Value, options
from shardlint.rules_api.rule import Calls, Certainty, Finding, Harm, Lines, Rule
from shardlint.rules_api.site import Site
from shardlint.source.patterns import regex
from shardlint.syntax import FileFacts
from shardlint.syntax.nodes import walk
from shardlint_rules.mesh._first_match import (
    covers,
    hidden,
    hidden_by_joining,
    hidden_of,
    inner_only,
    left_whole,
    looked_up,
    of_linen,
    ways,
)
from shardlint_rules.mesh._model_beside import unmade

_LEAVES = frozenset("kernel bias scale embedding weight w b".split())
_WORD = regex(r"[A-Za-z_][A-Za-z_0-9]*")
_LAYER = regex(
    r"(?:self\.(\w+)\s*=\s*|(\w+)\s*=\s*)(?:[\w.]+\.)?(?:Dense|DenseGeneral|Linear|Embed|Embedding|Conv|LayerNorm|RMSNorm)\("
)
_NAMED = regex(r"\bname\s*=\s*[\"'](\w+)[\"']")
_LEAST = 2
_MANY = 3
_ALL = frozenset((".*", "^.*", ".*$", "^.*$", "(.*)"))
_GIVEN = {
    "flax.linen.logical_axis_rules": 0,
    "flax.linen.set_logical_axis_rules": 0,
    "flax.linen.logical_to_mesh": 1,
    "flax.linen.logical_to_mesh_axes": 1,
    "flax.linen.logical_to_mesh_sharding": 2,
}
# The first of the pairs in a table.
_PAIRS = r"[^#\n]*[(\[](?:\s++|#[^\n]*+)*+[(\[]\s*+[\"']\w++[\"']\s*+,"
# A table that is returned: of expressions and what calls give.
_RETURNED = r"return\s*+[(\[](?:\s++|#[^\n]*+)*+[(\[]\s*+r?[\"'][^\"'\n]*+[\"']\s*+,\s*+[\w.]++\("


class RuleMatchesNothing(Rule):
    """A partition rule matches no weight: of another model's layers, behind one that ends the search, or anchored.

    ## What it does
    Looks at tables of pairs of a regular expression and a `PartitionSpec` that stand in the file of their model, and
    reports a pair whose expression names a layer that the file does not make, where other pairs of the table name
    layers it makes, and it makes dense layers or embeddings that no pair speaks of. In files without layers, a pair
    that names a step of the path that nothing in the project is called by, while three of four of the others do,
    where `.*` is last or the search leaves whole what no rule matches. In a table that the class of a config returns,
    a pair that names a step which the model beside it does not have, together with one that it has (`block/experts`,
    where the layer is `mlp.experts`), and one with a number for the parts of what is one layer
    (`experts/\\d+/up_proj`, where the experts are stacked).

    Two more are about tables of which the first rule that matches counts:

    - a rule that leaves none for a later one of the table: `(".*", P())` before others, `("kernel", P())` before
      `("mlp/kernel", P("model"))` where the project's loops stop at the first match, and rules of Linen for logical
      names, `("mlp", None)` before `("mlp", "model")`;
    - `re.match(pattern, path)` over a table whose expressions begin with layers that are made inside other layers: it
      tries the beginning of the path alone, which is the outermost layer's name.

    ## Why it hurts
    The table was written for another model, or its order or its search is not what was meant. The weights it should
    split meet another rule, mostly `(".*", P())`, and lie whole on every device; nothing is raised.

    ## Evidence
    The proof shows the weights whole. Left alone: tables in files without layers, tables of which every pair or none
    names a layer of the file, models whose layers all have a rule, and layers that are named in a file of
    which this one imports something.
    """

    code = "SL330"
    name = "partition-rule-matches-nothing"
    harm = Harm.SILENT
    certainty = Certainty.POSSIBLE
    likely = ("layer", "hidden", "anchored", "stale", "before", "unmade")
    triggers = (
        Calls(
            "jax.sharding.PartitionSpec", file_says=(r"(?:)[\"'][^\"'\n/]*+/[^\"'\n]*+[\"']\s*,\s*[\w.]+\(",)
        ),
        Calls("re.match", *_GIVEN),
        Lines(_PAIRS, on="any"),
        Lines(_RETURNED, saying=("return",), on="first"),
    )
    fixes = "none"
    forms = ("call", "line")

    def check(self, site: Site) -> Iterator[Finding]:
        """At most one finding for a pair of a table, or for what looks one up."""
        if site.form == "line":
            yield from self._hidden(site)
            yield from self._unmade(site)
            return
        if site.api in _GIVEN:
            yield from self._given(site)
            return
        if site.api == "re.match":
            yield from self._anchored(site)
            return
        pair = site.file.parent(site.call)
        table = site.file.parent(pair) if isinstance(pair, ast.Tuple) else None
        pattern = _pattern(pair) if isinstance(pair, ast.Tuple) else None
        if pair is None or pattern is None or not isinstance(table, ast.Tuple | ast.List):
            return
        yield from self._first(site, pair, table, pattern)
        if not site.call.args:
            return
        patterns = [one for one in map(_pattern, table.elts) if one is not None]
        if len(patterns) <= _LEAST:
            return
        layers = _layers(site)
        if not layers:
            yield from self._stale(site, pair, table, pattern, patterns)
            return
        alive = [one for one in patterns if _speaks_of(one, layers)]
        left = sorted(one for one in layers if not any(_speaks_of(each, {one}) for each in patterns))
        names = _names(pattern)
        if not names or pattern in alive or len(alive) < _LEAST or not left or _elsewhere(site, table, names):
            return
        shown = ", ".join(f"`{one}`" for one in left[:3])
        yield site.finding(
            pair,
            f"The rule matches nothing, and for {shown} there is none but one for all the rest.",
            label=f"no layer of this file is called {' or '.join(sorted(names))}",
            help=f"write rules for {shown}",
            certainty=Certainty.POSSIBLE,
            form="layer",
            why=f"the file makes {len(layers)} layers, and the table speaks of others",
        )

    def _stale(
        self, site: Site, pair: ast.AST, table: ast.expr, pattern: str, patterns: list[str]
    ) -> Iterator[Finding]:
        """A rule for a part of the tree that no file speaks of, in a table that speaks of the others."""
        steps = _plain_steps(pattern)
        others = [one for each in patterns if each != pattern and (one := _plain_steps(each))]
        if not site.wants("stale") or not steps or len(others) < _MANY:
            return
        missing = [one for one in steps if not _said(site, table, one)]
        others = [each for each in others if not set(missing) & set(each)]  # those have the same mistake
        known = [each for each in others if all(_said(site, table, one) for one in each)]
        if not missing or len(known) < _MANY or len(known) * 4 < len(others) * 3:
            return
        if _ALL & set(patterns) or left_whole(site):
            yield site.finding(
                pair,
                "The rule matches nothing: the weights it is meant for are laid out like those no rule speaks of.",
                label=f"nothing in this project is called `{missing[0]}`",
                help="write what the tree of parameters calls it",
                form="stale",
                why=f"{len(known)} of the other {len(others)} rules name what the project's code speaks of",
            )

    def _first(
        self, site: Site, pair: ast.AST, table: ast.Tuple | ast.List, pattern: str
    ) -> Iterator[Finding]:
        """A rule that matches all that a later one does."""
        spec = site.text(site.call)
        later = [one for one in table.elts[table.elts.index(pair) + 1 :] if isinstance(one, ast.Tuple)]  # type: ignore[arg-type]
        others = [(one, text) for one in later if (text := _pattern(one)) and site.text(one.elts[1]) != spec]
        if not others:
            return
        found = site.program.once(site.file, "ways of a table", lambda: ways(site))
        dead = [text for _, text in others if found and all(covers(pattern, text, way) for way in found)]
        if dead:
            yield site.finding(
                pair,
                f"The first rule that matches counts: this one matches all that {dead[0]!r} does"
                + (f", and {len(dead) - 1} more." if len(dead) > 1 else "."),
                label=f"nothing gets to {dead[0]!r} behind this",
                help="put it behind the rules that say more",
                form="before",
                why="the project's loops over such tables stop at the first match",
            )

    def _hidden(self, site: Site) -> Iterator[Finding]:
        """A rule of Linen for a logical name behind which another one of the name stands."""
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
                given = ", ".join(sorted(later.axes - one.axes))
                yield site.finding(
                    one.node,
                    f"Linen takes the first rule of a name: {one.name!r} is never split over {given}.",
                    label=f"line {later.node.lineno} has a rule for {one.name!r} too",
                    help="leave out one of the two, or put this one behind",
                    form="hidden",
                    why="the project looks up logical names with Linen",
                )

    def _unmade(self, site: Site) -> Iterator[Finding]:
        """A rule of a config for what the model beside it does not have."""
        table = site.syntax.value if isinstance(site.syntax, ast.Return) else None
        if table is None or not site.wants("unmade"):
            return
        for one in unmade(site, table, _LEAVES):
            yield site.finding(
                one.pair,
                "The rule matches nothing: the weights it is meant for meet a later one, mostly that for all the rest.",
                label=one.label,
                help="write what the tree of parameters calls it",
                form="unmade",
                why=one.why,
            )

    def _given(self, site: Site) -> Iterator[Finding]:
        """Rules of Linen from another file, or joined of several lists, where one ends what a later one would do."""
        given, at = site.arguments, _GIVEN[site.api]
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
                yield site.finding(
                    place.node if place.file is site.file else site.call,
                    f"Linen takes the first rule of a name: {name!r} is never split over {', '.join(later)}.",
                    label=f"two rules for {name!r}: the first gives {shown}",
                    help="leave out the first, or put it behind the other",
                    form="hidden",
                    why="the project looks up logical names with Linen",
                )
                return

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
                    f"The rules begin with {shown}, which are layers inside of others: no path begins with them.",
                    label="re.match tries the beginning of the path alone",
                    help="use re.search, or begin the expressions with .*",
                    form="anchored",
                    why="the classes that make these layers are made by other classes alone",
                )
                return


def _shows_hidden(file: FileFacts) -> bool:
    """Whether a rule for a logical name that hides a later one is reported where a file writes it down."""
    if not any(map(file.says, ("import jax", "from jax", "import flax", "from flax"))):
        return False  # plain data: such files are not looked into
    tables = [one for one in walk(file.tree) if isinstance(one, ast.List | ast.Tuple)]
    return any(True for one in tables for _ in hidden(one)) or bool(hidden_by_joining(file))


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


def _plain_steps(pattern: str) -> tuple[str, ...]:
    """The steps of a path that are written out, of which the last of all weights, as `kernel`, tell nothing."""
    found = [step for step in pattern.strip("^$").split("/") if step.isidentifier() and step not in _LEAVES]
    return tuple(one for one in found if len(one) > _LEAST)


def _said(site: Site, table: ast.expr, word: str) -> bool:
    """Whether a file of the project says a word, its table of rules aside."""
    return site.program.once(
        site.file, ("says beside its rules", table, word), lambda: _says(site, table, word)
    )


def _stem(word: str) -> str:
    """A name without the number of the layer."""
    return re.sub(r"_?\d+$", "", word) or word


def _says(site: Site, table: ast.expr, word: str) -> bool:
    start, end = site.file.span(table)
    said = re.compile(rf"(?:\b|_){re.escape(_stem(word))}(?:\b|_|\d)")
    for file in site.program.project.holding(site.file.path, (_stem(word),), joined=True):
        if file is None:
            return True
        text = file.source.text
        if said.search(text[:start] + text[end:] if file is site.file else text):
            return True
    return False


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
