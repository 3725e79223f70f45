"""State that each device has updated from its own data, and that another function reads as if it were the same on all:
statistics of a normalisation, which nothing has averaged.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import Any

from . import later_calls, replicas, wrapper_arguments
from .event_sink import silence_errors, write_event
from .flat_operations import FlatOperation, flatten_body
from .frames import user_lines_of_traceback
from .values import GATHER, REDUCE, SCATTER, inner_jaxpr, is_key

_MOST = 256
_LIKE = 4
_MERGES = REDUCE | GATHER | SCATTER
_updated: dict[Any, list[dict[str, Any]]] = {}


def find_updates(jax: Any, known: dict[str, Any], args: Sequence[Any]) -> list[int]:
    """Before a program runs for the first time: the numbers of its results that may differ by device and take the place
    of an argument which does not.
    """
    found: list[int] = []
    if len(known["regions"]) != 1 or known["closed"] is None or "SHARDLINT_RUN_PROCESS" in os.environ:
        return found
    results, avals = known["results"], known["closed"].out_avals
    given: dict[Any, list[tuple[str, Any]]] = {}
    for name, one in zip(known["arguments"], args, strict=False):
        given.setdefault(_form_of(one, known["pmap"]), []).append((name, one))
    for at in [*known["regions"][0].get("varying", range(len(results)))][:_MOST]:
        like = given.get(_form_of(avals[at], _has_row(known, avals[at])), ()) if at < len(results) else ()
        like = [one for name, one in like if _is_same_leaf(name, results[at])]
        if any(replicas.are_alike(replicas.sample_rows(jax, one)) for one in like[:_LIKE]):
            found.append(at)
    return found


def note_updates(jax: Any, known: dict[str, Any], updates: Sequence[int], results: Sequence[Any]) -> None:
    """After it ran: those that do differ."""
    for at in updates:
        if replicas.do_rows_differ(jax, results[at]):
            facts = {"result": known["results"][at], "by": known["name"], "updated": known["defined"]}
            facts["inside"] = known["regions"][0].get("varying", {}).get(at, [])[:2]
            _updated.setdefault(_form_of(results[at]), []).append(facts)


@silence_errors
def watch_reads(
    jax: Any, executable: Any, known: dict[str, Any], args: Sequence[Any], lines: list[Any], kept: Sequence[Any]
) -> None:
    """Of a program that runs for the first time: look at state that it only reads, now and in later calls."""
    closed, names = known["closed"], known["arguments"]
    if (
        closed is None
        or not wrapper_arguments.is_user_function(known)
        or not len(names) == len(args) == len(closed.in_avals)
    ):
        return
    region = kept[0] if len(kept) == 1 else None
    if not (region or known["pmap"]) or "SHARDLINT_RUN_PROCESS" in os.environ:
        return
    body = inner_jaxpr(region[0].params.get("jaxpr", region[0].params.get("call_jaxpr"))) if region else closed.jaxpr
    split = region[4] if region else {at: at for at in range(len(args))}
    inside = sorted(at for at in split.values() if at < len(args))
    given: dict[Any, list[str]] = {}
    for name, aval in zip(known["results"], closed.out_avals, strict=False):
        given.setdefault(_form_of(aval, _has_row(known, aval)), []).append(name)
    read = [
        at for at in inside
        if _form_of(args[at])[1] == "f"
        and not any(_is_same_leaf(names[at], name) for name in given.get(_form_of(args[at], known["pmap"]), ()))
    ][:_MOST]  # fmt: skip

    def check(now: Sequence[Any], where: list[Any]) -> bool:
        own = {
            at: facts for at in read for facts in _updated.get(_form_of(now[at]), ())
            if _is_same_leaf(names[at], facts["result"]) and replicas.do_rows_differ(jax, now[at])
        }  # fmt: skip
        if not own:
            return False
        roots = {wrapper_arguments.root_of_name(names[at]) for at in own}
        others = {at: replicas.sample_parts(jax, now[at]) for at in inside if not is_key(now[at])}
        others = {at: parts for at, parts in others.items() if parts}
        data = {at for at in others if not replicas.are_alike(others[at])}
        data = {at for at in data if wrapper_arguments.root_of_name(names[at]) not in roots}
        equal = any(replicas.are_alike(parts) and not replicas.is_blank(parts) for parts in others.values())
        equal = equal or any(at not in inside and _form_of(one)[1] == "f" for at, one in enumerate(now))
        met = [*_find_reads(body, split, set(own), data)] if equal else []
        if met:
            at, op = met[0]
            facts = dict(own[at], name=known["name"], defined=known["defined"], called=where[:4], argument=names[at])
            facts["lines"] = op.at or user_lines_of_traceback(op.eqn.source_info.traceback)
            write_event("unmerged", count=len({at for at, _ in met}), **facts)
        return True

    first = {at: replicas.sample_rows(jax, args[at]) for at in read}
    if not check(args, lines) and any(replicas.are_alike(rows) and replicas.is_blank(rows) for rows in first.values()):
        later_calls.watch_calls(executable, check)


def _find_reads(body: Any, split: dict[int, int], own: set[int], data: set[int]) -> Iterator[tuple[int, FlatOperation]]:
    """The operations in which an argument of `own`, spread over rows as parameters are, meets what `data` make, before
    a collective takes it.
    """
    ops = flatten_body(body)
    spread = set[int]()
    mixed = {ops.arguments[at] for at, number in split.items() if number in data}
    of = {ops.arguments[at]: number for at, number in split.items() if number in own}
    for op in ops.ops:
        mine = [one for one in op.takes if one is not None and one in of]
        if op.name in _MERGES or not (mine or not mixed.isdisjoint(op.takes)):
            continue
        if not mixed.isdisjoint(op.takes):
            mixed.update(op.gives)
            yield from ((of[one], op) for one in mine if one in spread)
        else:
            of.update(dict.fromkeys(op.gives, of[mine[0]]))
            if not spread.isdisjoint(mine) or _spreads_over_rows(op):
                spread.update(op.gives)


def _spreads_over_rows(op: FlatOperation) -> bool:
    """Return whether an operation repeats a value along a first dimension."""
    if op.name != "broadcast_in_dim":
        return False
    before, after = op.eqn.invars[0].aval.shape, op.params["shape"]
    return len(after) > 0 and (0 not in op.params["broadcast_dimensions"] or before[0] < after[0])


def _has_row(known: dict[str, Any], aval: Any) -> bool:
    """Return whether a value of a program that is the body of `pmap` keeps the dimension of devices, as one row."""
    return bool(known["pmap"]) and aval.shape[:1] == (1,)


def _form_of(one: Any, on_device: bool = False) -> tuple[Any, ...]:
    """The shape of an array, or of its row on a device, the letter of its type, and the type."""
    dtype = getattr(one, "dtype", None)
    letter = "f" if str(dtype) == "bfloat16" else getattr(dtype, "kind", "")
    return tuple(getattr(one, "shape", ()))[on_device:], letter, str(dtype)


def _is_same_leaf(argument: str, result: str) -> bool:
    """Return whether an argument and a result are one leaf of a tree by their last key, or have no keys."""
    ends = [name[max(name.rfind("["), name.rfind(".")) :] for name in (argument, result)]
    return ends[0] == ends[1] if "[" in argument or "." in argument else ends[1][1:-1].isdigit()
