"""What a person should know of the functions a program compiled: the rules of `shardlint run`.

Each rule would rather miss a fault than raise a false alarm: what data parallelism needs (parameters on
every device), what every program does once (making arrays on one device before they are placed) and what
is small is no finding.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from shardlint.verify.facts import Array, Line
from shardlint.verify.report import size_text
from shardlint.verify.sanitizer.dumps import Compiled
from shardlint.verify.sanitizer.functions import Function

_SHARE = 0.01
# Recompiling is a finding from so many programs on, and only where it takes time or moves large arrays: every
# program has scalars that come from the host once, and tests call jax.jit again and again.
_CHURN = 4
_AGAIN = 3
_SECONDS = 1.0


@dataclass(frozen=True)
class Found:
    """One finding.

    `kind`: `replicated`, `one-device`, `unused-axis`, `donation`, `rematerialised` or `recompiled`.
    `message` is one sentence, `arrays` the leaves it is about (`p['w1'] f32[512,1024]`), `advice` what
    to write instead, `bytes` what one device holds or does too much of.
    """

    kind: str
    function: str
    line: Line
    message: str
    arrays: tuple[str, ...] = ()
    advice: str = ""
    bytes: int = 0


@dataclass(frozen=True)
class Moved:
    """What one line of the source moves in one call of a function, on each device.

    `trips` are how often its collectives run, each different count once; None is a loop whose count is not
    known, of which one round is counted.
    """

    line: Line
    function: str
    kind: str
    axes: tuple[str, ...]
    group: int
    bytes: int
    trips: tuple[int | None, ...]
    arrays: tuple[str, ...]
    of: tuple[str, ...]


@dataclass
class Facts:
    """What was compiled, as far as a report needs it."""

    functions: list[list[Compiled]] = field(default_factory=list)
    found: list[Found] = field(default_factory=list)
    moved: list[Moved] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    compiled: int = 0
    seconds: float = 0.0

    @property
    def meshes(self) -> list[dict[str, int]]:
        """The meshes programs were partitioned for, each once."""
        seen = {tuple(one.program.mesh.items()): None for each in self.functions for one in each}
        return [dict(mesh) for mesh in seen if mesh]

    @property
    def devices(self) -> int:
        """The most devices a function ran on."""
        return max((one.devices for each in self.functions for one in each), default=0)


def examine(compiled: Sequence[Compiled], large: int) -> Facts:
    """All findings of a run; arrays of fewer than `large` bytes, or of less than a hundredth of what a
    device holds of a function's arrays, are left alone.
    """
    groups: dict[Function, list[Compiled]] = defaultdict(list)
    for one in compiled:
        groups[_same(one.function)].append(one)
    facts = Facts(
        [each for each in groups.values() if each[0].function.own or each[0].devices > 1],
        compiled=len(compiled),
        seconds=sum(one.seconds for one in compiled),
    )
    run = _Run(compiled, large)
    for each in facts.functions:
        facts.found += _rematerialised(each, run)
        if each[0].function.own:
            facts.found += [*_donated(each, run), *_whole(each, run), *_recompiled(each, run)]
    facts.found += [*run.nothing_split(), *run.unused_axes(), *run.from_one_device(facts.functions)]
    facts.found += run.on_one_device(facts.functions)
    facts.found.sort(key=lambda found: -found.bytes)
    facts.moved = _moved(facts.functions)
    return facts


def _same(function: Function) -> Function:
    """What tells functions apart: not where they are called from."""
    return Function(function.name, function.line, Line(), function.own)


def _largest(each: Sequence[Compiled]) -> list[Compiled]:
    """The compilations of a function worth looking at one by one: each with other arrays, largest first."""
    seen: dict[object, Compiled] = {}
    for one in each:
        seen.setdefault(tuple((leaf.where, leaf.spec, leaf.donated) for leaf in one.program.arrays), one)
    return sorted(seen.values(), key=lambda one: -sum(leaf.bytes for leaf in one.program.arrays))


class _Run:
    """What rules ask about the whole program."""

    def __init__(self, compiled: Sequence[Compiled], limit: int) -> None:
        self.compiled, self.limit = compiled, limit
        self.spread = [one for one in compiled if one.partitions > 1]
        # The state that functions of the user's keep split: by type and shape, the first leaf of it.
        self.split: dict[str, tuple[Compiled, Array]] = {}
        for one in self.spread:
            for leaf in one.program.arrays:
                if one.function.own and self.is_large(leaf, one) and leaf.copies < one.partitions:
                    self.split.setdefault(leaf.array, (one, leaf))

    def is_large(self, leaf: Array, one: Compiled) -> bool:
        """Whether an array is worth a word: absolutely, and beside the others of its function."""
        held = max(sum(each.bytes for each in one.arguments), sum(each.bytes for each in one.results))
        return leaf.bytes_whole >= self.limit and leaf.bytes >= _SHARE * held

    def whole(self, leaf: Array, one: Compiled) -> bool:
        """Whether an array is large and lies whole on every device."""
        return one.partitions > 1 and leaf.copies == one.partitions and self.is_large(leaf, one)

    def nothing_split(self) -> Iterator[Found]:
        """A mesh over which no array is split, so that every device does all of the work."""
        if not self.spread or any(
            leaf.copies < one.partitions for one in self.spread for leaf in one.program.arrays
        ):
            return
        if any(one.program.collectives or one.program.warned for one in self.spread):
            return
        wholes = [
            (one, leaf) for one in self.spread for leaf in one.program.arrays if self.whole(leaf, one)
        ]
        if wholes:
            one = wholes[0][0]
            leaves = _texts(leaf for each, leaf in wholes if each is one)
            yield Found(
                "replicated", one.function.name, one.function.line,
                f"the program has {one.partitions} devices and splits no array over them: each does all of "
                "the work",
                leaves,
                "give the arguments of the function shardings that name mesh axes",
                sum(leaf.bytes for each, leaf in wholes if each is one),
            )  # fmt: skip

    def unused_axes(self) -> Iterator[Found]:
        """Axes of a mesh over which nothing is split and nothing moved."""
        by_mesh: dict[tuple[tuple[str, int], ...], list[Compiled]] = defaultdict(list)
        for one in self.spread:
            if one.program.mesh:
                by_mesh[tuple(one.program.mesh.items())].append(one)
        for mesh, each in by_mesh.items():
            leaves = [(one, leaf) for one in each for leaf in one.program.arrays]
            # What no spec describes may use any axis.
            if any(leaf.axes is None and leaf.copies < one.partitions for one, leaf in leaves):
                continue
            used = {name for _, leaf in leaves for names in leaf.axes or () for name in names}
            used |= {name for one in each for moved in one.program.collectives for name in moved.axes}
            free = [name for name, size in mesh if size > 1 and name not in used]
            large = [(one, leaf) for one, leaf in leaves if self.is_large(leaf, one) and one.function.own]
            if not free or not used or not large:
                continue
            one = large[0][0]
            copies = math.prod(size for name, size in mesh if name in free)
            yield Found(
                "unused-axis", one.function.name, one.function.line,
                f"nothing is split over mesh axis {', '.join(map(repr, free))}: its {copies} parts hold and do "
                "the same",
                advice=f"name {'it' if len(free) == 1 else 'them'} in a sharding, or make the mesh without",
                bytes=sum(leaf.bytes for each, leaf in large if each is one),
            )  # fmt: skip

    def from_one_device(self, functions: Iterable[Sequence[Compiled]]) -> Iterator[Found]:
        """Large arguments that were never placed: made whole on one device, and moved by the call."""
        for each in functions:
            for one in each:
                if not one.function.own:
                    continue
                leaves = [
                    leaf for leaf in one.arguments if leaf.where in one.unplaced and self.is_large(leaf, one)
                ]
                maker, taken = self._maker(leaves, one)
                if maker is not None:
                    yield Found(
                        "one-device", maker.function.name, maker.function.line,
                        f"makes {_count(taken)} whole on one device ({size_text(_whole_bytes(taken))}); "
                        f"{one.function.name} takes {'it' if len(taken) == 1 else 'them'} from there",
                        _texts(taken),
                        "give it out_shardings, or place what it returns with jax.device_put",
                        _whole_bytes(taken),
                    )  # fmt: skip
                    break

    def _maker(self, leaves: Sequence[Array], taker: Compiled) -> tuple[Compiled | None, list[Array]]:
        """Who made the most arrays of these types on one device, before `taker`, in its process; and which."""
        best: tuple[tuple[int, bool], Compiled | None, list[Array]] = ((0, False), None, [])
        for one in self.compiled:
            if one is taker:
                break
            if one.devices == 1 and one.process == taker.process:
                made = {leaf.array for leaf in one.results}
                taken = [leaf for leaf in leaves if leaf.array in made]
                if taken and (len(taken), one.function.own) >= best[0]:
                    best = (len(taken), one.function.own), one, taken
        return best[1], best[2]

    def on_one_device(self, functions: Iterable[Sequence[Compiled]]) -> Iterator[Found]:
        """Functions on one device that take what another function keeps split."""
        for each in functions:
            for one in each:
                if one.devices > 1 or not one.function.own:
                    continue
                taken = [
                    leaf
                    for leaf in one.arguments
                    if leaf.bytes_whole >= self.limit
                    and leaf.array in self.split
                    and self.split[leaf.array][0].at < one.at
                    and self.split[leaf.array][0].process == one.process
                ]
                if taken:
                    other = self.split[taken[0].array][0]
                    yield Found(
                        "one-device", one.function.name, one.function.line,
                        f"runs on one of {other.partitions} devices, with {_count(taken)} "
                        f"({size_text(_whole_bytes(taken))}) whose like {other.function.name} keeps split",
                        _texts(taken),
                        "pass the sharded arrays themselves",
                        _whole_bytes(taken),
                    )  # fmt: skip
                    break


def _whole(each: Sequence[Compiled], run: _Run) -> Iterator[Found]:
    """Arrays whole on every device, in a program that splits their like or the rest of its state."""
    for one in _largest(each):
        wholes = [leaf for leaf in one.program.arrays if run.whole(leaf, one)]
        results = Counter(leaf.array for leaf in one.results)
        state = [leaf for leaf in one.arguments if leaf.array in results and run.is_large(leaf, one)]
        split = _whole_bytes(leaf for leaf in state if leaf.copies < one.partitions)
        mostly_split = split > 0 and split >= _whole_bytes(leaf for leaf in state if leaf in wholes)
        told = [leaf for leaf in wholes if leaf.array in run.split or (leaf in state and mostly_split)]
        outs = [leaf for leaf in wholes if leaf.role == "out" and mostly_split and leaf not in told]
        told += outs
        # A result that is an argument too is told of once.
        inside = {leaf.array for leaf in told if leaf.role == "in"}
        told = [leaf for leaf in told if leaf.role == "in" or leaf.array not in inside]
        if not told:
            continue
        known = next((run.split[leaf.array] for leaf in told if leaf.array in run.split), None)
        like = ""
        if known is not None:
            where = "" if known[0].function == one.function else f" of {known[0].function.name}"
            like = f"; {known[1].where}{where}, of the same shape, is {known[1].spec}"
        yield Found(
            "replicated", one.function.name, one.function.line,
            f"{_count(told)} whole on each of {one.partitions} devices ({size_text(_bytes(told))} a device)"
            f"{like}",
            _texts(told),
            "constrain it, or give jax.jit out_shardings" if told[0].role == "out" else
            "place it with the sharding of its like",
            _bytes(told),
        )  # fmt: skip
        return


def _donated(each: Sequence[Compiled], run: _Run) -> Iterator[Found]:
    """Donated arrays whose buffers no result took."""
    for one in _largest(each):
        lost = [
            leaf for leaf in one.arguments
            if leaf.donated and leaf.aliased is False and leaf.bytes >= _least(run, one)
        ]  # fmt: skip
        if not lost:
            continue
        results = Counter((leaf.array, leaf.spec) for leaf in one.results)
        first = lost[0]
        if any(array == first.array for array, _ in results):
            spec = next(spec for array, spec in results if array == first.array)
            why = f"the result of its shape lies otherwise ({spec}; given {first.spec})" if (
                spec != first.spec
            ) else "every result of its shape took another buffer"  # fmt: skip
        else:
            why = f"no result is {first.array}"
        yield Found(
            "donation", one.function.name, one.function.line,
            f"{_count(lost)} donated in vain ({size_text(_bytes(lost))} a device): {why}",
            _texts(lost),
            "return an array of that shape, type and sharding, or do not donate it",
            _bytes(lost),
        )  # fmt: skip
        return


def _least(run: _Run, one: Compiled) -> float:
    return max(run.limit / one.devices, _SHARE * sum(leaf.bytes for leaf in one.arguments))


def _rematerialised(each: Sequence[Compiled], run: _Run) -> Iterator[Found]:
    """Arrays made whole on every device only to be cut another way."""
    seen: set[Line] = set()
    for one in _largest(each):
        for warned in one.program.warned:
            if warned.bytes >= run.limit and warned.line not in seen:
                seen.add(warned.line)
                yield Found(
                    "rematerialised", one.function.name, warned.line,
                    f"the compiler makes {warned.message} whole on every device ({size_text(warned.bytes)}) only "
                    "to cut it another way",
                    advice="constrain what comes before or after to a layout that needs one step from the other",
                    bytes=warned.bytes,
                )  # fmt: skip


def _recompiled(each: Sequence[Compiled], run: _Run) -> Iterator[Found]:
    """A function compiled again: for the same shapes placed differently, or again and again."""
    for process in dict.fromkeys(one.process for one in each):
        mine = [one for one in each if one.process == process]
        seconds = sum(one.seconds for one in mine[1:])
        cost = f"compiled {len(mine)} times ({seconds:.1f} s more than once)"
        found = _placed_anew(mine, seconds, run)
        if found:
            message = f"{cost}: the same shapes came placed differently"
            advice = "place the arrays before the first call as the function returns them"
        elif seconds < _SECONDS:
            continue
        else:
            message, advice = _again(mine)
            if not message:
                continue
            message = cost + message
            found = [text for at in range(1, len(mine)) for text in changed(mine[at - 1], mine[at])]
        function = mine[0].function
        yield Found(
            "recompiled", function.name, function.line, message, tuple(dict.fromkeys(found)), advice
        )


def _placed_anew(mine: Sequence[Compiled], seconds: float, run: _Run) -> list[str]:
    """What came placed differently between two compilations for the same shapes, where that matters."""
    for before, after in pairwise(mine):
        shapes = [[(leaf.where, leaf.array) for leaf in one.arguments] for one in (before, after)]
        if before.devices == 1 or after.devices == 1 or shapes[0] != shapes[1]:
            continue
        moved = changed(before, after)
        large = {leaf.where for leaf in after.arguments if run.is_large(leaf, after)}
        if moved and (seconds >= _SECONDS or any(text.split(" ")[0] in large for text in moved)):
            return moved
    return []


def _again(mine: Sequence[Compiled]) -> tuple[str, str]:
    """Why a function was compiled again and again, and what to do; empty where it was not."""
    same = max(Counter(one.digest for one in mine).values())
    shapes = len({tuple(leaf.array for leaf in one.arguments) for one in mine})
    if same >= _AGAIN:
        return (
            f", {same} times to the same program",
            "call jax.jit once, outside of the loop or function that calls it again",
        )
    if shapes >= _CHURN:
        return f", for {shapes} different shapes", "pad to a few sizes"
    if len(mine) >= _CHURN and shapes == 1:
        return (
            " for the same shapes: a static argument or a value it closes over changes",
            "pass what changes as an array",
        )
    return "", ""


def changed(before: Compiled, after: Compiled) -> list[str]:
    """What differs between the arguments of two compilations: `x f32[64,8] -> f32[32,8]`."""
    was = {leaf.where: leaf for leaf in before.arguments}
    texts = []
    for leaf in after.arguments:
        old = was.pop(leaf.where, None)
        if old is None:
            texts.append(f"{leaf.where} {leaf.array} is new")
        elif old.array != leaf.array:
            texts.append(f"{leaf.where} {old.array} -> {leaf.array}")
        else:
            placed = [
                "not placed" if leaf.where in one.unplaced else each.spec
                for one, each in ((before, old), (after, leaf))
            ]
            if placed[0] != placed[1]:
                texts.append(f"{leaf.where} {leaf.array} {placed[0]} -> {placed[1]}")
    return [*texts, *(f"{leaf.where} {leaf.array} is gone" for leaf in was.values())]


def _moved(functions: Iterable[Sequence[Compiled]]) -> list[Moved]:
    """What each line moves, the largest first; of a function compiled several times, what moves most."""
    found: list[Moved] = []
    for each in functions:
        one = max(each, key=lambda each: each.program.moved_bytes)
        lines = defaultdict(list)
        for part in one.program.collectives:
            lines[part.line, part.kind, part.axes, part.group].append(part)
        for (line, kind, axes, group), parts in lines.items():
            found.append(
                Moved(
                    line, one.function.name, kind, tuple(name for name in axes if name), group,
                    sum(part.moved for part in parts), tuple(dict.fromkeys(part.trips for part in parts)),
                    tuple(dict.fromkeys(part.array for part in parts)),
                    tuple(dict.fromkeys(part.of for part in parts if part.of)),
                )
            )  # fmt: skip
    return sorted(found, key=lambda moved: -moved.bytes)


def _texts(leaves: Iterable[Array]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(f"{leaf.where} {leaf.array}" for leaf in leaves))


def _count(leaves: Sequence[Array]) -> str:
    return "1 array" if len(leaves) == 1 else f"{len(leaves)} arrays"


def _bytes(leaves: Iterable[Array]) -> int:
    return sum(leaf.bytes for leaf in leaves)


def _whole_bytes(leaves: Iterable[Array]) -> int:
    return sum(leaf.bytes_whole for leaf in leaves)
