"""From the names that rules wake for to the sites in a file."""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property

from shardlint.facts import NOWHERE, FileFacts
from shardlint.program import Program, api
from shardlint.program.values import Api, Made, Value, Wrapped, options
from shardlint.rule import Calls, Certainty, Methods, Rule, Wake, Withs
from shardlint.screen import Screen
from shardlint.site import Form, Site
from shardlint.targets import Targets

# Words that stand for a library name whose own last part is not in the text.
_SPELLINGS: dict[str, set[str]] = {}
for _written, _name in api.spellings():
    _SPELLINGS.setdefault(_name, set()).add(_written.rpartition(".")[2])
_WITH = "with"


@dataclass
class Wakes:
    """The rules of a run, by what wakes them."""

    calls: dict[str, list[Rule]] = field(default_factory=dict)
    uses: dict[str, list[Rule]] = field(default_factory=dict)
    methods: dict[str, list[Rule]] = field(default_factory=dict)
    withs: dict[str, list[Rule]] = field(default_factory=dict)
    words: dict[str, dict[str, set[bytes] | None]] = field(default_factory=dict)
    """Identifiers to look for: for each library they may be of, the texts of which one must stand in the file too
    (None: it is enough alone). A file without any of them needs no parse."""
    likely: bool = True
    """Whether likely findings are wanted."""
    within: dict[str, set[str] | None] = field(default_factory=dict)
    """For each of them, the texts of which one must stand in the same function (None: that says nothing)."""

    @classmethod
    def of(cls, rules: Iterable[Rule], likely: bool = True) -> Wakes:
        """Index the rules by the names they wake for."""
        wakes = cls(likely=likely)
        for rule in rules:
            for wake in rule.wakes:
                table = wakes._table(wake)
                for name in wake.names:
                    table.setdefault(name, []).append(rule)
                    for word in _words(wake, name):
                        asked = wakes.words.setdefault(word, {})
                        library = _library(wake, name, word)
                        near, known = _near(wake, name, word), asked.get(library, set())
                        asked[library] = None if near is None or known is None else known | near
                        inside = wakes.within.get(word, set())
                        beside = _beside(wake)
                        wakes.within[word] = inside | beside if beside and inside is not None else None
        return wakes

    def _table(self, wake: Wake) -> dict[str, list[Rule]]:
        if isinstance(wake, Methods):
            return self.methods
        if isinstance(wake, Withs):
            return self.withs
        return self.calls if isinstance(wake, Calls) else self.uses

    @cached_property
    def screen(self) -> Screen:
        """What tells by a file's bytes whether any of the rules may wake."""
        return Screen(
            {
                word: {
                    library: None if near is None else tuple(sorted(near)) for library, near in asked.items()
                }
                for word, asked in self.words.items()
            }
        )


def screens(pedantic: bool) -> tuple[Screen, dict[str, Screen]]:
    """The screen of all rules there are, and of those left in a project that does not import a module they ask for."""
    from shardlint.registry import rules

    asked = [rule() for rule in rules() if wanted(rule, pedantic)]
    return Wakes.of(asked).screen, {
        module: Wakes.of(left).screen for module, left in without_modules(asked).items()
    }


def wanted(rule: Rule | type[Rule], pedantic: bool) -> bool:
    """Whether what a rule finds is asked for: what is only likely is for those who want it."""
    return pedantic or rule.certainty is Certainty.PROVEN


def without_modules(rules: Collection[Rule]) -> dict[str, list[Rule]]:
    """For each module that a rule wants the project to import: the rules left where no file does."""
    modules = sorted({rule.project for rule in rules if rule.project})
    return {module: [rule for rule in rules if rule.project != module] for module in modules}


def _library(wake: Wake, name: str, word: str) -> str:
    """What a file must be about for a word of it to be meant; nothing for a word that means the same everywhere."""
    if isinstance(wake, Withs):
        return name
    return name.partition(".")[0] if not isinstance(wake, Methods) and _is_plain(word) else ""


def _is_plain(word: str) -> bool:
    """Whether a word is one that people name all sorts of things by."""
    return word not in ("jit", "pjit") and "_" not in word and sum(letter.isupper() for letter in word) < 2


def _near(wake: Wake, name: str, word: str) -> set[bytes] | None:
    """What stands in a file besides a word when the name is used there; None where that says nothing."""
    if isinstance(wake, Methods):
        return {text.encode() for text in wake.near} or None
    if isinstance(wake, Withs):
        # It says the word, or enters what a name stands for.
        first = f"[{name[0]}{name[0].upper()}]"
        says = rf"(?:)with\b(?:[^\n]*|[^\n]*\([^:]*){first}{name[1:]}"
        return {says.encode(), rb"(?:)with[ \t]+[\w.]+[ \t]*(?:as\b|[:,\\])"}
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


