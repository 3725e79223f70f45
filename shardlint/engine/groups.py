"""Findings of one file, kept in groups: the findings of one rule in one part of the file, and their dependencies.

After an edit only the groups are looked at anew that rest on what changed.
"""

from __future__ import annotations

import ast
from bisect import bisect_right
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from functools import cached_property, reduce
from itertools import accumulate
from operator import or_
from typing import NamedTuple

from shardlint.config.targets import Targets
from shardlint.engine.dispatch import FollowedName, TriggerCandidate, places_on_lines, site_order, sites_at
from shardlint.engine.index import RuleIndex, Word
from shardlint.model import Program
from shardlint.model.bits import Bits, Need
from shardlint.model.rechecked_project import InvalidatedFacts
from shardlint.rules_api.rule import Finding, Rule
from shardlint.rules_api.site import Site
from shardlint.source.lazy import dataclass
from shardlint.source.patterns import compile_lazily
from shardlint.source.store import digest_bytes
from shardlint.source.text import Source
from shardlint.source.timing import timed
from shardlint.syntax import FileFacts
from shardlint.syntax.file_edits import Edited, Text, noted_file
from shardlint.syntax.parts import OUTLINE, Part, lines_of, part_pieces, texts_of_parts

_LINES = compile_lazily(r"\blines? \d")
Spot = tuple[str, int]
"""A character of a file: its part, and how far from the part's beginning it is."""


class StoredFinding(NamedTuple):
    """A finding, and where it is: the spots of its site, of itself and of its edits."""

    finding: Finding
    spots: tuple[Spot, ...]

    def mentions_lines(self, names: Iterable[str], own_lines: bool) -> bool:
        """Return whether its texts mention lines: of files, by name, or of its own."""
        finding = self.finding
        fix = finding.fix
        said = [finding.label, finding.message, finding.help, finding.why, *(finding.obstacles or ())]
        if fix is not None:
            said += [fix.message, fix.why, *(edit.text for edit in fix.edits)]
        return any((own_lines and _LINES.search(one)) or any(name in one for name in names) for one in said)


@dataclass(frozen=True)
class Group:
    """Findings of one rule in one part of a file. The bits of `needed` select the dependencies among those of the
    file.
    """

    needed: int
    told: tuple[StoredFinding, ...] = ()


@dataclass(frozen=True)
class PartRecord:
    """One part: digests of what rules ask of it and of the sites that gives, what that needed, and what they found."""

    asked: str
    sites: str
    needed: int
    groups: Mapping[str, Group]


@dataclass(frozen=True)
class Record:
    """Findings in a file, by its parts. `texts` are digests of the text of each part."""

    least: str
    texts: Mapping[str, str]
    parts: Mapping[str, PartRecord]
    base: int = 0
    """What it needed to say which words of the file are of interest."""
    words: str = ""
    """A digest of these words."""
    followed: Mapping[str, frozenset[FollowedName]] = field(default_factory=dict)
    """The names that are followed for them, by the parts that say so."""

    @cached_property
    def used_needs(self) -> int:
        """The needs that anything in it rests on."""
        found = self.base
        for part in self.parts.values():
            found |= part.needed
            for group in part.groups.values():
                found |= group.needed
        return found


@dataclass
class Before:
    """Record of a file from before a change, with its invalid dependencies as bits."""

    record: Record
    places: Bits
    dead: int = 0
    named: tuple[str, ...] = ()
    """The files whose lines may have moved, by name."""

    def with_changes(self, touched: Iterable[int], named: tuple[str, ...]) -> Before:
        """The same after something changed."""
        dead = reduce(or_, (1 << place for place in touched), self.dead)
        return Before(self.record, self.places, dead, tuple(dict.fromkeys((*self.named, *named))))

    @property
    def is_still_valid(self) -> bool:
        """True if all that was found still is, in a file that is the same."""
        groups = (group for part in self.record.parts.values() for group in part.groups.values())
        return not self.dead & self.record.used_needs and not any(
            told.mentions_lines(self.named, False) for group in groups for told in group.told
        )


