"""Cached triggers and metadata of rules, so that a rule is loaded only if a file has a site for it."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import astuple, replace
from typing import Any, ClassVar

from shardlint.config.certainty import Certainty
from shardlint.config.own_names import NO_OWN_NAMES, OwnNames
from shardlint.engine.conditions import When, trigger_conditions
from shardlint.rules_api import registry
from shardlint.rules_api.registry import Entry, RuleMetadata
from shardlint.rules_api.rule import Lines, Rule, Trigger
from shardlint.source.lazy import dataclass
from shardlint.source.line_beginnings import OnLine
from shardlint.source.store import Store

_NAME = "rules.json"


@dataclass(frozen=True)
class Wake:
    """One name that a rule triggers on: the kind of trigger, and the words to look for, each with what must hold."""

    kind: str
    name: str
    words: tuple[tuple[str, When], ...]


@dataclass(eq=False)
class Card:
    """A rule that need not be loaded: what a run asks of it before it meets a site."""

    known: RuleMetadata
    wakes: tuple[Wake, ...]
    lines: Mapping[str, tuple[tuple[str, ...], OnLine]]
    """By the patterns of its lines: the texts that stand on such a line, and which line of a statement it is."""
    loaded: Rule | None = None

    @property
    def rule_code(self) -> str:
        """Its code."""
        return self.known.code

    @property
    def rule(self) -> Rule:
        """The rule, ready to run. Raises `BrokenPack`."""
        if self.loaded is None:
            (self.loaded,) = registry.make_rules((self.rule_code,))
        return self.loaded

    def triggers_for(self, own_names: OwnNames) -> tuple[Wake, ...]:
        """Return its triggers in a project with these settings."""
        if self.known.by_settings:
            return (
                self.wakes
                if own_names == NO_OWN_NAMES
                else tuple(_wakes_of_rule(self.rule, self.rule.triggers_for(own_names)))
            )
        return self.wakes if not self.known.setting or self.known.setting in own_names.triggering_names else ()

    @classmethod
    def describe_rule(cls, rule: Rule) -> Card:
        """That of a rule that is loaded."""
        known = RuleMetadata.describe_rule(type(rule))
        lines = (one for one in rule.triggers if isinstance(one, Lines))
        return cls(
            known,
            tuple(_wakes_of_rule(rule, rule.triggers_for(NO_OWN_NAMES) if known.by_settings else rule.triggers)),
            {pattern: (one.saying, one.on) for one in lines for pattern in one.names},
            rule,
        )


def _wakes_of_rule(rule: Rule, triggers: Iterable[Trigger]) -> Iterator[Wake]:
    for trigger in triggers:
        for name in trigger.names:
            yield Wake(_trigger_kind(trigger), name, tuple(trigger_conditions(rule, trigger, name)))


def _trigger_kind(trigger: Trigger) -> str:
    return type(trigger).__name__.lower()


class _Catalogue:
    """The cards so far, and the table of rules that they are of."""

    entries: Mapping[str, Entry] | None = None
    cards: ClassVar[dict[str, Card]] = {}
    saved: tuple[str, Mapping[str, Entry]] | None = None
    """The folder where they were saved last, and the table."""


def rule_cards(codes: Collection[str] | None = None) -> dict[str, Card]:
    """Those of some rules, or of all, by code; rules of which nothing is known are imported. Raises `BrokenPack`."""
    entries = registry.rule_entries()
    if _Catalogue.entries is not entries:
        _Catalogue.entries, _Catalogue.cards = entries, {}
    known = _Catalogue.cards
    asked = entries.keys() if codes is None else codes
    known.update((rule.code, Card.describe_rule(rule)) for rule in registry.make_rules(set(asked) - known.keys()))
    return {code: known[code] for code in entries if code in asked}


def keep_cards(store: Store | None) -> None:
    """Keep what is known of all rules, where they were imported and this process has not kept it already."""
    if store is None or not registry.are_rules_imported() or registry.is_metadata_cached():
        return
    entries = registry.rule_entries()
    if _Catalogue.saved is None or _Catalogue.saved[0] != store.folder or _Catalogue.saved[1] is not entries:
        store.save_data(_NAME, _dump_cards(rule_cards().values()))
        _Catalogue.saved = store.folder, entries


def recall_cards(store: Store | None) -> None:
    """Take over what an earlier run kept of all rules. It holds for the same shardlint and packs: see `store`."""
    if store is None or _Catalogue.entries is not None:
        return
    kept = store.load_data(_NAME)
    if kept is None:
        return
    try:
        whens = [_load_condition(one) for one in kept["whens"]]
        found = [_load_card(one, whens) for one in kept["rules"]]
        entries = {code: Entry(code, *map(str, told)) for code, *told in kept["entries"]}
    except (KeyError, TypeError, ValueError, AttributeError, IndexError):
        return
    registry.use_known_rules(entries, [one.known for one in found])
    _Catalogue.entries, _Catalogue.cards = registry.rule_entries(), {one.rule_code: one for one in found}


def _dump_cards(cards: Iterable[Card]) -> dict[str, Any]:
    numbers: dict[When, int] = {}
    rules = []
    for card in cards:
        wakes = [
            (one.kind, one.name, [(word, numbers.setdefault(when, len(numbers))) for word, when in one.words])
            for one in card.wakes
        ]
        lines = [(pattern, *said) for pattern, said in card.lines.items()]
        rules.append((astuple(card.known), wakes, lines))
    whens = [
        (*astuple(replace(one, near=None)), None if one.near is None else [text.decode() for text in one.near])
        for one in numbers
    ]
    entries = [(one.code, one.where, one.pack, one.page) for one in registry.rule_entries().values()]
    return {"entries": entries, "whens": whens, "rules": rules}


def _load_condition(told: list[Any]) -> When:
    *others, near = told
    library, _, beside, module, says, or_says, in_tests, evaluated, line, mapped = others
    texts = None if near is None else tuple(text.encode() for text in near)
    return When(
        library, texts, tuple(beside), module, tuple(says), tuple(or_says), in_tests, evaluated, line, mapped
    )


def _load_card(told: list[Any], whens: list[When]) -> Card:
    known, wakes, lines = told
    return Card(
        RuleMetadata.decode_metadata(known),
        tuple(Wake(kind, name, tuple((word, whens[at]) for word, at in words)) for kind, name, words in wakes),
        {pattern: (tuple(saying), on) for pattern, saying, on in lines},
    )


def may_reach_certainty(card: Card, least: Certainty) -> bool:
    """Return whether any finding of a rule may reach the required certainty."""
    return card.known.ceiling.is_at_least(least)

