"""From the names that rules wake for to the sites in a file."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain

from shardlint.config.targets import Targets
from shardlint.model import Program, api
from shardlint.model.values import Api, Made, Value, Wrapped, options
from shardlint.rules_api.rule import (
    Attributes,
    Calls,
    Certainty,
    Form,
    Imports,
    Keywords,
    Lines,
    Methods,
    Rule,
    Statements,
    Takes,
    Wake,
    Withs,
)
from shardlint.rules_api.site import Site
from shardlint.source.screen import ANY, CALLING, LINE, TAKING, Screen, Texts
from shardlint.syntax import NOWHERE, FileFacts, last_name

# Words that stand for a library name whose own last part is not in the text.
_SPELLINGS: dict[str, set[str]] = {}
for _written, _name in api.spellings():
    _SPELLINGS.setdefault(_name, set()).add(_written.rpartition(".")[2])
_WITH = "with"
# Files that are looked into for the form of their statements import something.
_IMPORT = "import"
_IMPORTING = r"(?:import|from)\b"
# What wakes for a name on whatever it stands.
_ON_ANYTHING = (Methods, Attributes, Keywords, Imports)


@dataclass(frozen=True)
class _When:
    """What must hold for a word in a file to be a trigger of a rule."""

    library: str
    """What the file must be about."""
    near: tuple[bytes, ...] | None
    """The texts of which one must stand in the file too; None: that says nothing."""
    beside: tuple[str, ...]
    """The texts of which one must stand in the same function; none: that says nothing."""
    module: str
    """What the project must import, or nothing."""


@dataclass(frozen=True)
class Trigger:
    """A word that is looked for in a file, and the rules whose conditions the file meets for it."""

    word: str
    beside: tuple[str, ...]
    """The texts of which one must stand in the function around the word."""
    rules: frozenset[Rule]


@dataclass
class Wakes:
    """The rules of a run, by what wakes them."""

    calls: dict[str, list[Rule]] = field(default_factory=dict)
    uses: dict[str, list[Rule]] = field(default_factory=dict)
    methods: dict[str, list[Rule]] = field(default_factory=dict)
    attributes: dict[str, list[Rule]] = field(default_factory=dict)
    keywords: dict[str, list[Rule]] = field(default_factory=dict)
    withs: dict[str, list[Rule]] = field(default_factory=dict)
    statements: dict[str, list[Rule]] = field(default_factory=dict)
    lines: dict[str, list[Rule]] = field(default_factory=dict)
    imports: dict[str, list[Rule]] = field(default_factory=dict)
    takes: dict[str, list[Rule]] = field(default_factory=dict)
    words: dict[str, dict[_When, set[Rule]]] = field(default_factory=dict)
    """Identifiers to look for, with the rules they are triggers of and when. A file without any needs no parse."""
    least: Certainty = Certainty.POSSIBLE
    """The least certainty of findings that are wanted."""

    @classmethod
    def of(cls, rules: Iterable[Rule], least: Certainty = Certainty.POSSIBLE) -> Wakes:
        """Index the rules by the names they wake for."""
        wakes = cls(least=least)
        for rule in rules:
            for wake in rule.wakes:
                table = wakes._table(wake)
                for name in wake.names:
                    table.setdefault(name, []).append(rule)
                    for word in _words(wake, name):
                        near = _near(wake, name, word)
                        texts = None if near is None else tuple(sorted(near))
                        for library in _libraries(wake, name, word):
                            when = _When(library, texts, _beside(wake), rule.project)
                            wakes.words.setdefault(word, {}).setdefault(when, set()).add(rule)
        return wakes

    def _table(self, wake: Wake) -> dict[str, list[Rule]]:
        if isinstance(wake, Methods):
            return self.methods
        if isinstance(wake, Attributes):
            return self.attributes
        if isinstance(wake, Keywords):
            return self.keywords
        if isinstance(wake, Withs):
            return self.withs
        if isinstance(wake, Statements):
            return self.statements
        if isinstance(wake, Lines):
            return self.lines
        if isinstance(wake, Imports):
            return self.imports
        if isinstance(wake, Takes):
            return self.takes
        return self.calls if isinstance(wake, Calls) else self.uses

    @cached_property
    def screen(self) -> Screen:
        """What tells by a file's bytes whether any of the rules may wake."""
        words: dict[str, dict[str, tuple[bytes, ...] | None]] = {}
        for word, asked in self.words.items():
            found: dict[str, set[bytes] | None] = {}
            for when in asked:
                known = found.get(when.library, set())
                found[when.library] = None if when.near is None or known is None else known.union(when.near)
            words[word] = {
                library: None if near is None else tuple(sorted(near)) for library, near in found.items()
            }
        return Screen(words)

    def triggers(
        self, hits: Iterable[str], data: bytes | Texts, imported: Callable[[str], bool]
    ) -> tuple[Trigger, ...]:
        """The words of a file that are triggers, each for the rules whose own conditions the file meets.

        So a rule finds the same alone and with all others. `imported` tells whether the project imports a module.
        """
        texts = Texts.of(data)
        found: dict[tuple[str, tuple[str, ...]], set[Rule]] = {}
        for word in hits:
            for when, rules in self.words.get(word, {}).items():
                if texts.meet(when.library, when.near) and (not when.module or imported(when.module)):
                    found.setdefault((word, when.beside), set()).update(rules)
        return tuple(Trigger(*key, frozenset(found[key])) for key in sorted(found))


