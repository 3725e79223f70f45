"""Each compiled program when it first runs: on which devices, what it took and gave, and whether copies agree.

jax runs a program through Python once, and then past it: this costs a call for each program, not for each step.
"""

from __future__ import annotations

import functools
import weakref
from collections.abc import Sequence
from typing import Any

from . import (
    divergence,
    first_rows,
    host_arrays,
    later_calls,
    meshes,
    padding_rows,
    region_reruns,
    replicas,
    rewritten_state,
    sharding_origins,
    unmerged_state,
    unread_masks,
    wrapper_arguments,
)
from .event_sink import silence_errors, write_event
from .frames import user_stack
from .lowered_programs import executables
from .program import bytes_per_device, bytes_when_whole, spec_text
from .values import axes_in, is_key

_LEAST = 256
_MOST = 400
_NOTED = 20000
_first: dict[Any, list[Any]] = {}
_ran: weakref.WeakSet[Any] = weakref.WeakSet()
_made: dict[int, tuple[Any, list[Any], str]] = {}
_drawn: dict[int, tuple[Any, list[Any]]] = {}
_put: dict[int, tuple[Any, list[Any]]] = {}
_decided: dict[int, tuple[Any, list[Any]]] = {}
_reshaped: dict[int, tuple[Any, list[Any]]] = {}
varying: dict[Any, list[Any]] = {}
"""Where results of regions are made that differ by device, by their shape and type."""
split_taken: list[Any] = []
"""The first function of the user's that took what is split."""


def install(jax: Any) -> None:
    """Watch the call of an executable."""
    from jax._src.interpreters import pxla

    call = pxla.ExecuteReplicated.__call__

    @functools.wraps(call)
    def run_and_note(self: Any, *args: Any) -> Any:
        before = _note_before_run(jax, self, args)
        results = call(self, *args)
        if before is not None:
            _note_after_run(jax, self, before, results)
        later_calls.note_results(self, results)
        return results

    pxla.ExecuteReplicated.__call__ = run_and_note


@silence_errors
def _note_before_run(jax: Any, executable: Any, args: Any) -> dict[str, Any] | None:
    known = executables.get(executable)
    if known is None:
        return None
    names = known["arguments"]
    first = len(args) - len(names) if 0 < len(names) <= len(args) else 0
    args = args[first:]
    lines = user_stack()
    shardings = [getattr(one, "sharding", None) for one in args]
    key = (
        known["name"],
        str(known["defined"]),
        tuple((getattr(one, "shape", ()), str(getattr(one, "dtype", ""))) for one in args),
    )
    if known["defined"] and key in _first:
        _note_respelled_call(known, names, args, shardings, _first[key], lines)
    _first[key] = shardings
    if executable in _ran:
        later_calls.check_call(executable, args, lines)
        return None
    _ran.add(executable)
    wrapper_arguments.note_names(known, args, lines)
    _note_gathered_arguments(known, names, args, shardings, lines)
    _report_made_replicated(known, names, args, shardings, lines)
    for what in ("scanned", "shuffled"):
        _report_split_along_scan(what, known, names, args, shardings, lines)
    taken = [
        describe_leaf(names[at] if at < len(names) else f"argument {at}", one, at)
        for at, one in enumerate(args[:_MOST])
        if bytes_when_whole(one) >= _LEAST
    ]
    if (
        not split_taken
        and wrapper_arguments.is_user_function(known)
        and any(one["held"] < one["bytes"] for one in taken)
    ):
        split_taken.append(lines)
    host_arrays.report_host_arguments(known, names, args, lines, describe_leaf)
    if len({device for one in shardings for device in getattr(one, "device_set", ())}) > 1:
        host_arrays.note_host_arguments(known, names, args, describe_leaf)
    padding_rows.note_program(known, args, lines)
    unread_masks.watch_unread_masks(executable, known, args, lines, first)
    kept = known.pop("again", ())
    region_reruns.judge_regions(jax, kept, args, names, known["regions"], _lines_drawing_array, _lines_making_array)
    unmerged_state.watch_reads(jax, executable, known, args, lines, kept)
    updates = unmerged_state.find_updates(jax, known, args)
    written = rewritten_state.find_rewritten_arguments(known, args)
    known["closed"] = None
    own = _has_pmap(known) and replicas.has_number_per_device(jax, args)
    equal = replicas.note_before_call(jax, names, args, _lines_making_array) if _has_pmap(known) and not own else []
    return {
        "known": known, "taken": taken, "lines": lines, "equal": equal, "kept": kept if equal else (), "own": own,
        "updates": updates, "written": written, "args": args if written else (),
    }  # fmt: skip