class RuleFailed(Exception):
    """A rule that raised; the message says which and where."""


class Layout:
    """The characters of a file by its parts."""

    def __init__(self, source: Source, cut: Sequence[Part]) -> None:
        parts = list(part_pieces(cut))
        starts = source.line_starts if parts else []
        self.names = [part.name for part in parts]
        self.starts = [starts[part.first - 1] for part in parts]
        self.ends = [starts[part.last] if part.last < len(starts) else len(source.text) for part in parts]
        sizes = [end - start for start, end in zip(self.starts, self.ends, strict=True)]
        self.before = [0, *accumulate(sizes)]
        self._place = dict(zip(self.names, range(len(parts)), strict=True))

    def spot_of_offset(self, offset: int) -> Spot:
        """Where a character is."""
        place = bisect_right(self.starts, offset) - 1
        if place >= 0 and offset < self.ends[place]:
            return self.names[place], offset - self.starts[place]
        return OUTLINE, offset - self.before[place + 1]

    def offset_of_spot(self, spot: Spot) -> int:
        """The character."""
        name, along = spot
        if name != OUTLINE:
            return self.starts[self._place[name]] + along
        for place, start in enumerate(self.starts):
            if along + self.before[place] < start:
                return along + self.before[place]
        return along + self.before[-1]


@dataclass
class _SiteFinding:
    """A finding of a site: where that is and in which order, and what was needed, if it was made just now."""

    order: tuple[int, str, str]
    finding: Finding
    room: _UnfinishedGroup
    needs: set[int] = field(default_factory=set)
    fresh: int = 0
    made: bool = True


@dataclass
class _UnfinishedGroup:
    """A group that is being made: what was needed just now, and before."""

    needs: set[int] = field(default_factory=set)
    fresh: int = 0
    kept: int = 0
    told: list[StoredFinding] = field(default_factory=list)


@dataclass
class _Part:
    """A part that is looked at: what is asked of it, which sites that gives, and what it needed to say so."""

    asked: str
    sites: str
    room: _UnfinishedGroup


