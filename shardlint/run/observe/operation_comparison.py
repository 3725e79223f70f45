"""A region on several devices beside the same on one: the operations of both, and where their numbers part."""

from __future__ import annotations

import difflib
import functools
import itertools
import math
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from .frames import place_of_source, user_lines_of_traceback
from .values import CALLS, GATHER, MOVE, REDUCE, SCATTER, TYPES, inner_jaxpr

_LAYOUT = frozenset(
    ("reshape", "transpose", "broadcast_in_dim", "slice", "squeeze", "concatenate", "pad", "rev", "split", "copy",
     "dynamic_slice", "dynamic_update_slice", "convert_element_type", "gather", "expand_dims")
)  # fmt: skip
_ARRANGES = frozenset(("reshape", "transpose", "broadcast_in_dim", "squeeze", "expand_dims"))
# These hand on what they take: where that is a constant, something else is at odds.
_HAND_ON = TYPES - {"reshape", "broadcast_in_dim"}
_COUNTS = frozenset(("iota", "axis_index"))
# What each device may well choose, count or round among its own rows by intent.
_OWN = frozenset(
    ("sort", "top_k", "argmax", "argmin", "cumsum", "cumprod", "cummax", "cummin", "cumlogsumexp", "round", "floor",
     "reduce_precision", "call_hi_primitive", "ragged_dot", "ragged_dot_general", "scatter", "scatter-add",
     "scatter_add")
)  # fmt: skip
COLLECTIVES = REDUCE | GATHER | SCATTER | MOVE
_ADDING = frozenset(("add", "add_any", "sub"))
_PLACES = frozenset(("argmax", "argmin", "top_k"))
_CARRIES = frozenset(("select_n", "concatenate"))
_USES = 12
# How many elements of what one device has are compared: a thousandth of them may differ by chance.
_COMPARED = 2**14
_PARTIAL = ("sum", "mean", "max", "min")


@dataclass
class Step:
    """An operation of a region: what it is, the numbers of what it takes (None: a constant) and gives."""

    name: str
    eqn: Any
    takes: list[int | None]
    gives: list[int]
    lines: list[Any]
    """The user's lines that led to it: what a library does stands at the line that called it."""


class Fits(Protocol):
    """How the values of a region make up those on one device."""

    def fit_of_value(self, number: int, default: str | None = None) -> str | None:
        """None where one does not, `default` where that is not known."""

    def __getitem__(self, number: int) -> str | None: ...

    def is_comparable(self, number: int) -> bool:
        """Return whether the shapes of its parts make up those of the global arrays."""


@dataclass
class Steps:
    """The operations of a region in order, calls written out; the numbers of its results, and how many values."""

    steps: list[Step]
    results: list[int | None]
    count: int

    @functools.cached_property
    def steps_by_value(self) -> dict[int, Step]:
        """Which operation gives each value."""
        return {give: step for step in self.steps for give in step.gives}

    @functools.cached_property
    def steps_using_values(self) -> dict[int, list[Step]]:
        """The operations that take each value."""
        found: dict[int, list[Step]] = {}
        for step in self.steps:
            for number in step.takes:
                if number is not None:
                    found.setdefault(number, []).append(step)
        return found


def body_of(eqn: Any) -> Any:
    """The jaxpr that a call runs, with its constants; None for what is an operation by itself."""
    if eqn.primitive.name in CALLS | {"core_call"}:
        for key in ("jaxpr", "call_jaxpr", "fun_jaxpr"):
            if hasattr(inner_jaxpr(eqn.params.get(key)), "eqns"):
                return eqn.params[key]
    return None


