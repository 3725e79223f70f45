"""From the names that rules trigger on to the sites in a file."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from itertools import chain
from typing import NamedTuple

from shardlint.config.targets import Targets
from shardlint.engine.catalogue import Card
from shardlint.engine.conditions import IMPORT, WITH
from shardlint.engine.index import RuleIndex, Word
from shardlint.engine.qualified_names import found_in
from shardlint.model import Program, api
from shardlint.model.values import Api, CallResult, Transformed, Value, options
from shardlint.rules_api.rule import Form
from shardlint.rules_api.site import Site
from shardlint.syntax import FileFacts, last_name
from shardlint.syntax.lines import EVERY, LineSet

_IMPORTING = r"(?:import|from)\b"


class TriggerCandidate(NamedTuple):
    """A place in a file, and the rules that ask what stands there. With a `form` they need not ask: it is a site."""

    node: ast.AST
    rules: frozenset[Card]
    evaluated: bool = False
    form: Form | None = None
    api: Api = Api("", "")


def find_sites(
    program: Program, file: FileFacts, index: RuleIndex, targets: Targets, words: Iterable[Word]
) -> list[Site]:
    """The sites of a file, in text order. `words` are those of its text."""
    return sites_at(program, file, index, targets, places_to_check(file, index, words))


def places_to_check(file: FileFacts, index: RuleIndex, words: Iterable[Word]) -> list[TriggerCandidate]:
    """The places of a file at which rules may trigger, by its text alone."""
    return places_on_lines(file, index, words, ())[0]


class FollowedName(NamedTuple):
    """A name that stands for what a word is, where another says so (`P = PartitionSpec`); rules by their codes."""

    source: str
    word: str
    beside: tuple[str, ...]
    rules: tuple[str, ...]
    evaluated: bool


def places_on_lines(
    file: FileFacts,
    index: RuleIndex,
    words: Iterable[Word],
    followed_names: Iterable[FollowedName],
    among: LineSet = EVERY,
) -> tuple[list[TriggerCandidate], list[tuple[ast.AST, FollowedName]]]:
    """The same on some lines, and maybe others, with what is followed and where.

    `followed_names` are the names that are followed anyway, for what stands on other lines.
    """
    found: list[TriggerCandidate] = []
    names = []
    for word in words:
        if word.word == IMPORT:
            found += _matching_statements(file, index, word, among)
        elif word.word == WITH:
            found += (one for one in _entered_contexts(file, index, among) if one.rules <= word.rules)
        else:
            names.append(word)
    mentioned: dict[ast.AST, set[Card]] = {}
    evaluated: set[ast.AST] = set()
    followed: list[tuple[ast.AST, FollowedName]] = []
    also = [Word(one.word, one.beside, index.select_codes(one.rules), one.evaluated) for one in followed_names]
    following = frozenset(chain(*index.names.values()))
    for node, word, more in _mentions_of_words(file, names, also, following, among):
        mentioned.setdefault(node, set()).update(word.rules)
        if word.evaluated:
            evaluated.add(node)
        for one in more:
            codes = tuple(sorted(rule.rule_code for rule in one.rules))
            followed.append((node, FollowedName(word.word, one.word, one.beside, codes, one.evaluated)))
    places = (TriggerCandidate(node, frozenset(rules), node in evaluated) for node, rules in mentioned.items())
    return [*found, *places], followed


def sites_at(
    program: Program, file: FileFacts, index: RuleIndex, targets: Targets, places: Iterable[TriggerCandidate]
) -> list[Site]:
    """The sites at some places, in text order."""
    found: dict[tuple[int, str, int], Site] = {}
    for node, asking, evaluated, given, taken in places:
        if given == "violation":
            from shardlint.facts.layouts import violations_of  # most files break none, and never load it

            for place, broken in enumerate(violations_of(program, file, targets)):
                for rule in asking.intersection(index.violates.get(broken.kind, ())):
                    key = id(broken.place.node), rule.rule_code, 5 + place
                    kind = Api(broken.kind, broken.kind)
                    found[key] = Site(
                        program, file, broken.place.node, kind, given, targets, rule.rule, index.least, number=place
                    )
            continue
        if given is not None:
            for rule in asking:
                key = id(node), rule.rule_code, 2 if given == "with" else 3
                found.setdefault(key, Site(program, file, node, taken, given, targets, rule.rule, index.least))
            continue
        for syntax, named, form, triggered in _triggers_at_node(program, file, node, index, evaluated):
            for rule in triggered:
                key = id(syntax), rule.rule_code, 0 if form != "partial" else 1
                # What is called says more than a keyword it is given.
                if rule in asking and (key not in found or found[key].form == "keyword"):
                    found[key] = Site(program, file, syntax, named, form, targets, rule.rule, index.least)
    return sorted(found.values(), key=site_order)


def site_order(site: Site) -> tuple[int, int, str, str]:
    """The order of sites in a file."""
    line, column = getattr(site.syntax, "lineno", 0), getattr(site.syntax, "col_offset", 0)
    return line, column, site.rule.code, site.form


def _entered_contexts(file: FileFacts, index: RuleIndex, among: LineSet) -> Iterator[TriggerCandidate]:
    for word, rules in index.withs.items():
        for node in file.withs_saying(word, among):
            for item in node.items:
                for rule in rules:
                    yield TriggerCandidate(item.context_expr, frozenset((rule,)), form="with")


def _matching_statements(file: FileFacts, index: RuleIndex, word: Word, on: LineSet) -> Iterator[TriggerCandidate]:
    among = word.rules
    for part, rules in index.statements.items():
        asking = frozenset(rule for rule in rules if rule in among)
        for call in file.statements_calling(part, on) if asking else ():
            yield TriggerCandidate(call, asking, form="statement")
    for pattern, rules in index.lines.items():
        asking = frozenset(rule for rule in rules if (rule, pattern) in word.lines)
        if not asking:
            continue
        saying, line = next(iter(asking)).lines[pattern]  # rules with the same pattern say the same of it
        for node in file.statements_beginning(pattern, saying, line, on):
            yield TriggerCandidate(node, asking, form="line")

    asking = frozenset(rule for rule in chain(*index.violates.values()) if rule in among)
    if asking and file.tree.body:
        yield TriggerCandidate(file.tree.body[0], asking, form="violation")

    asking = frozenset(rule for rule in chain(*index.imports.values()) if rule in among)
    for statement in file.statements_beginning(_IMPORTING, ("import",), "first", on) if asking else ():
        for alias in statement.names if isinstance(statement, ast.Import | ast.ImportFrom) else ():
            taken = _imported_api(file, alias)
            if taken is not None:
                rules = index.imports.get(taken.written.partition(".")[0], [])
                yield TriggerCandidate(alias, asking.intersection(rules), form="import", api=taken)


def _mentions_of_words(
    file: FileFacts, words: list[Word], also: Iterable[Word], following: frozenset[Card], among: LineSet
) -> Iterator[tuple[ast.AST, Word, list[Word]]]:
    """Mentions of words on some lines, and of the local names that stand for them (`import ... as P`).

    Each with its word, and with the words that it gives so. For the rules of `following` also mentions of what is taken
    from a module that one of the words names.
    """
    todo = list(dict.fromkeys((*words, *also)))
    seen = set(todo)
    anyway = {word.word for word in words if not word.beside}
    for word in todo:
        beside = word.beside
        for node in _nodes_of_word(file, word.word, () if word.word in anyway else beside, among):
            if not isinstance(node, ast.alias) and not file.is_near_text(node, beside):
                continue
            named = isinstance(node, ast.alias) and node.asname is None and node.name != word.word
            rules = word.rules & following if named else word.rules
            more = [
                Word(alias, beside, rules, word.evaluated)
                for alias in _alias_names(file, node, named and bool(rules))
            ]
            yield node, word, more
            todo += (one for one in dict.fromkeys(more) if one not in seen)
            seen.update(more)


def _nodes_of_word(file: FileFacts, word: str, beside: tuple[str, ...], among: LineSet) -> Iterator[ast.AST]:
    if among is EVERY:
        yield from file.find_mentions(word, beside)
    else:
        yield from file.mentions_on(among, word, beside)
    # A rule that triggers on a module triggers on what is taken from it: `from jax.experimental.maps import xmap`.
    yield from file.names_imported_from(word, among)


def _alias_names(file: FileFacts, node: ast.AST, named: bool) -> Iterator[str]:
    if isinstance(node, ast.alias) and (node.asname or named):
        yield node.asname or node.name
    parent = file.parent(node)
    if isinstance(parent, ast.Call) and parent.args[:1] == [node] and last_name(parent.func) == "partial":
        node, parent = parent, file.parent(parent)  # `pmap = functools.partial(jax.pmap, axis_name="batch")`
    while isinstance(parent, ast.IfExp) and parent.test is not node:
        node, parent = parent, file.parent(parent)  # `jit = eqx.filter_jit if filtered else jax.jit`
    if isinstance(parent, ast.Assign) and parent.value is node:
        for target in parent.targets:
            if isinstance(target, ast.Name | ast.Attribute):
                yield target.id if isinstance(target, ast.Name) else target.attr


_Met = tuple[ast.AST, Api, Form, Iterable[Card]]
"""What a mention triggers: the syntax, the library's name, the form, the rules."""


