"""Regions once more when they first run: arguments that are split by their specs, and hold the same on all devices.

A key that was copied for each device is another part for each by its spec, and the same key.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from . import program, region, replicas
from .event_sink import silence_errors, write_event
from .flat_operations import flatten_body
from .values import RANDOM, inner_jaxpr, is_key
from .wrapper_arguments import root_of_name

_SOME = 16
_same_keys: set[str] = set()


def note_region(eqn: Any, lines: list[Any], half: str, counts: frozenset[int], jaxpr: Any) -> tuple[Any, ...] | None:
    """Return the facts kept of a region until it runs: the arguments of the program that it takes as sharded."""
    taken = region.axes_of_arguments(eqn)
    numbers = {variable: at for at, variable in enumerate(jaxpr.invars)}
    split = {
        at: numbers[atom]
        for at, (atom, axes) in enumerate(zip(eqn.invars, taken, strict=False))
        if axes and not hasattr(atom, "val") and atom in numbers
    }
    return (eqn, lines, half, counts, split) if split else None


@silence_errors
def judge_regions(
    jax: Any, kept: Sequence[Any], args: Sequence[Any], names: Sequence[str], seen: list[dict[str, Any]],
    drawn: Callable[[Any], list[Any]], made: Callable[[Any], list[Any]],
) -> None:  # fmt: skip
    """Judge regions by what their arguments hold; what that says of random numbers is told, and the axes along which
    nothing differs are noted in `seen`. `drawn` gives the lines that drew an array in a region, `made` those that made
    it.
    """
    for at, one in enumerate(kept):
        if one is None:
            continue
        eqn, lines, half, counts, split = one
        equal = frozenset(
            number for number, of in split.items() if of < len(args) and _is_equal_on_devices(jax, args[of])
        )
        if not equal:
            continue
        found = region.judge_region(eqn, lines, half, counts, equal)
        # What is the same because its data are is told of where those come from.
        random = [one for one in found["seen"] if one["what"] == "same-random" or one.get("direct")]
        if random:
            write_event("region", **{**found, "seen": random})
        # Copies of a batch may be a trial; parts that a region drew, and adds up, are not.
        lines = [drawn(args[split[number]]) for number in equal]
        sums = [each for each in found["seen"] if each["what"] == "sum-of-equal"]
        if sums and all(lines):
            told = [{**sums[0], "what": "same-start", "lines": each} for each in lines]
            write_event("region", **{**found, "seen": told})
        seen[at]["idle"], seen[at]["varying"] = found["idle"], found["varying"]
        keys = [split[number] for number in sorted(equal) if is_key(args[split[number]])]
        met = [each for each in found["seen"] if each["what"] == "equal-keys"]
        alone = _repeats_work(jax, one, args, found)
        if keys and not random and (met or alone):
            name = names[keys[0]] if keys[0] < len(names) else f"argument {keys[0]}"
            makers = made(args[keys[0]])
            same = {
                "what": "equal-keys" if met else "same-keys", "axes": sorted(found["axes"]), "argument": name,
                "lines": (makers or one[1])[:2], "drawn": met[0]["lines"][:1] if met else [],
                "passed": [] if makers else place_in_call(name, names),
            }  # fmt: skip
            seen[at]["seen"] = [*seen[at]["seen"], same]
            if (place := str(found["defined"] or one[1][:1])) not in _same_keys:
                _same_keys.add(place)
                write_event("region", **{**found, "seen": [same]})


def _repeats_work(jax: Any, kept: tuple[Any, ...], args: Sequence[Any], found: dict[str, Any]) -> bool:
    """Return whether a region draws random numbers and all devices do its work alike, on data that are more than a key.
    Weights that are zero so far are as equal as others, unless devices exchange something: then the batch is a trial.
    """
    eqn, lines, half, counts, split = kept
    taken = {number: args[of] for number, of in split.items() if of < len(args)}
    differing = any(_differs_on_devices(jax, one) for one in taken.values())
    if differing or not _draws_numbers(eqn) or not _draws_for_data(eqn):
        return False
    if not found["varying"] or found["collectives"]:
        return not found["varying"]
    told = any(_is_equal_on_devices(jax, one) for one in taken.values() if not is_key(one) and one.size >= _SOME)
    alike = told and all(map(replicas.are_alike, (_sample_parts(jax, one) for one in taken.values())))
    return alike and not region.judge_region(eqn, lines, half, counts, frozenset(taken))["varying"]


def _draws_for_data(eqn: Any) -> bool:
    """Return whether a result is made of a key and of data. What is drawn by itself, such as parameters, may be
    intended to be equal on all devices.
    """
    ops = flatten_body(inner_jaxpr(eqn.params.get("jaxpr", eqn.params.get("call_jaxpr"))))
    keys = {number for number, atom in zip(ops.arguments, eqn.invars, strict=True) if is_key(getattr(atom, "aval", 0))}
    data = {
        number
        for number, atom in zip(ops.arguments, eqn.invars, strict=True)
        if number not in keys and int(getattr(getattr(atom, "aval", None), "size", 0)) >= _SOME
    }
    behind = (ops.values_behind(one) for one in ops.results if one is not None)
    return any(keys & one and data & one for one in behind)


def place_in_call(name: str, names: Sequence[str]) -> list[int]:
    """Return which argument of a call an array is part of, and how many there are."""
    roots, root = [*dict.fromkeys(map(root_of_name, names))], root_of_name(name)
    return [roots.index(root), len(roots)] if root in roots else []


def _draws_numbers(eqn: Any) -> bool:
    """Return whether a region draws random numbers."""
    body = inner_jaxpr(eqn.params.get("jaxpr", eqn.params.get("call_jaxpr")))
    return any(one.primitive.name in RANDOM for one, _, _ in program.iterate_operations(body))


def _sample_parts(jax: Any, one: Any) -> list[Any]:
    return replicas.sample_parts(jax, getattr(one, "_base_array", one))


def _differs_on_devices(jax: Any, one: Any) -> bool:
    parts = _sample_parts(jax, one)
    return bool(parts) and not replicas.are_alike(parts)


def _is_equal_on_devices(jax: Any, one: Any) -> bool:
    """Return whether all devices hold equal values. A constant array proves nothing, except for a key."""
    key = is_key(one)
    parts = _sample_parts(jax, one)
    return replicas.are_alike(parts) and (key or (parts[0].size > 1 and not replicas.is_blank(parts)))