def _beside(wake: Wake) -> set[str]:
    """What must stand in the function of a mention; nothing where that says nothing."""
    if not isinstance(wake, Calls | Methods):
        return set()
    return {NOWHERE} if wake.outside else set(wake.within)


def _words(wake: Wake, name: str) -> set[str]:
    if isinstance(wake, Withs):
        return {_WITH}
    bare = name.removesuffix(".*")
    words = {bare.rpartition(".")[2]}
    return words | _SPELLINGS.get(bare, set()) if isinstance(wake, Calls) else words


def sites(
    program: Program, file: FileFacts, wakes: Wakes, targets: Targets, hits: Collection[str]
) -> Iterator[Site]:
    """The sites of a file, in text order. `hits` are the wake words that its text holds."""
    found: dict[tuple[int, str, int], Site] = {}
    names = [word for word in hits if word != _WITH]
    for node in _mentions(file, names, wakes):
        for site in _at(program, file, node, wakes, targets):
            found.setdefault((id(site.syntax), site.rule.code, 0 if site.form != "partial" else 1), site)
    if len(names) < len(hits):
        for site in _entered(program, file, wakes, targets):
            found.setdefault((id(site.syntax), site.rule.code, 2), site)
    yield from sorted(
        found.values(),
        key=lambda site: (getattr(site.syntax, "lineno", 0), getattr(site.syntax, "col_offset", 0)),
    )


def _entered(program: Program, file: FileFacts, wakes: Wakes, targets: Targets) -> Iterator[Site]:
    for word, rules in wakes.withs.items():
        for node in file.withs_saying(word):
            for item in node.items:
                for rule in rules:
                    yield Site(
                        program, file, item.context_expr, Api("", ""), "with", targets, rule, wakes.likely
                    )


def _mentions(file: FileFacts, hits: Iterable[str], wakes: Wakes) -> Iterator[ast.AST]:
    """Mentions of the words, and of the local names that stand for them (`import ... as P`, `P = PartitionSpec`)."""
    todo = [(word, tuple(sorted(wakes.within[word] or ()))) for word in hits]
    seen = set(todo)
    for word, beside in todo:
        # A rule that wakes for a module wakes for what is taken from it: `from jax.experimental.maps import xmap`.
        for node in (*file.mentions(word, beside), *file.taken_from(word)):
            yield node
            for alias in _aliases(file, node):
                if (alias, beside) not in seen:
                    seen.add((alias, beside))
                    todo.append((alias, beside))


def _aliases(file: FileFacts, node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.alias) and node.asname:
        yield node.asname
    parent = file.parent(node)
    if isinstance(parent, ast.Assign) and parent.value is node:
        for target in parent.targets:
            if isinstance(target, ast.Name | ast.Attribute):
                yield target.id if isinstance(target, ast.Name) else target.attr


def _at(program: Program, file: FileFacts, node: ast.AST, wakes: Wakes, targets: Targets) -> Iterator[Site]:
    if isinstance(node, ast.alias):
        yield from _imported(program, file, node, wakes, targets)
        return
    if not isinstance(node, ast.Name | ast.Attribute) or not isinstance(node.ctx, ast.Load):
        return
    if isinstance(node, ast.Attribute) and node.attr in wakes.methods:
        yield from _methods(program, file, node, wakes, targets)
    for option in options(program.value(file, node)):
        option, bound = _unbound(option)
        if not isinstance(option, Api):
            continue
        for rule in _users(wakes, option.written):
            yield Site(program, file, node, option, "name", targets, rule, wakes.likely)
        rules = wakes.calls.get(option.name, ())
        if not rules:
            continue
        call, form = _called(program, file, node)
        if call is not None and not bound:
            for rule in rules:
                yield Site(program, file, call, option, form, targets, rule, wakes.likely)


def _methods(
    program: Program, file: FileFacts, node: ast.Attribute, wakes: Wakes, targets: Targets
) -> Iterator[Site]:
    call = file.parent(node)
    if not isinstance(call, ast.Call) or call.func is not node:
        return
    if any(isinstance(option, Api) for option in options(program.value(file, node))):
        return
    for rule in wakes.methods[node.attr]:
        yield Site(program, file, call, Api(node.attr, node.attr), "method", targets, rule, wakes.likely)


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


def _imported(
    program: Program, file: FileFacts, node: ast.alias, wakes: Wakes, targets: Targets
) -> Iterator[Site]:
    statement = file.parent(node)
    if isinstance(statement, ast.ImportFrom):
        if statement.level or not statement.module:
            return
        written = f"{statement.module}.{node.name}"
    else:
        written = node.name
    if written.partition(".")[0] not in api.LIBRARIES:
        return
    for rule in _users(wakes, written):
        yield Site(
            program, file, node, Api(api.canonical(written), written), "import", targets, rule, wakes.likely
        )