def _triggers_at_node(
    program: Program, file: FileFacts, node: ast.AST, index: RuleIndex, evaluated: bool
) -> Iterator[_Met]:
    if isinstance(node, ast.arg):
        yield node, Api("", ""), "parameter", index.takes.get(node.arg, ())
        return
    if isinstance(node, ast.alias):
        taken = _imported_api(file, node)
        if taken is not None:
            yield node, taken, "import", _rules_triggered_by(index, taken.written)
            for named in found_in(index.names, program, file, taken):
                yield node, named, "import", index.names[named.name]
        return
    if isinstance(node, ast.keyword) and node.arg in index.keywords:
        call = file.parent(node)
        if isinstance(call, ast.Call):
            yield call, Api("", ""), "keyword", index.keywords[node.arg]
    if not isinstance(node, ast.Name | ast.Attribute) or not isinstance(node.ctx, ast.Load):
        return
    if isinstance(node, ast.Attribute) and (node.attr in index.methods or node.attr in index.attributes):
        yield from _value_members(program, file, node, index)
    if not evaluated:
        return
    for option in options(program.value(file, node)):
        for named in found_in(index.names, program, file, option) if index.names else ():
            yield node, named, "name", index.names[named.name]
        option, bound = _unwrap_partial(option)
        if not isinstance(option, Api):
            continue
        yield node, option, "name", _rules_triggered_by(index, option.written)
        rules = index.calls.get(option.name, ())
        if not rules:
            continue
        call, form = _call_of_node(program, file, node)
        if call is not None:
            yield call, option, form, [rule for rule in rules if rule.known.bound] if bound else rules


