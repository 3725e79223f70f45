"""The rules of a run by what triggers them, and the words of a file that may."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from copy import copy
from dataclasses import field
from functools import cached_property

from shardlint.config.certainty import Certainty
from shardlint.config.own_names import NO_OWN_NAMES, OwnNames
from shardlint.engine.catalogue import Card, may_reach_certainty, rule_cards
from shardlint.engine.conditions import ANYWHERE, IMPORT, ProjectConditions, When
from shardlint.rules_api.rule import Rule
from shardlint.source.lazy import dataclass
from shardlint.source.screen import Screen, Screens, Texts


@dataclass(frozen=True)
class Word:
    """A word that is looked for in a file, and the rules whose conditions the file meets for it."""

    word: str
    beside: tuple[str, ...]
    """The texts of which one must stand in the function around the word."""
    rules: frozenset[Card]
    evaluated: bool = True
    """Whether any of them asks what the word is."""
    lines: frozenset[tuple[Card, str]] = frozenset()
    """Of rules that trigger on lines, the patterns that match some."""


@dataclass
class RuleIndex:
    """The rules of a run, by what triggers them."""

    calls: dict[str, list[Card]] = field(default_factory=dict)
    uses: dict[str, list[Card]] = field(default_factory=dict)
    names: dict[str, list[Card]] = field(default_factory=dict)
    methods: dict[str, list[Card]] = field(default_factory=dict)
    attributes: dict[str, list[Card]] = field(default_factory=dict)
    keywords: dict[str, list[Card]] = field(default_factory=dict)
    withs: dict[str, list[Card]] = field(default_factory=dict)
    statements: dict[str, list[Card]] = field(default_factory=dict)
    lines: dict[str, list[Card]] = field(default_factory=dict)
    imports: dict[str, list[Card]] = field(default_factory=dict)
    takes: dict[str, list[Card]] = field(default_factory=dict)
    violates: dict[str, list[Card]] = field(default_factory=dict)
    words: dict[str, dict[When, set[Card]]] = field(default_factory=dict)
    """Identifiers to look for, with the rules they are triggers of and when. A file without any needs no parse."""
    least: Certainty = Certainty.POSSIBLE
    """The least certainty of findings that are wanted."""

    @classmethod
    def index_rules(
        cls, rules: Iterable[Rule | Card], least: Certainty = Certainty.POSSIBLE, own_names: OwnNames = NO_OWN_NAMES
    ) -> RuleIndex:
        """Index the rules by the names they trigger on in a project whose settings say this."""
        index = cls(least=least)
        for rule in rules:
            card = rule if isinstance(rule, Card) else Card.describe_rule(rule)
            for wake in card.triggers_for(own_names):
                table: dict[str, list[Card]] = getattr(index, wake.kind)
                asked = table.setdefault(wake.name, [])
                if card not in asked:
                    asked.append(card)
                for word, when in wake.words:
                    index.words.setdefault(word, {}).setdefault(when, set()).add(card)
        return index

    def with_certainty(self, least: Certainty) -> RuleIndex:
        """The same for findings that are at least so sure."""
        other = copy(self)
        other.least = least
        return other

    @cached_property
    def cards_by_code(self) -> dict[str, Card]:
        """The rules by their codes."""
        return {
            rule.rule_code: rule for asking in self.words.values() for rules in asking.values() for rule in rules
        }

    def select_codes(self, codes: Iterable[str]) -> frozenset[Card]:
        """The rules with some codes."""
        return frozenset(self.cards_by_code[code] for code in codes)

    @cached_property
    def make_screen(self) -> Screen:
        """Return a screen that decides by a file's bytes whether any of the rules may trigger."""
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

    def words_in(
        self, hits: Iterable[str], data: bytes | Texts, conditions: ProjectConditions = ANYWHERE
    ) -> tuple[Word, ...]:
        """The words of a file that may trigger, each for the rules whose own conditions the file meets.

        So a rule finds the same alone and with all others.
        """
        texts = Texts.make_texts(data)
        found: dict[tuple[str, tuple[str, ...]], set[Card]] = {}
        evaluated: set[tuple[str, tuple[str, ...]]] = set()
        lines: set[tuple[Card, str]] = set()
        for word in hits:
            for when, rules in self.words.get(word, {}).items():
                if (
                    conditions.may_be_met(when)
                    and texts.mentions_library_near(when.library, when.near)
                    and conditions.is_met(when)
                ):
                    found.setdefault((word, when.beside), set()).update(rules)
                    if when.evaluated:
                        evaluated.add((word, when.beside))
                    if when.line:
                        lines.update((rule, when.line) for rule in rules)
        return tuple(
            Word(*key, frozenset(found[key]), key in evaluated, frozenset(lines) if key[0] == IMPORT else frozenset())
            for key in sorted(found)
        )


def make_screens(least: Certainty, own_names: OwnNames = NO_OWN_NAMES) -> Screens:
    """The screen of all rules there are, and of those left in a project that does not import a module they ask for."""
    asked = [card for card in rule_cards().values() if may_reach_certainty(card, least)]
    return RuleIndex.index_rules(asked, own_names=own_names).make_screen, {
        module: RuleIndex.index_rules(left, own_names=own_names).make_screen
        for module, left in rules_without_modules(asked).items()
    }


def rules_without_modules(rules: Collection[Card]) -> dict[str, list[Card]]:
    """For each module that a rule wants the project to import: the rules left where no file does."""
    modules = sorted({rule.known.project for rule in rules if rule.known.project})
    return {module: [rule for rule in rules if rule.known.project != module] for module in modules}