def _has_pmap(known: dict[str, Any]) -> bool:
    return known["pmap"] or any(each["pmap"] for each in known["regions"])


@silence_errors
def _note_after_run(jax: Any, executable: Any, before: dict[str, Any], results: Any) -> None:
    known, names = before["known"], before["known"]["results"]
    unmerged_state.note_updates(jax, known, before["updates"], results)
    if before["written"]:
        rewritten_state.watch_rewritten_arguments(executable, known, before["written"], before["args"], results)
    given = []
    for at, one in enumerate(list(results)[:_MOST]):
        name = "out" + (names[at] if at < len(names) else f"[{at}]")
        if _has_pmap(known):
            first_rows.remember_rows(jax, one, name)
        if is_key(one):
            _note_maker(one, before["lines"], known["name"])
        if bytes_when_whole(one) >= _LEAST:
            note_decided(
                one, known["constrained"].get(at) or sharding_origins.lines_for_result(known["defined"], name[3:])
            )
            if at in known["reshaped"]:
                _reshaped[id(one)] = (weakref.ref(one), known["reshaped"][at])
            given.append(describe_leaf(name, one, at))
            _note_maker(one, before["lines"], known["name"])
            if len(known["regions"]) == 1 and (lines := known["regions"][0].get("varying", {}).get(at)):
                varying[tuple(one.shape), str(one.dtype)] = lines
            drawn = known["regions"][0].get("drawn", {}) if len(known["regions"]) == 1 else {}
            if at in drawn and len(_drawn) < _NOTED:
                _drawn[id(one)] = (weakref.ref(one), drawn[at])
    devices = {
        device for one in results for device in getattr(getattr(one, "sharding", None), "device_set", ())
    }
    meshes.used.update(int(device.id) for device in devices)
    if given or before["taken"] or known["work"]:
        write_event(
            "ran",
            name=known["name"],
            defined=known["defined"],
            lines=before["lines"],
            work=known["work"],
            devices=len(devices),
            moves=known["moves"],
            pmap=_has_pmap(known),
            taken=before["taken"],
            given=given,
            idle={} if before["own"] else _idle_axes(known),
            collectives=sum(each["collectives"] for each in known["regions"]),
        )
    if any(not each.get("checked") for each in known["regions"]):
        at_call = {"name": known["name"], "defined": known["defined"], "lines": before["lines"]}
        for found in replicas.find_unequal_replicas(jax, results, names):
            write_event("unequal", regions=_lines_of_program(known), **at_call, **found)
        if before["equal"]:
            collectives = sum(each["collectives"] for each in known["regions"])
            alike = frozenset(one.at for one in before["equal"] if one.alike)
            for found in replicas.find_parted_results(jax, results, names, before["equal"]):
                made = known["regions"][0].get("varying", {}) if len(known["regions"]) == 1 else {}
                more = {"regions": _lines_of_program(known), "inside": made.get(found["at"], [])}
                more["met"] = [] if found["apart"] else divergence.lines_where_met(before["kept"], alike, found["at"])
                write_event("parted", collectives=collectives, **more, **at_call, **found)


def _idle_axes(known: dict[str, Any]) -> dict[str, Any]:
    """The axes along which all devices multiply the same, where regions do most of what a program multiplies."""
    regions = [each for each in known["regions"] if each.get("work")]
    # Where all draw the same, that they do the same work is what comes of it.
    seen = {one["what"] for each in regions for one in each.get("seen", ())}
    drawn = seen & {"same-random", "same-parts", "same-keys"}
    if not regions or drawn or sum(each["work"] for each in regions) * 10 < known["work"] * 9:
        return {}
    axes = set(regions[0]["idle"]).intersection(*(each["idle"] for each in regions))
    sizes = {name: size for each in regions for name, size in each["axes"].items() if name in axes}
    return {"axes": sizes, "made": regions[0]["made"], "pmap": regions[0]["pmap"]} if sizes else {}