class FileCheck:
    """One look at a file. What was known before is used where it holds; `kept` says that this is to be kept too."""

    def __init__(
        self,
        program: Program,
        facts: FileFacts,
        index: RuleIndex,
        targets: Targets,
        before: Before | None = None,
        kept: bool = False,
    ) -> None:
        self.program, self.facts, self.index, self.targets, self.kept = program, facts, index, targets, kept
        parts = facts.looked.parts_in_order
        self._layout = Layout(facts.untracked_source, parts)
        self._own = texts_of_parts(facts.untracked_source.text, parts) if kept else {}
        self._texts = {
            name: digest_bytes(text.encode("utf-8", "surrogatepass")) for name, text in self._own.items()
        }
        self._before = before if before is not None and self._is_usable(before.record) else None
        texts_before = self._before.record.texts if self._before is not None else {}
        self._same = {name for name, text in texts_before.items() if self._texts.get(name) == text}
        """The parts that are as they were."""
        self._moved = list(texts_before.items()) != list(self._texts.items())
        """Whether anything of the text is another, or stands elsewhere."""
        self._dead = self._invalid_needs() if self._before is not None else 0
        self._parts: dict[str, _Part] = {}
        self._groups: dict[tuple[str, str], _UnfinishedGroup] = {}
        self._found: list[_SiteFinding] = []
        self._places = self._before.places if self._before is not None else Bits()
        """What was needed before or just now, by anything: which bits stand for it."""
        self._base = 0
        self._words = ""
        self._followed: Mapping[str, frozenset[FollowedName]] = {}

    def _is_usable(self, record: Record) -> bool:
        """Return whether any cached finding may still be valid. Each depends on the outline of its own file."""
        same = self.kept and record.texts.get(OUTLINE) == self._texts[OUTLINE]
        return same and record.least == self.index.least.value

    def _invalid_needs(self) -> int:
        """The needs from before that no longer hold, those of the file itself among them."""
        before = self._before
        assert before is not None
        dead = before.dead
        if self._moved:
            now = Text(self.facts.untracked_source.text, self._own)
            edited = Edited.compare_digests(before.record.texts, now, self._texts)
            for place in InvalidatedFacts(edited={str(self.facts.path): edited}).find_invalidated_numbers(
                before.places
            ):
                dead |= 1 << place
        return dead

    def run_rules(
        self, words: Iterable[Word], check: Callable[[Site], Iterable[Finding]], pause: Callable[[], None]
    ) -> Iterator[tuple[Rule, RuleFailed]]:
        """Look; yields the rules that failed, of which nothing more is asked."""
        needs = self.program.needs
        outer, needs.now = needs.now, set()
        with timed("searching for triggers of rules"):
            triggered = [
                site
                for part, inside in self._questions_by_part(words)
                for site in self._sites_of_part(part, inside)
            ]
        failed: set[Rule] = set()
        for site in sorted(triggered, key=site_order):
            pause()
            if site.rule in failed:
                continue
            needs.now = set()
            try:
                self._ask_rule(site, check)
            except RuleFailed as error:
                failed.add(site.rule)
                yield site.rule, error
        needs.now = outer
        if not self.kept and not self._found:
            return  # nobody asks what it rests on
        rooms = [*(part.room for part in self._parts.values()), *self._groups.values()]
        sets = [outer, *(room.needs for room in rooms), *(one.needs for one in self._found)]
        self._base, *bits = needs.combine_sets(sets, self._places)
        making: list[_UnfinishedGroup | _SiteFinding] = [*rooms, *self._found]
        for one, found in zip(making, bits, strict=True):
            one.fresh = found

    def _questions_by_part(self, words: Iterable[Word]) -> Iterable[tuple[str, Sequence[tuple[int, TriggerCandidate]]]]:
        """Return the questions, by parts. The text alone decides them. A part whose findings are all valid gets
        none.
        """
        words = tuple(words)
        self._words = _digest_of(words) if self.kept else ""
        before = self._before.record if self._before is not None else None
        if before is not None and before.words == self._words:
            hold = {name for name in self._same if self._is_part_still_valid(before.parts.get(name))} - {OUTLINE}
            again = self._texts.keys() - hold
            known = frozenset().union(*before.followed.values())
            lines = lines_of(again, self.facts.looked.parts_in_order, len(self.facts.untracked_source.line_starts))
            places, followed = places_on_lines(self.facts, self.index, words, known, lines)
            found = self._names_by_part(followed, again)
            if all(
                found.get(name) == before.followed.get(name)
                for name in again | (before.followed.keys() - hold)
            ):
                self._followed = before.followed
                for name in hold & before.parts.keys():
                    self._take_over(name, before.parts[name])
                return [(name, inside) for name, inside in self._group_by_part(places) if name in again]
        places, followed = places_on_lines(self.facts, self.index, words, ())
        self._followed = self._names_by_part(followed, self._texts.keys()) if self.kept else {}
        return self._group_by_part(places)

    def _names_by_part(
        self, followed: Iterable[tuple[ast.AST, FollowedName]], parts: Collection[str]
    ) -> dict[str, frozenset[FollowedName]]:
        found: dict[str, set[FollowedName]] = {}
        for node, one in followed:
            part = self._spot_of_node(node)[0]
            if part in parts:
                found.setdefault(part, set()).add(one)
        return {part: frozenset(names) for part, names in found.items()}

    def _is_part_still_valid(self, part: PartRecord | None) -> bool:
        if part is None:
            return True
        return not part.needed & self._dead and all(map(self._is_group_valid, part.groups.values()))

    def _take_over(self, name: str, part_record: PartRecord) -> None:
        self._parts[name] = _Part(part_record.asked, part_record.sites, _UnfinishedGroup(kept=part_record.needed))
        for code, group in part_record.groups.items():
            self._reuse_group(name, code, group)

    def _group_by_part(
        self, places: Iterable[TriggerCandidate]
    ) -> Iterable[tuple[str, list[tuple[int, TriggerCandidate]]]]:
        found: dict[str, list[tuple[int, TriggerCandidate]]] = {}
        for place in places:
            part, along = self._spot_of_node(place.node)
            found.setdefault(part, []).append((along, place))
        return found.items()

    def _spot_of_node(self, node: ast.AST) -> Spot:
        """Where a node begins; where nothing is kept all is one part, and nobody asks where in it."""
        return self._layout.spot_of_offset(self.facts.character_span(node)[0]) if self.kept else (OUTLINE, 0)

    def _sites_of_part(self, name: str, inside: Sequence[tuple[int, TriggerCandidate]]) -> Sequence[Site]:
        """The sites of a part that must be looked at."""
        needs = self.program.needs
        places = [one for _, one in inside]
        part = self._parts[name] = _Part(_digest_of_questions(inside) if self.kept else "", "", _UnfinishedGroup())
        known = self._known_record(name, part.asked)
        if known is not None and not known.needed & self._dead:
            part.sites, part.room.kept = known.sites, known.needed
            again = {code for code, group in known.groups.items() if not self._is_group_valid(group)}
            places = [one._replace(rules=one.rules & self.index.select_codes(again)) for one in places]
            needs.now = set()
            found = sites_at(self.program, self.facts, self.index, self.targets, filter(_is_asked, places))
        else:
            needs.now = set()
            found = sites_at(self.program, self.facts, self.index, self.targets, places)
            part.room.needs = needs.now
            part.sites = self._digest_of_triggers(found) if self.kept else ""
            if known is None or known.sites != part.sites:
                return found
            again = {code for code, group in known.groups.items() if not self._is_group_valid(group)}
        for code in known.groups.keys() - again:
            self._reuse_group(name, code, known.groups[code])
        return [site for site in found if site.rule.code in again]

    def _digest_of_triggers(self, sites: Iterable[Site]) -> str:
        spots = ((self._spot_of_node(one.syntax), one) for one in sites)
        return digest_bytes(
            repr([(spot, one.rule.code, one.form, one.api, one.written) for spot, one in spots]).encode()
        )

    def _known_record(self, name: str, said: str) -> PartRecord | None:
        """Return the record of a part that is unchanged and gets the same questions."""
        known = self._before.record.parts.get(name) if self._before is not None else None
        return known if known is not None and known.asked == said and name in self._same else None

    def _is_group_valid(self, group: Group) -> bool:
        """Return whether cached findings are still valid."""
        if group.needed & self._dead:
            return False
        before = self._before
        assert before is not None
        return not any(
            told.mentions_lines(before.named, self._moved) or any(part not in self._same for part, _ in told.spots)
            for told in group.told
        )

    def _reuse_group(self, name: str, code: str, group: Group) -> None:
        room = self._groups[name, code] = _UnfinishedGroup(kept=group.needed, told=list(group.told))
        for told in group.told:
            at, start, end, *edits = map(self._layout.offset_of_spot, told.spots)
            finding = replace(told.finding, rule=type(self.index.cards_by_code[code].rule), start=start, end=end)
            if finding.fix is not None:
                places = zip(finding.fix.edits, edits[::2], edits[1::2], strict=True)
                moved = tuple(replace(edit, start=first, end=last) for edit, first, last in places)
                finding = replace(finding, fix=replace(finding.fix, edits=moved))
            self._found.append(_SiteFinding((at, code, ""), finding, room, made=False))

    def _ask_rule(self, site: Site, check: Callable[[Site], Iterable[Finding]]) -> None:
        needs = self.program.needs
        # A violation rests on the whole file: it is kept with the place that asks for all of them.
        asked = self.facts.tree.body[0] if site.form == "violation" else site.syntax
        room = self._groups.setdefault((self._spot_of_node(asked)[0], site.rule.code), _UnfinishedGroup())
        try:
            for finding in check(site):
                at = self.facts.character_span(site.syntax)[0]
                self._found.append(_SiteFinding((at, site.rule.code, site.form), finding, room, needs.now))
        finally:
            room.needs |= needs.now

    def collect_findings(self) -> Iterator[Finding]:
        """All that was found, in the order of the sites; once."""
        own, needed = str(self.facts.path), self._places.positioned_needs()
        for one in sorted(self._found, key=lambda one: one.order):
            finding = one.finding
            if one.made:
                rests = {noted_file(needed[place]) for place in _set_bits(one.fresh)} - {own}
                finding = replace(finding, rests=tuple(sorted(path for path in rests if path is not None)))
                edits = finding.fix.edits if finding.fix is not None else ()
                offsets = (
                    one.order[0],
                    finding.start,
                    finding.end,
                    *(x for edit in edits for x in (edit.start, edit.end)),
                )
                one.room.told.append(StoredFinding(finding, tuple(map(self._layout.spot_of_offset, offsets))))
            yield finding

    def make_record(self) -> tuple[tuple[Need, ...], Record]:
        """Return all dependencies, and the record to cache; after `findings`."""
        rooms = [*(part.room for part in self._parts.values()), *self._groups.values()]
        for room in rooms:
            room.kept |= room.fresh
        used = reduce(or_, (room.kept for room in rooms), self._base)
        needed = self._places.positioned_needs()
        if used.bit_count() < len(needed) // 2:  # the rest is from before
            held = list(_set_bits(used))
            needed = tuple(needed[place] for place in held)
            moved = dict(zip(held, range(len(held)), strict=True))
            self._base = _move_bits(self._base, moved)
            for room in rooms:
                room.kept = _move_bits(room.kept, moved)
        groups: dict[str, dict[str, Group]] = {}
        for (name, code), room in self._groups.items():
            groups.setdefault(name, {})[code] = Group(room.kept, tuple(room.told))
        parts = {
            name: PartRecord(part.asked, part.sites, part.room.kept, groups.get(name, {}))
            for name, part in self._parts.items()
        }
        least = self.index.least.value
        return needed, Record(least, self._texts, parts, self._base, self._words, self._followed)


