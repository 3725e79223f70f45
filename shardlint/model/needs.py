"""Dependencies of an answer: the files read for it, and the questions asked about the whole project.

Answers are remembered, so a later question may be answered without reading anything. What each rests on is remembered
with it, and counts for whoever asks again. Each file and each question has a number, and so has each set of them that
some answer needs. A set names sets in it by their numbers, so that a chain of answers costs no more than its links.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import reduce
from operator import or_
from typing import Any, Generic, TypeVar

from shardlint.model.bits import Bits, Need, lookup_key

GROUPS: Need = ("together",)
"""Stands, among what is no longer so, for all questions which files run together."""
GIVEN: Need = ("given",)
"""What answers need that may be others where a call in sight is looked at: a parameter, a default."""

Key = TypeVar("Key")
Answer = TypeVar("Answer")

# Sets of files and questions up to here are written out in sets they are part of: most answers come to the same few.
_SMALL = 12
# More sets than this, and those that no kept answer needs are let go of between two edits.
_MANY = 200_000


class Needs:
    """The needs of a project by number, and what has been needed since somebody began to ask."""

    def __init__(self) -> None:
        self.now: set[int] = set()
        self._last = 0
        self._numbers: dict[Need, int] = {}
        self._needs: dict[int, Need] = {}
        self._sets: dict[tuple[int, ...], int] = {}
        self._parts: dict[int, tuple[int, ...]] = {}
        """What is in each set."""
        self._small: set[int] = set()
        """The sets that hold files and questions only, and few."""
        self._lent: dict[int, frozenset[Need]] = {}
        """Sets that were told by name, which are numbered when somebody asks what is in them."""
        self._flat: set[int] = set()
        """The sets that were told by name, once they are numbered: files and questions only, however many."""
        self._flat_with: dict[int, list[int]] = {}
        """Those of them that each file or question is in."""
        self._numbering = 0
        """How often everything was numbered anew."""
        self._rest: dict[int, bool] = {}
        """Whether sets come to hold `GIVEN`."""
        self._found_by: dict[str, list[int]] = {}
        """Files and questions by what they can be found by: the file they were noted of, or their kind."""
        self._to_find: list[int] = []
        """Those that are not among these yet: most projects are never asked."""

    def _next_number(self) -> int:
        self._last += 1  # 0 is to need nothing
        return self._last

    def note_need(self, need: Need) -> None:
        """Something was read or asked."""
        number = self._numbers.get(need)
        self.now.add(self._number_of_need(need) if number is None else number)

    def take_needs(self, needed: int) -> None:
        """An answer that needed this was used."""
        if needed:
            self.now.add(needed)

    def reserve_number(self) -> int:
        """Return a number for the dependencies of an answer that is still being computed."""
        number = self._next_number()
        self._parts[number] = ()
        self._rest[number] = True
        return number

    def record_finished(self, number: int, needed: int) -> None:
        """Record the dependencies of a finished answer."""
        self._parts[number] = (needed,) if needed else ()

    def named_needs(self, needed: Iterable[int]) -> tuple[Need, ...]:
        """The files and questions that numbers stand for, in the order in which they were first needed."""
        return tuple(need for need in self.needs_with_given(needed) if need != GIVEN)

    def rests_on_given(self, needed: int) -> bool:
        """Return whether an answer depends on the arguments of a call. An answer that depends on itself counts as
        one.
        """
        todo = [needed]
        while todo:
            one = todo[-1]
            if one in self._lent:
                self._rest[one] = GIVEN in self._lent[one]
                todo.pop()
                continue
            parts = self._parts.get(one, ())
            new = [
                part
                for part in parts
                if part not in self._rest and (part in self._parts or part in self._lent)
            ]
            if new:
                todo += new
                continue
            own = self._needs.get(one) == GIVEN
            self._rest[one] = own or any(
                self._rest.get(part, False) or self._needs.get(part) == GIVEN for part in parts
            )
            todo.pop()
        return self._rest[needed]

    def needs_with_given(self, needed: Iterable[int]) -> tuple[Need, ...]:
        """The same with `GIVEN`."""
        todo = list(needed)
        seen = set(todo)
        while todo:
            number = todo.pop()
            if number in self._lent:
                self._number_lent_needs(number)
            new = [part for part in self._parts.get(number, ()) if part not in seen]
            seen.update(new)
            todo += new
        return tuple(self._needs[number] for number in sorted(seen & self._needs.keys()))

    def copy_needs(self) -> Needs:
        """The same, to be used beside it."""
        made = Needs()
        for name, value in vars(self).items():
            setattr(made, name, value if isinstance(value, int) else value.copy())
        # What is added to one is not the other's.
        made._found_by = {name: list(found) for name, found in self._found_by.items()}
        made._flat_with = {number: list(found) for number, found in self._flat_with.items()}
        return made

    @property
    def has_too_many(self) -> bool:
        """True if there are so many that those nobody needs any more should go."""
        return len(self._needs) + len(self._parts) > _MANY

    def needs_by_key(self, name: str) -> Iterator[tuple[int, Need]]:
        """The numbers of what was noted of a file, by its path, or of the questions of a kind."""
        self._number_all()
        for number in self._to_find:
            self._found_by.setdefault(lookup_key(self._needs[number]), []).append(number)
        self._to_find.clear()
        for number in self._found_by.get(name, ()):
            yield number, self._needs[number]

    def number_of_need(self, need: Need) -> int | None:
        """The number of a file or question; None of one that nobody needed."""
        self._number_all()
        return self._numbers.get(need)

    def make_rests_on(self, gone: set[int]) -> Callable[[int], bool]:
        """Says of sets whether they come to any of some files and questions."""
        self._number_all()
        rests, free = gone.union(*(self._flat_with.get(number, ()) for number in gone)), {0}

        def rests_on_gone(asked: int) -> bool:
            if asked in rests or asked in free or asked in self._flat:
                return asked in rests
            seen: set[int] = set()
            way: list[tuple[int, Iterator[int]]] = []
            todo: Iterator[int] = iter((asked,))
            while True:
                one = next(todo, None)
                if one is None:
                    if not way:
                        free.update(seen)  # all it comes to was looked at
                        return False
                    todo = way.pop()[1]
                elif one not in seen and one not in free:
                    seen.add(one)
                    parts = self._parts.get(one, ()) if one not in self._flat else ()
                    if one in rests or not rests.isdisjoint(parts):
                        rests.update((one, *(number for number, _ in way)))
                        return True
                    if parts and one not in self._small:
                        way.append((one, todo))
                        todo = iter(parts)

        return rests_on_gone if gone else lambda asked: False

    def combine_sets(self, sets: Sequence[Iterable[int]], places: Bits) -> list[int]:
        """For each of some sets what it comes to, as bits of a number. `places` says which bit stands for what.

        What has no place yet is given the next.
        """
        told = places.expanded_set_cache(self, self._numbering)
        order: list[int] = []
        seen: set[int] = set()
        round_about = False
        todo = [(number, False) for one in sets for number in one]
        begun: set[int] = set()
        while todo:
            number, left = todo.pop()
            if left:
                begun.discard(number)
                order.append(number)
            elif number not in seen:
                seen.add(number)
                if number in told:
                    continue
                begun.add(number)
                todo.append((number, True))
                if number in self._lent:
                    self._number_lent_needs(number)
                todo += [(part, False) for part in self._parts.get(number, ())]
            elif number in begun:
                round_about = True
        bits = dict.fromkeys(seen, 0)
        for number in sorted(seen & self._needs.keys()):
            need = self._needs[number]
            if need != GIVEN:
                bits[number] = places.bit_of_need(need)
        bits.update((number, told[number]) for number in seen & told.keys())
        again = True
        while again:
            again = False
            for number in order:
                found = bits[number]
                for part in self._parts.get(number, ()):
                    found |= bits[part]
                again = again or (round_about and found != bits[number])
                bits[number] = found
        told.update((number, bits[number]) for number in seen & self._flat)
        return [reduce(or_, (bits[number] for number in one), 0) for one in sets]

    def keep_only(self, *kept: Memo[Any, Any]) -> None:
        """Forget all needs but those of kept answers and of now: of sets there is no end."""
        self._numbering += 1
        now = self.needs_with_given(self.now)
        named = [(answers, list(answers.named_answers())) for answers in kept]
        for table in (
            self.now, self._numbers, self._needs, self._sets, self._parts, self._small, self._lent, self._rest,
            self._found_by, self._to_find, self._flat, self._flat_with,
        ):  # fmt: skip
            table.clear()
        for need in now:
            self.note_need(need)
        for answers, entries in named:
            for key, answer, needed in entries:
                answers.remember_answer(key, answer, self.number_of_set(needed))

    def lent_set_number(self, named: frozenset[Need]) -> int:
        """The same of one that may never be looked into."""
        number = self._next_number()
        self._lent[number] = named
        return number

    def _number_lent_needs(self, lent: int) -> None:
        parts = self._parts[lent] = tuple(map(self._number_of_need, self._lent.pop(lent)))
        self._flat.add(lent)
        for part in parts:
            self._flat_with.setdefault(part, []).append(lent)

    def _number_all(self) -> None:
        for lent in list(self._lent):
            self._number_lent_needs(lent)

    def _number_of_need(self, need: Need) -> int:
        number = self._numbers.get(need)
        if number is None:
            number = self._numbers[need] = self._next_number()
            self._needs[number] = need
            self._to_find.append(number)
        return number

    def number_of_set(self, named: Iterable[Need]) -> int:
        """The number of a set of needs."""
        before = self.begin_answer()
        for need in named:
            self.note_need(need)
        own, self.now = self._number_of_set(self.now), before
        return own

    def begin_answer(self) -> set[int]:
        """Begin an answer: what is needed from here on is its own. Returns what to give to `end`."""
        before, self.now = self.now, set()
        return before

    def end_answer(self, before: set[int]) -> int:
        """Return the dependencies of the answer, which become dependencies of the enclosing question too."""
        own = self._number_of_set(self.now) if self.now else 0
        self.now = before
        self.take_needs(own)
        return own

    def _number_of_set(self, found: set[int]) -> int:
        """The number of a set; of what is alone in one, its own."""
        if len(found) > 1:
            small = found & self._small
            whole = found.union(*map(self._parts.__getitem__, small)) - small if small else found
            size, parts = len(whole) - 1, self._parts
            for large in whole:
                if large in parts and len(parts[large]) >= size and whole.issubset((large, *parts[large])):
                    return large
            key = tuple(sorted(whole))
            number = self._sets.get(key)
            if number is None:
                number = self._sets[key] = self._next_number()
                self._parts[number] = key
                if len(key) <= _SMALL and self._parts.keys().isdisjoint(key) and self._lent.keys().isdisjoint(key):
                    self._small.add(number)
            return number
        return next(iter(found), 0)


class Memo(Generic[Key, Answer]):
    """Answers by what was asked, each with its needs."""

    def __init__(self, needs: Needs) -> None:
        self.needs = needs
        self._known: dict[Key, tuple[Answer, int]] = {}
        self._begun: dict[Key, int] = {}

    def __contains__(self, key: Key) -> bool:
        return key in self._known

    def __getitem__(self, key: Key) -> Answer:
        answer, needed = self._known[key]
        if key in self._begun:
            self._begun[key] = self._begun[key] or self.needs.reserve_number()
            needed = self._begun[key]
        self.needs.take_needs(needed)
        return answer

    def remember_answer(self, key: Key, answer: Answer, needed: int) -> None:
        """Remember an answer."""
        self._known[key] = (answer, needed)

    def named_answers(self) -> Iterator[tuple[Key, Answer, tuple[Need, ...]]]:
        """The answers, and what each needed."""
        for key, (answer, needed) in self._known.items():
            yield key, answer, self.needs.needs_with_given((needed,))

    def inherit_answers(self, before: Memo[Key, Answer], gone: Callable[[int], bool]) -> None:
        """Take over the answers of another with the same needs, but those resting on what is gone."""
        self._known.update((key, one) for key, one in before._known.items() if not gone(one[1]))

    def remember_lent_answer(self, key: Key, answer: Answer, needs: frozenset[Need]) -> None:
        """Remember an answer that was made for another project, of which what it needed is the same here."""
        self._known[key] = (answer, self.needs.lent_set_number(needs))

    def begin_answer(self, key: Key, answer: Answer) -> None:
        """Store a provisional answer, which queries on the way to the final answer (made by `make`) get."""
        self._known[key] = (answer, 0)
        self._begun[key] = 0

    def get_or_make(self, key: Key, make: Callable[[], Answer]) -> Answer:
        """The answer, made now if it is not known."""
        return self[key] if key in self._known else self.make_answer(key, make)

    def make_answer(self, key: Key, make: Callable[[], Answer]) -> Answer:
        """Make an answer and remember it."""
        before = self.needs.begin_answer()
        try:
            answer = make()
        finally:
            needed = self.needs.end_answer(before)
            number = self._begun.pop(key, 0)
            if number:
                self.needs.record_finished(number, needed)
        self._known[key] = (answer, needed)
        return answer


class Circular(Generic[Key, Answer]):
    """Answers to questions that may come round to themselves, as who calls a function does for recursive ones.

    What was cut short on the way, because the question is being asked already or the way is too long, holds only as
    long as that is so: it is remembered until what it was cut short by is answered.
    """

    def __init__(self, needs: Needs, depth: int) -> None:
        self.needs = needs
        self.depth = depth
        self._known: Memo[Key, Answer] = Memo(needs)
        self._open: dict[Key, int] = {}
        self._passing: dict[Key, tuple[Answer, int, int]] = {}
        self._until: dict[int, list[Key]] = {}
        self._cut_by = depth + 2

    def __contains__(self, key: Key) -> bool:
        return key in self._known

    @property
    def is_asking(self) -> bool:
        """True if any question is being asked."""
        return bool(self._open)

    def is_open(self, key: Key) -> bool:
        """Return whether a question is active. An answer that depends on it is cut short."""
        if key not in self._open:
            return False
        self._cut_by = min(self._cut_by, self._open[key])
        return True

    def answer_query(self, key: Key, answer: Callable[[], Answer], cut: Callable[[bool], Answer]) -> Answer:
        """The answer; `cut` gives what to say instead for one that is being asked, or (True) after too long a way."""
        if key in self._known:
            return self._known[key]
        if key in self._passing:
            passing, cut_by, needed = self._passing[key]
            self._cut_by = min(self._cut_by, cut_by)
            self.needs.take_needs(needed)
            return passing
        if self.is_open(key):
            return cut(False)
        index = len(self._open)
        if index > self.depth:
            self._cut_by = 0
            return cut(True)
        self._open[key] = index
        outer, self._cut_by = self._cut_by, self.depth + 2
        before = self.needs.begin_answer()
        try:
            found = answer()
        finally:
            del self._open[key]
            needed = self.needs.end_answer(before)
            cut_by, self._cut_by = self._cut_by, min(outer, self._cut_by)
            for stale in self._until.pop(index, ()):
                self._passing.pop(stale, None)
        if cut_by >= index:
            self._known.remember_answer(key, found, needed)
            self._cut_by = outer
        else:
            self._passing[key] = found, cut_by, needed
            self._until.setdefault(cut_by, []).append(key)
        return found