def _lines_of_program(known: dict[str, Any]) -> list[Any]:
    return [each[key] for each in known["regions"] for key in ("made", "defined") if each.get(key)]


def note_host(one: Any, lines: list[Any], name: str) -> None:
    """Remember where an array of the host was brought to a device, by a function that is asked for no placement."""
    _note_maker(one, lines, name)


def note_moved_keys(pairs: Sequence[tuple[Any, Any]]) -> None:
    """Keys that were placed are still made where they were. Those of the host are made where they were placed, or where
    a helper was called that maps a lambda over any tree.
    """
    for before, after in pairs:
        if is_key(before):
            lines = _lines_making_array(before)
            if not lines and not hasattr(before, "sharding"):
                lines = user_stack()
                lines = lines[2:] or lines[1:] if lines and lines[0][2].endswith("<lambda>") else lines
            if lines:
                _note_maker(after, lines, maker_of(before))


def _note_maker(one: Any, lines: list[Any], name: str) -> None:
    key = id(one)
    if len(_made) < _NOTED:
        _made[key] = (weakref.ref(one), lines[:2], name)


def _lines_drawing_array(one: Any) -> list[Any]:
    """The lines that drew an array's random numbers in a manual region; none of others."""
    known = _drawn.get(id(one))
    return known[1] if known is not None and known[0]() is one else []


def _lines_making_array(one: Any) -> list[Any]:
    """The lines of the call that gave an array; none of others."""
    made = _made.get(id(one))
    return made[1] if made is not None and made[0]() is one else []


def maker_of(one: Any) -> str:
    """The function that gave an array; empty where it is not known."""
    made = _made.get(id(one))
    return made[2] if made is not None and made[0]() is one else ""


def note_put(one: Any, lines: list[Any]) -> None:
    """Remember by which lines an array was placed; arrays that are gone make room."""
    if len(_put) >= _NOTED:
        for key in [key for key, (known, _) in _put.items() if known() is None]:
            del _put[key]
    if len(_put) < _NOTED:
        _put[id(one)] = (weakref.ref(one), lines[:2])


def note_decided(one: Any, lines: list[Any]) -> None:
    """Remember by which lines it was decided how an array lies."""
    if lines and len(_decided) < _NOTED:
        _decided[id(one)] = (weakref.ref(one), lines[:3])


def _lines_in_notes(notes: dict[int, tuple[Any, list[Any]]], one: Any) -> list[Any]:
    known = notes.get(id(one))
    return known[1] if known is not None and known[0]() is one else []


def lines_placing_array(one: Any) -> list[Any]:
    """The lines that placed an array by hand; none of others."""
    return _lines_in_notes(_put, one)


def lines_deciding_layout(one: Any) -> list[Any]:
    """The lines that decided how an array lies."""
    return _lines_in_notes(_decided, one)


def describe_leaf(name: str, one: Any, at: int) -> dict[str, Any]:
    """An array as it is written down."""
    sharding = getattr(one, "sharding", None)
    made = _made.get(id(one))
    made = made if made is not None and made[0]() is one else None
    devices = len(getattr(sharding, "device_set", ()))
    return {
        "name": name,
        "at": at,
        "shape": list(one.shape),
        "dtype": str(one.dtype),
        "bytes": bytes_when_whole(one),
        "held": bytes_per_device(one, sharding),
        "spec": spec_text(sharding) if sharding is not None else "the host",
        "entries": sizes_in_entries(sharding),
        "devices": devices,
        "placed": bool(getattr(one, "committed", getattr(one, "_committed", False))),
        "made": made[1] if made is not None else [],
        "put": _lines_in_notes(_put, one),
        "decided": _lines_in_notes(_decided, one),
        # What no call is known to have made may lie as it was asked for: `jnp.zeros(shape, device=sharding)`.
        "asked": [] if made is not None else sharding_origins.deciding_lines(sharding),
        "reshaped": _lines_in_notes(_reshaped, one),
        "maker": made[2] if made is not None else "",
    }