def screens(least: Certainty) -> tuple[Screen, dict[str, Screen]]:
    """The screen of all rules there are, and of those left in a project that does not import a module they ask for."""
    from shardlint.rules_api.registry import entries, made

    asked = [rule for rule in made(entries().keys()) if wanted(rule, least)]
    return Wakes.of(asked).screen, {
        module: Wakes.of(left).screen for module, left in without_modules(asked).items()
    }


def wanted(rule: Rule | type[Rule], least: Certainty) -> bool:
    """Whether any finding of a rule may be sure enough."""
    return rule.ceiling().meets(least)


def without_modules(rules: Collection[Rule]) -> dict[str, list[Rule]]:
    """For each module that a rule wants the project to import: the rules left where no file does."""
    modules = sorted({rule.project for rule in rules if rule.project})
    return {module: [rule for rule in rules if rule.project != module] for module in modules}


def _libraries(wake: Wake, name: str, word: str) -> tuple[str, ...]:
    """What a file must be about for a word of it to be meant; nothing for a word that means the same everywhere."""
    if isinstance(wake, Withs):
        return (name,)
    if isinstance(wake, Statements | Lines | Takes):
        return (ANY,)
    return (name.partition(".")[0] if not isinstance(wake, _ON_ANYTHING) and _is_plain(word) else "",)


def _is_plain(word: str) -> bool:
    """Whether a word is one that people name all sorts of things by."""
    return word not in ("jit", "pjit") and "_" not in word and sum(letter.isupper() for letter in word) < 2


def _near(wake: Wake, name: str, word: str) -> set[bytes] | None:
    """What stands in a file besides a word when the name is used there; None where that says nothing."""
    if isinstance(wake, _ON_ANYTHING):
        return {text.encode() for text in wake.near} or None
    if isinstance(wake, Withs):
        # It says the word, or enters what a name stands for.
        first = f"[{name[0]}{name[0].upper()}]"
        says = rf"(?:)with\b(?:[^\n]*|[^\n]*\([^:]*){first}{name[1:]}"
        return {says.encode(), rb"(?:)with[ \t]+[\w.]+[ \t]*(?:as\b|[:,\\])"}
    if isinstance(wake, Statements):
        return {CALLING + name.encode()}
    if isinstance(wake, Lines):
        saying = "\x01".join(wake.saying)
        return {LINE + b"\0".join(text.encode() for text in (wake.near, saying, name))}
    if isinstance(wake, Takes):
        return {TAKING + name.encode()}
    if isinstance(wake, Calls):
        if wake.near:
            return {text.encode() for text in wake.near}
        last = name.rpartition(".")[2]
        # A short spelling (`P`) is in every file; as a name it was imported or is an attribute.
        spelled = (last, f".{word}", f"import {word}", f", {word}\n", f", {word},", f" as {word}")
        return {text.encode() for text in spelled} if word != last and len(word) < 4 else None
    if wake.near:
        return {text.encode() for text in wake.near}
    module, _, last = name.removesuffix(".*").rpartition(".")
    if not module:
        return None
    # `jax.tree_map` stands in few files, `tree_map` in every third.
    own = module.rpartition(".")[2]
    texts = [f"{own}.{last}", f"from {module} import", f"{own} as "]
    return {text.encode() for text in (texts if own == module else [*texts, f"= {module}"])}


def _beside(wake: Wake) -> tuple[str, ...]:
    """What must stand in the function of a mention; nothing where that says nothing."""
    if not isinstance(wake, Calls | Methods | Attributes | Keywords):
        return ()
    return (NOWHERE,) if wake.outside else tuple(sorted(set(wake.within)))