def _digest_of(words: Iterable[Word]) -> str:
    told = [
        (
            *(one.word, one.beside, sorted(rule.rule_code for rule in one.rules), one.evaluated),
            sorted((rule.rule_code, pattern) for rule, pattern in one.lines),
        )
        for one in words
    ]
    return digest_bytes(repr(told).encode("utf-8", "surrogatepass"))


def _is_asked(place: TriggerCandidate) -> bool:
    return bool(place.rules)


def _digest_of_questions(inside: Sequence[tuple[int, TriggerCandidate]]) -> str:
    """Return a digest of the questions about a part."""
    told = [
        (
            along,
            type(one.node).__name__,
            sorted(rule.rule_code for rule in one.rules),
            one.evaluated,
            one.form or "",
        )
        for along, one in inside
    ]
    return digest_bytes(repr(sorted(told)).encode())


def _set_bits(bits: int) -> Iterator[int]:
    """Which bits are set."""
    return (place for place, bit in enumerate(reversed(f"{bits:b}")) if bit == "1")


def _move_bits(bits: int, places: Mapping[int, int]) -> int:
    """The same bits at other places."""
    found = bytearray(b"0") * len(places)
    for place in _set_bits(bits):
        found[-1 - places[place]] = ord("1")
    return int(found or b"0", 2)