def steps_of(jaxpr: Any) -> Steps:
    """The operations of a body."""
    found: list[Step] = []
    numbers = itertools.count(len(jaxpr.invars))

    def write_steps(body: Any, given: Sequence[int | None], at: list[Any]) -> list[int | None]:
        known: dict[Any, int | None] = dict.fromkeys(body.constvars)
        known.update(zip(body.invars, given, strict=True))
        for eqn in body.eqns:
            takes = [None if hasattr(atom, "val") else known[atom] for atom in eqn.invars]
            call = body_of(eqn)
            if call is not None:
                source = str(getattr(getattr(inner_jaxpr(call), "debug_info", None), "func_src_info", "") or "")
                lines = [] if place_of_source(source) else user_lines_of_traceback(eqn.source_info.traceback)
                gives = write_steps(inner_jaxpr(call), takes, at or lines)
            else:
                fresh = [next(numbers) for _ in eqn.outvars]
                lines = at or user_lines_of_traceback(eqn.source_info.traceback)
                found.append(Step(eqn.primitive.name, eqn, takes, fresh, lines))
                gives = list(fresh)
            known.update(zip(eqn.outvars, gives, strict=True))
        return [None if hasattr(atom, "val") else known[atom] for atom in body.outvars]

    results = write_steps(jaxpr, range(len(jaxpr.invars)), [])
    return Steps(found, results, next(numbers))


def evaluate_body(
    jaxpr: Any,
    consts: Sequence[Any],
    args: Sequence[Any],
    instead: dict[int, Any],
    keep: Callable[[Any], None] | None,
) -> list[Any]:
    """The results of a body; `instead` has other values for some of its literals, `keep` gets what each step gives."""
    known = dict(zip((*jaxpr.constvars, *jaxpr.invars), (*consts, *args), strict=True))

    def read_atom(atom: Any) -> Any:
        return instead.get(id(atom), atom.val) if hasattr(atom, "val") else known[atom]

    for eqn in jaxpr.eqns:
        given = [read_atom(atom) for atom in eqn.invars]
        if any(id(atom) in instead for atom in eqn.invars):
            given = _vary_alike(given)
        call = body_of(eqn)
        if call is not None:
            results = evaluate_body(inner_jaxpr(call), getattr(call, "consts", ()), given, instead, keep)
        else:
            bound = eqn.primitive.get_bind_params(eqn.params)
            functions, params = bound if isinstance(bound, tuple) else ((), bound)  # a dict alone since jax 0.11
            results = eqn.primitive.bind(*functions, *given, **params)
            results = list(results) if eqn.primitive.multiple_results else [results]
            if keep is not None:
                for one in results:
                    keep(one)
        known.update(zip(eqn.outvars, results, strict=True))
    return [read_atom(atom) for atom in jaxpr.outvars]


def _vary_alike(given: list[Any]) -> list[Any]:
    """Return the operands of an operation, all varying over the axes of any of them. A number from outside varies over
    none.
    """
    axes = [frozenset(getattr(getattr(one, "aval", None), "vma", ())) for one in given]
    every = frozenset[str]().union(*axes)
    missing = [tuple(sorted(every - own)) for own in axes]
    if not any(missing):
        return given
    lax = sys.modules["jax"].lax
    vary = getattr(lax, "pcast", None)
    return [
        one if not names else vary(one, names, to="varying") if vary is not None else lax.pvary(one, names)
        for one, names in zip(given, missing, strict=True)
    ]


def find_literals(jaxpr: Any) -> Iterator[tuple[Any, Any]]:
    """The numbers that products and quotients are made with, with their operation."""
    for eqn in jaxpr.eqns:
        call = body_of(eqn)
        if call is not None:
            yield from find_literals(inner_jaxpr(call))
        elif eqn.primitive.name in ("mul", "div"):
            yield from ((atom, eqn) for atom in eqn.invars if hasattr(atom, "val"))


def is_same_array(one: Any, other: Any) -> bool:
    """Return whether two arrays hold the same numbers, but for the order of sums."""
    import numpy as np

    if one.shape != other.shape:
        return False
    if not one.size:
        return True
    if one.dtype.kind in "biu" and other.dtype.kind in "biu":
        return bool(np.mean(one != other) <= 1e-3)
    first, second = (each.astype(np.complex128 if each.dtype.kind == "c" else np.float64) for each in (one, other))
    with np.errstate(all="ignore"):
        finite = np.abs(second[np.isfinite(second)])
        scale = float(np.sqrt(np.mean(finite**2))) if finite.size else 0.0
        close = np.isclose(first, second, rtol=1e-2, atol=2e-2 * scale + 1e-30, equal_nan=True)
    return bool(np.mean(~close) <= 1e-3)


