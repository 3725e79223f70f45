"""What an answer rests on: the files that were read for it and the questions put to the whole project.

Answers are remembered, so a later question may be answered without reading anything. What each rests on is remembered
with it, and counts for whoever asks again. Each file and each question has a bit; what an answer needs is an integer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, Generic, TypeVar

Need = Path | tuple[str, ...]
"""A file, or a question: its kind and what is asked."""

Key = TypeVar("Key")
Answer = TypeVar("Answer")


class Needs:
    """The bits of a project, and what has been needed since somebody began to ask."""

    def __init__(self) -> None:
        self.bits: dict[Need, int] = {}
        self.now = 0
        self._by_bit: list[Need | None] = []
        self._unfinished: dict[int, int] = {}

    def _bit(self, need: Need | None = None) -> int:
        self._by_bit.append(need)
        return 1 << (len(self._by_bit) - 1)

    def note(self, need: Need) -> None:
        """Something was read or asked."""
        bit = self.bits.get(need)
        if bit is None:
            bit = self.bits[need] = self._bit(need)
        self.now |= bit

    def unfinished(self) -> int:
        """A bit for an answer that is still being made, used by what is part of it."""
        bit = self._bit()
        self.now |= bit
        return bit

    def finished(self, bit: int, needed: int) -> None:
        """What the answer came to need."""
        self._unfinished[bit] = needed

    def named(self, needed: int) -> tuple[Need, ...]:
        """What bits stand for, with what answers came to need that were unfinished then."""
        left = self._whole(needed)
        found = []
        while left:  # most answers need little, of all that was ever needed
            last = left & -left
            need = self._by_bit[last.bit_length() - 1]
            if need is not None:
                found.append(need)
            left ^= last
        return tuple(found)

    def _whole(self, needed: int) -> int:
        todo = [bit for bit in self._unfinished if bit & needed]
        done = set(todo)
        while todo:
            needed |= self._unfinished[todo.pop()]
            new = [bit for bit in self._unfinished if bit & needed and bit not in done]
            done.update(new)
            todo += new
        return needed

    def renumber(self, *kept: Remembered[Any, Any]) -> None:
        """Forget all needs but those of kept answers and of now: a number is as long as its highest bit."""
        now = self.named(self.now)
        named = [(answers, list(answers.named())) for answers in kept]
        self.bits.clear()
        self._by_bit.clear()
        self._unfinished.clear()
        self.now = self._of(now)
        for answers, entries in named:
            for key, answer, needed in entries:
                answers.keep(key, answer, self._of(needed))

    def _of(self, named: Iterable[Need]) -> int:
        before = self.begin()
        for need in named:
            self.note(need)
        own, self.now = self.now, before
        return own

    def begin(self) -> int:
        """Begin an answer: what is needed from here on is its own. Returns what to give to `end`."""
        before, self.now = self.now, 0
        return before

    def end(self, before: int) -> int:
        """What the answer needed. Whoever asked for it needs that too."""
        own = self.now
        self.now |= before
        return own


class Remembered(Generic[Key, Answer]):
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
            self._begun[key] = self._begun[key] or self.needs.unfinished()
            needed = self._begun[key]
        self.needs.now |= needed
        return answer

    def keep(self, key: Key, answer: Answer, needed: int) -> None:
        """Remember an answer."""
        self._known[key] = (answer, needed)

    def named(self) -> Iterator[tuple[Key, Answer, tuple[Need, ...]]]:
        """The answers, and what each needed."""
        for key, (answer, needed) in self._known.items():
            yield key, answer, self.needs.named(needed)

    def begin(self, key: Key, answer: Answer) -> None:
        """What to answer for now to whoever asks on the way to the answer, which `make` makes."""
        self._known[key] = (answer, 0)
        self._begun[key] = 0

    def get(self, key: Key, make: Callable[[], Answer]) -> Answer:
        """The answer, made now if it is not known."""
        return self[key] if key in self._known else self.make(key, make)

    def make(self, key: Key, make: Callable[[], Answer]) -> Answer:
        """Make an answer and remember it."""
        before = self.needs.begin()
        try:
            answer = make()
        finally:
            needed = self.needs.end(before)
            bit = self._begun.pop(key, 0)
            if bit:
                self.needs.finished(bit, needed)
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
        self._known: Remembered[Key, Answer] = Remembered(needs)
        self._open: dict[Key, int] = {}
        self._passing: dict[Key, tuple[Answer, int, int]] = {}
        self._until: dict[int, list[Key]] = {}
        self._cut_by = depth + 2

    def is_open(self, key: Key) -> bool:
        """Whether a question is being asked; an answer that depends on it is cut short."""
        if key not in self._open:
            return False
        self._cut_by = min(self._cut_by, self._open[key])
        return True

    def ask(self, key: Key, answer: Callable[[], Answer], cut: Callable[[bool], Answer]) -> Answer:
        """The answer; `cut` gives what to say instead for one that is being asked, or (True) after too long a way."""
        if key in self._known:
            return self._known[key]
        if key in self._passing:
            passing, cut_by, needed = self._passing[key]
            self._cut_by = min(self._cut_by, cut_by)
            self.needs.now |= needed
            return passing
        if self.is_open(key):
            return cut(False)
        index = len(self._open)
        if index > self.depth:
            self._cut_by = 0
            return cut(True)
        self._open[key] = index
        outer, self._cut_by = self._cut_by, self.depth + 2
        before = self.needs.begin()
        try:
            found = answer()
        finally:
            del self._open[key]
            needed = self.needs.end(before)
            cut_by, self._cut_by = self._cut_by, min(outer, self._cut_by)
            for stale in self._until.pop(index, ()):
                self._passing.pop(stale, None)
        if cut_by >= index:
            self._known.keep(key, found, needed)
            self._cut_by = outer
        else:
            self._passing[key] = found, cut_by, needed
            self._until.setdefault(cut_by, []).append(key)
        return found