def _words(wake: Wake, name: str) -> set[str]:
    if isinstance(wake, Withs | Statements | Lines | Imports):
        return {_WITH if isinstance(wake, Withs) else _IMPORT}
    bare = name.removesuffix(".*")
    words = {bare.rpartition(".")[2]}
    return words | _SPELLINGS.get(bare, set()) if isinstance(wake, Calls) else words


def sites(
    program: Program, file: FileFacts, wakes: Wakes, targets: Targets, triggers: Iterable[Trigger]
) -> Iterator[Site]:
    """The sites of a file, in text order. `triggers` are those of its text."""
    found: dict[tuple[int, str, int], Site] = {}
    words = []
    for trigger in triggers:
        if trigger.word == _IMPORT:
            for site in _stated(program, file, wakes, targets, trigger.rules):
                found.setdefault((id(site.syntax), site.rule.code, 3), site)
        elif trigger.word == _WITH:
            for site in _entered(program, file, wakes, targets):
                if site.rule in trigger.rules:
                    found.setdefault((id(site.syntax), site.rule.code, 2), site)
        else:
            words.append(trigger)
    mentioned: dict[ast.AST, set[Rule]] = {}
    for node, rules in _mentions(file, words):
        mentioned.setdefault(node, set()).update(rules)
    for node, asking in mentioned.items():
        for syntax, named, form, waking in _at(program, file, node, wakes):
            for rule in waking:
                key = id(syntax), rule.code, 0 if form != "partial" else 1
                if rule in asking and key not in found:
                    found[key] = Site(program, file, syntax, named, form, targets, rule, wakes.least)
    yield from sorted(
        found.values(),
        key=lambda site: (
            getattr(site.syntax, "lineno", 0), getattr(site.syntax, "col_offset", 0), site.rule.code, site.form
        ),
    )  # fmt: skip


def _entered(program: Program, file: FileFacts, wakes: Wakes, targets: Targets) -> Iterator[Site]:
    for word, rules in wakes.withs.items():
        for node in file.withs_saying(word):
            for item in node.items:
                for rule in rules:
                    yield Site(
                        program, file, item.context_expr, Api("", ""), "with", targets, rule, wakes.least
                    )


def _stated(
    program: Program, file: FileFacts, wakes: Wakes, targets: Targets, among: Collection[Rule]
) -> Iterator[Site]:
    for part, rules in wakes.statements.items():
        asking = [rule for rule in rules if rule in among]
        for call in file.statements_calling(part) if asking else ():
            for rule in asking:
                yield Site(program, file, call, Api("", ""), "statement", targets, rule, wakes.least)
    for pattern, rules in wakes.lines.items():
        asking = [rule for rule in rules if rule in among and _is_near(file, rule, pattern)]
        for node in file.statements_beginning(pattern, _saying(asking[0], pattern)) if asking else ():
            for rule in asking:
                yield Site(program, file, node, Api("", ""), "line", targets, rule, wakes.least)

    asking = [rule for rule in dict.fromkeys(chain(*wakes.imports.values())) if rule in among]
    for statement in file.statements_beginning(_IMPORTING, ("import",)) if asking else ():
        for alias in statement.names if isinstance(statement, ast.Import | ast.ImportFrom) else ():
            taken = _imported(file, alias)
            for rule in wakes.imports.get(taken.written.partition(".")[0], ()) if taken is not None else ():
                if taken is not None and rule in asking:
                    yield Site(program, file, alias, taken, "import", targets, rule, wakes.least)


def _saying(rule: Rule, pattern: str) -> tuple[str, ...]:
    """The texts of which one stands on each line that a pattern matches."""
    return next(wake.saying for wake in rule.wakes if isinstance(wake, Lines) and pattern in wake.names)


def _is_near(file: FileFacts, rule: Rule, pattern: str) -> bool:
    """Whether a file matches what the lines that wake a rule must be near to."""
    asked = [wake.near for wake in rule.wakes if isinstance(wake, Lines) and pattern in wake.names]
    return any(not near or re.search(near, file.source.text) for near in asked)


def _mentions(file: FileFacts, triggers: Iterable[Trigger]) -> Iterator[tuple[ast.AST, frozenset[Rule]]]:
    """Mentions of the words, and of the local names that stand for them (`import ... as P`, `P = PartitionSpec`)."""
    todo = list(triggers)
    seen = set(todo)
    anyway = {trigger.word for trigger in todo if not trigger.beside}
    for trigger in todo:
        beside = trigger.beside
        found = file.mentions(trigger.word, () if trigger.word in anyway else beside)
        # A rule that wakes for a module wakes for what is taken from it: `from jax.experimental.maps import xmap`.
        for node in (*found, *file.taken_from(trigger.word)):
            if not isinstance(node, ast.alias) and not file.stands_by(node, beside):
                continue
            yield node, trigger.rules
            for alias in _aliases(file, node):
                more = Trigger(alias, beside, trigger.rules)
                if more not in seen:
                    seen.add(more)
                    todo.append(more)