def relative_distance(one: Any, other: Any) -> float:
    """How far two arrays of a shape are apart, by root mean squares: of the difference, and of the second."""
    import numpy as np

    with np.errstate(all="ignore"):
        first, second = (each.astype(np.complex128 if each.dtype.kind == "c" else np.float64) for each in (one, other))
        apart, scale = (float(np.sqrt(np.mean(np.abs(each) ** 2))) for each in (first - second, second))
    return apart / scale if scale > 0 and math.isfinite(apart) else math.inf


def choose_sample(local: Sequence[int], whole: Sequence[int]) -> tuple[list[Any], list[Any]] | None:
    """Which elements of each dimension to compare, by number: of a device's part, and of the whole those of all parts.
    None where parts of the one shape do not make up the other.
    """
    import numpy as np

    if len(local) != len(whole) or any(not part or size % part for part, size in zip(local, whole, strict=True)):
        return None
    counts = list(local)
    while math.prod(counts) > _COMPARED:
        largest = max(range(len(counts)), key=counts.__getitem__)
        counts[largest] = (counts[largest] + 1) // 2
    rows = [np.linspace(0, size - 1, count).round().astype(np.int32) for size, count in zip(local, counts, strict=True)]
    return rows, [
        np.concatenate([each + first for first in range(0, size, part)])
        for each, part, size in zip(rows, local, whole, strict=True)
    ]