def _value_members(program: Program, file: FileFacts, node: ast.Attribute, index: RuleIndex) -> Iterator[_Met]:
    """Methods and attributes of what is no library."""
    call = file.parent(node)
    is_called = isinstance(call, ast.Call) and call.func is node
    if not (is_called and node.attr in index.methods) and node.attr not in index.attributes:
        return
    if any(isinstance(option, Api) for option in options(program.value(file, node))):
        return
    named = Api(node.attr, node.attr)
    if isinstance(call, ast.Call) and is_called:
        yield call, named, "method", index.methods.get(node.attr, ())
    yield node, named, "attribute", index.attributes.get(node.attr, ())


def _unwrap_partial(value: Value) -> tuple[Value, bool]:
    """A name bound to a partial of a library function stands for that function, with arguments already given."""
    if isinstance(value, Transformed) and value.api.name == "functools.partial":
        return value.inner, True
    if isinstance(value, CallResult) and isinstance(value.by, Api) and not value.by.name:
        return value.by, True
    return value, False


def _call_of_node(program: Program, file: FileFacts, node: ast.AST) -> tuple[ast.Call | None, Form]:
    parent = file.parent(node)
    if isinstance(parent, ast.Call):
        if parent.func is node:
            return parent, "call"
        if parent.args and parent.args[0] is node:
            for option in options(program.value(file, parent.func)):
                if isinstance(option, Api) and option.name == "functools.partial":
                    return parent, "partial"
    return None, "call"


def _rules_triggered_by(index: RuleIndex, written: str) -> Iterator[Card]:
    yield from index.uses.get(written, ())
    module = written
    while "." in module:
        module = module.rpartition(".")[0]
        yield from index.uses.get(f"{module}.*", ())
    yield from index.uses.get(f"{written}.*", ())


def _imported_api(file: FileFacts, node: ast.alias) -> Api | None:
    """Return the library name that an import binds."""
    statement = file.parent(node)
    if isinstance(statement, ast.ImportFrom):
        if statement.level or not statement.module:
            return None
        written = f"{statement.module}.{node.name}"
    else:
        written = node.name
    return Api(api.canonical_name(written), written) if written.partition(".")[0] in api.LIBRARIES else None