def _aliases(file: FileFacts, node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.alias) and node.asname:
        yield node.asname
    parent = file.parent(node)
    if isinstance(parent, ast.Call) and parent.args[:1] == [node] and last_name(parent.func) == "partial":
        node, parent = parent, file.parent(parent)  # `pmap = functools.partial(jax.pmap, axis_name="batch")`
    if isinstance(parent, ast.Assign) and parent.value is node:
        for target in parent.targets:
            if isinstance(target, ast.Name | ast.Attribute):
                yield target.id if isinstance(target, ast.Name) else target.attr


_Met = tuple[ast.AST, Api, Form, Iterable[Rule]]
"""What a mention is a trigger for: the syntax, the library's name, the form, the rules."""


def _at(program: Program, file: FileFacts, node: ast.AST, wakes: Wakes) -> Iterator[_Met]:
    if isinstance(node, ast.arg):
        yield node, Api("", ""), "parameter", wakes.takes.get(node.arg, ())
        return
    if isinstance(node, ast.alias):
        taken = _imported(file, node)
        if taken is not None:
            yield node, taken, "import", _users(wakes, taken.written)
        return
    if isinstance(node, ast.keyword) and node.arg in wakes.keywords:
        call = file.parent(node)
        if isinstance(call, ast.Call):
            yield call, Api("", ""), "keyword", wakes.keywords[node.arg]
    if not isinstance(node, ast.Name | ast.Attribute) or not isinstance(node.ctx, ast.Load):
        return
    if isinstance(node, ast.Attribute) and (node.attr in wakes.methods or node.attr in wakes.attributes):
        yield from _on_a_value(program, file, node, wakes)
    for option in options(program.value(file, node)):
        option, bound = _unbound(option)
        if not isinstance(option, Api):
            continue
        yield node, option, "name", _users(wakes, option.written)
        rules = wakes.calls.get(option.name, ())
        if not rules:
            continue
        call, form = _called(program, file, node)
        if call is not None:
            yield call, option, form, [rule for rule in rules if rule.bound] if bound else rules


def _on_a_value(program: Program, file: FileFacts, node: ast.Attribute, wakes: Wakes) -> Iterator[_Met]:
    """Methods and attributes of what is no library."""
    if any(isinstance(option, Api) for option in options(program.value(file, node))):
        return
    named = Api(node.attr, node.attr)
    call = file.parent(node)
    if isinstance(call, ast.Call) and call.func is node:
        yield call, named, "method", wakes.methods.get(node.attr, ())
    yield node, named, "attribute", wakes.attributes.get(node.attr, ())


def _unbound(value: Value) -> tuple[Value, bool]:
    """A name bound to a partial of a library function stands for that function, with arguments already given."""
    if isinstance(value, Wrapped) and value.api.name == "functools.partial":
        return value.inner, True
    if isinstance(value, Made) and isinstance(value.by, Api) and not value.by.name:
        return value.by, True
    return value, False


def _called(program: Program, file: FileFacts, node: ast.AST) -> tuple[ast.Call | None, Form]:
    parent = file.parent(node)
    if isinstance(parent, ast.Call):
        if parent.func is node:
            return parent, "call"
        if parent.args and parent.args[0] is node:
            for option in options(program.value(file, parent.func)):
                if isinstance(option, Api) and option.name == "functools.partial":
                    return parent, "partial"
    return None, "call"


def _users(wakes: Wakes, written: str) -> Iterator[Rule]:
    yield from wakes.uses.get(written, ())
    module = written
    while "." in module:
        module = module.rpartition(".")[0]
        yield from wakes.uses.get(f"{module}.*", ())
    yield from wakes.uses.get(f"{written}.*", ())


def _imported(file: FileFacts, node: ast.alias) -> Api | None:
    """What an import takes of a library."""
    statement = file.parent(node)
    if isinstance(statement, ast.ImportFrom):
        if statement.level or not statement.module:
            return None
        written = f"{statement.module}.{node.name}"
    else:
        written = node.name
    return Api(api.canonical(written), written) if written.partition(".")[0] in api.LIBRARIES else None