def sizes_in_entries(sharding: Any) -> list[dict[str, int]]:
    """The mesh axes that each entry of a spec names, with their sizes; entries that name none are left out."""
    spec, mesh = getattr(sharding, "spec", None), getattr(sharding, "mesh", None)
    sizes = dict(mesh.shape) if mesh is not None else {}
    return [{name: int(sizes.get(name, 1)) for name in axes_in(part)} for part in spec or () if axes_in(part)]


def _note_respelled_call(known: Any, names: Any, args: Any, shardings: Any, before: Any, lines: Any) -> None:
    """A program that ran before is asked for again, past the cache of calls: what was different of its arguments."""
    if len(shardings) != len(before):
        return
    found = []
    for at, (now, then) in enumerate(zip(shardings, before, strict=False)):
        if now is None or then is None or now == then or getattr(now, "mesh", 0) != getattr(then, "mesh", 0):
            continue
        if now.is_equivalent_to(then, len(args[at].shape)) and spec_text(now) != spec_text(then):
            name = names[at] if at < len(names) else f"argument {at}"
            found.append([name, spec_text(then), spec_text(now), [list(args[at].shape), str(args[at].dtype)]])
    if found:
        facts = {"name": known["name"], "defined": known["defined"], "lines": lines, "arguments": found[:8]}
        write_event("unequal-equivalent-specs", **facts)


def _note_gathered_arguments(known: dict[str, Any], names: Any, args: Any, shardings: Any, lines: Any) -> None:
    """Arguments that are split, and that a region takes whole along an axis: gathered at each call."""
    for at, axes, line, mesh in known["whole"]:
        spec = getattr(shardings[at], "spec", None) if at < len(shardings) else None
        if spec is None or shardings[at].is_fully_replicated:
            continue
        split = {name for part in spec for name in axes_in(part)}
        sizes = dict(shardings[at].mesh.shape)
        lost = sorted(str(name) for name in split - set(axes) if sizes.get(name, 1) > 1)
        if not set(lost) <= set(mesh):
            continue
        if lost and bytes_when_whole(args[at]) >= _LEAST:
            facts = describe_leaf(names[at] if at < len(names) else f"argument {at}", args[at], at)
            write_event("taken-whole", name=known["name"], axes=lost, line=line, lines=lines, leaf=facts)


def _report_made_replicated(known: dict[str, Any], names: Any, args: Any, shardings: Any, lines: Any) -> None:
    """Report arrays that are computed replicated though all arguments of their shape and type are sharded."""
    for shape, dtype, where in known["made_whole"]:
        arrays = [(at, one) for at, one in enumerate(args) if bytes_when_whole(one)]
        like = [at for at, one in arrays if list(one.shape) == shape and str(one.dtype) == dtype]
        split = [
            shardings[at] is not None
            and bytes_per_device(args[at], shardings[at]) < bytes_when_whole(args[at])
            for at in like
        ]
        if like and all(split) and bytes_when_whole(args[like[0]]) >= _LEAST:
            facts = describe_leaf(
                names[like[0]] if like[0] < len(names) else f"argument {like[0]}", args[like[0]], like[0]
            )
            write_event(
                "made-whole",
                name=known["name"],
                defined=known["defined"],
                lines=where,
                called=lines,
                leaf=facts,
            )


def _report_split_along_scan(
    what: str, known: dict[str, Any], names: Any, args: Any, shardings: Any, lines: Any
) -> None:
    """Arguments that are split along the dimension a scan goes through, or whose rows come in another order."""
    for at, where in known[what]:
        spec = getattr(shardings[at], "spec", None) if at < len(shardings) else None
        split = axes_in(spec[0]) if spec is not None and len(spec) else ()
        sizes = dict(shardings[at].mesh.shape) if split else {}
        axes = [name for name in split if sizes.get(name, 1) > 1]
        if axes and bytes_when_whole(args[at]) >= _LEAST:
            facts = describe_leaf(names[at] if at < len(names) else f"argument {at}", args[at], at)
            write_event(what, name=known["name"], axes=axes, lines=where or lines, called=lines, leaf=facts)