def find_relation(parts: Any, whole: Any, sizes: dict[str, int]) -> str | None:
    """How what the devices hold (`parts`, a row for each) makes up what one device holds: `split` or equal on all
    (``), or a `sum`, `mean`, `max` or `min` of theirs; None where it does not.
    """
    import numpy as np

    local = parts.shape[1:]
    if len(local) != whole.ndim:
        return None
    ratios = []
    for part, size in zip(local, whole.shape, strict=True):
        if part == 0 or size % part:
            return None
        ratios.append(size // part)
    names = list(sizes)
    grid = parts.reshape(*sizes.values(), *local)
    for taken in _possible_splits(ratios, sizes):
        rest = [name for name in names if name not in {each for dim in taken for each in dim}]
        put = np.moveaxis(grid, [names.index(name) for name in rest], range(len(rest)))
        kept = [name for name in names if name not in rest]
        put = put.reshape(math.prod(sizes[name] for name in rest), *(sizes[name] for name in kept), *local)
        blocks = [_assemble_parts(each, kept, taken, local) for each in put]
        if all(is_same_array(each, whole) for each in blocks):
            return "split" if kept else ""
        # Terms that are all the same are a sum that was made, and is another.
        if (
            len(blocks) > 1
            and whole.dtype.kind in "fcV"
            and not all(is_same_array(each, blocks[0]) for each in blocks[1:])
        ):
            stacked = np.stack([each.astype(np.float64) for each in blocks])
            for how in _PARTIAL:
                if is_same_array(getattr(np, how)(stacked, axis=0), whole.astype(np.float64)):
                    return how
    return None


def _possible_splits(ratios: Sequence[int], sizes: dict[str, int]) -> Iterator[list[tuple[str, ...]]]:
    """The axes that may split each dimension by so much."""
    if not ratios:
        yield []
        return
    for count in range(len(sizes) + 1):
        for axes in itertools.permutations(sizes, count):
            if math.prod(sizes[axis] for axis in axes) == ratios[0] and (ratios[0] > 1 or not axes):
                rest = {name: size for name, size in sizes.items() if name not in axes}
                for others in _possible_splits(ratios[1:], rest):
                    yield [axes, *others]


def _assemble_parts(grid: Any, names: Sequence[str], taken: Sequence[tuple[str, ...]], local: Sequence[int]) -> Any:
    """The parts of `grid`, whose first dimensions are the axes `names`, put together as `taken` splits them."""
    order, shape = [], []
    for dim, axes in enumerate(taken):
        order += [names.index(axis) for axis in axes] + [len(names) + dim]
        shape.append(math.prod([local[dim], *(grid.shape[names.index(axis)] for axis in axes)]))
    return grid.transpose(order).reshape(shape)


def find_error_origin(several: Steps, wrong: Sequence[int], fits: Fits) -> tuple[Step, str] | None:
    """The first operation on the way to a wrong result that gives another thing than on one device though what it takes
    fits; with how its input is made up (`sum`, `mean`, ...; `counted`: see `lines_counted_on_each_device`). None where
    it cannot be told, or may be meant.
    """
    makers = several.steps_by_value
    ends = [several.results[at] for at in wrong]
    waiting = [one for one in ends if one is not None and fits.fit_of_value(one, "?") is None]
    done: set[int] = set()
    found: list[Step] = []
    while waiting:
        number = waiting.pop()
        step = makers.get(number)
        if step is None or number in done:
            continue
        done.update(step.gives)
        before = [one for one in step.takes if one is not None and fits.fit_of_value(one, "?") in (None, "?")]
        if before:
            waiting += before
        elif any(fits.fit_of_value(one, "?") is None for one in step.gives):
            found.append(step)
    order = {id(step): at for at, step in enumerate(several.steps)}
    found.sort(key=lambda step: (step.name in _LAYOUT, step.name in _COUNTS, order[id(step)]))
    for step in found:
        partial = [fits[one] for one in step.takes if one is not None and fits.fit_of_value(one) in _PARTIAL]
        counted = bool(lines_counted_on_each_device(several, step, fits))
        # Numbers of rows that come split with the rows count from the start of the whole, or of each part: who knows.
        numbered = (
            step.name == "gather"
            and [fits.fit_of_value(one) for one in step.takes if one is not None] == ["split"] * 2
        )
        own = numbered or (step.name in _OWN and not (step.name in _PLACES and _is_index_joined(several, step)))
        if own or (partial and step.name not in COLLECTIVES and not counted):
            return None
    if not found:
        return _find_missing_reduction(
            makers, [one for one in ends if one is not None and fits.fit_of_value(one) in _PARTIAL], fits
        )
    # Where a split dimension is joined behind another one, rows of one device are in another order, as they may be.
    arranged = found[0].name in _ARRANGES and all(map(fits.is_comparable, found[0].gives))
    # How often a solver's loop goes round hangs on made-up numbers.
    if arranged or found[0].name in _HAND_ON or _is_convergence_loop(found[0].eqn):
        return None
    if lines_counted_on_each_device(several, found[0], fits):
        return found[0], "counted"
    taken = [fits[one] or "" for one in found[0].takes if one is not None]
    first = found[0].takes[0] if found[0].takes else None
    summed = makers.get(first) if first is not None else None
    if found[0].name == "div" and summed is not None and summed.name in REDUCE:
        return found[0], "mean of sums"
    return found[0], taken[0] if taken else ""


def _is_convergence_loop(eqn: Any) -> bool:
    """Return whether a loop ends when its numbers meet a tolerance, as that of a solver."""
    test = inner_jaxpr(eqn.params.get("cond_jaxpr"))
    atoms = (atom for one in getattr(test, "eqns", ()) for atom in one.invars)
    floats = (getattr(getattr(atom.aval, "dtype", None), "kind", "") for atom in atoms)
    return eqn.primitive.name == "while" and any(kind in "fV" for kind in floats if kind)


def _find_missing_reduction(makers: dict[int, Step], ends: Sequence[int], fits: Fits) -> tuple[Step, str] | None:
    """The reduction before results that are given out as the whole and are terms of it: over some of the axes only."""
    waiting, done = list(ends), set[int]()
    while waiting:
        number = waiting.pop(0)
        step = makers.get(number)
        if step is None or number in done:
            continue
        done.add(number)
        if step.name in REDUCE:
            return step, "left"
        takes = [one for one in step.takes if one is not None]
        # A sum over one of two axes is no term itself: it is once it is divided by the size of that axis.
        waiting += [one for one in takes if fits.fit_of_value(one) in _PARTIAL] or takes[: step.name in ("div", "mul")]
    return None


def _is_index_joined(several: Steps, step: Step) -> bool:
    """Return whether the index that an operation finds in a device's shard reaches a collective unchanged."""
    waiting, done = [step.gives[-1]], set[int]()
    while waiting and len(done) < _USES:
        number = waiting.pop(0)
        done.add(number)
        for user in several.steps_using_values.get(number, ()):
            if user.name in REDUCE | GATHER:
                return True
            if (user.name in _CARRIES and user.takes[0] != number) or user.name in TYPES:
                waiting += [each for each in user.gives if each not in done]
    return False


def lines_counted_on_each_device(several: Steps, step: Step, fits: Fits) -> list[Any]:
    """The lines that made what is the same on all devices and was added to terms of a sum: first that of the function
    in which both are made, since there they are put together. None where the step adds no such thing.
    """
    how = [fits[one] if one is not None else "" for one in step.takes]
    if step.name not in _ADDING or sorted(map(str, how)) != ["", "sum"]:
        return []
    made = (several.steps_by_value.get(step.takes[how.index(one)] or 0) for one in ("", "sum"))
    equal, term = (one.lines if one is not None else [] for one in made)
    within = {(place[0], place[2]) for place in term}
    return next((equal[at:] for at, place in enumerate(equal) if (place[0], place[2]) in within), equal)


def lines_using_device_number(several: Steps, step: Step, fits: Fits) -> list[Any]:
    """The lines that use this device's number where one use alone comes to nothing that fits; none where several do."""
    left: dict[str, list[Any]] = {}
    for user in several.steps_using_values.get(step.gives[0], []):
        waiting, done = list(user.gives), set[int]()
        while waiting and len(done) < _USES:
            number = waiting.pop(0)
            if number not in done:
                done.add(number)
                waiting += [give for one in several.steps_using_values.get(number, ()) for give in one.gives]
        body = inner_jaxpr(user.eqn.params.get("body_jaxpr", user.eqn.params.get("jaxpr")))
        if hasattr(body, "eqns"):
            at = [place for place, one in enumerate(user.takes) if one == step.gives[0]]
            for place in _lines_using_arguments(body, len(user.eqn.invars), at):
                left[str(place[:1])] = place
        elif not any(fits.fit_of_value(number) is not None for number in done):
            left[str(user.lines[:1])] = user.lines
    return next(iter(left.values())) if len(left) == 1 else []


def _lines_using_arguments(body: Any, given: int, places: Sequence[int]) -> Iterator[list[Any]]:
    """The lines of a loop's body that use some of its arguments: those of its test come before them."""
    names = {body.invars[at - given] for at in places if at - given + len(body.invars) >= 0}
    for eqn in body.eqns:
        taken = [at for at, one in enumerate(eqn.invars) if not hasattr(one, "val") and one in names]
        if not taken:
            continue
        called = inner_jaxpr(body_of(eqn)) if body_of(eqn) is not None else None
        here = user_lines_of_traceback(eqn.source_info.traceback)
        inside = list(_lines_using_arguments(called, len(eqn.invars), taken)) if called is not None else []
        yield from inside or [here]


def pair_values(several: Steps, steps: Steps) -> list[tuple[int, int]]:
    """The values of both that are the same operation's, as their places in the order of values."""
    names = [[(step.name, len(step.gives)) for step in each.steps] for each in (several, steps)]
    found: list[tuple[int, int]] = []
    matcher = difflib.SequenceMatcher(None, names[0], names[1], autojunk=False)
    for at, other, size in matcher.get_matching_blocks():
        for one, two in zip(several.steps[at : at + size], steps.steps[other : other + size], strict=True):
            found += list(zip(one.gives, two.gives, strict=True))
    return found
