"""Each program as jax lowers it: looked through once, and remembered for when it runs."""

from __future__ import annotations

import functools
import os
import sys
import weakref
from itertools import takewhile
from typing import Any

from . import (
    captured_constants,
    mapped_functions,
    processes,
    program,
    region,
    region_reruns,
    sharding_origins,
    short_specs,
)
from .argument_uses import find_taken_parts
from .event_sink import silence_errors, write_event
from .frames import is_user, place_of_source, user_lines_of_traceback, user_stack, walk_frames

# What is known of a computation, and of the executable made from it; both are jax's own objects.
computations: weakref.WeakKeyDictionary[Any, dict[str, Any]] = weakref.WeakKeyDictionary()
executables: weakref.WeakKeyDictionary[Any, dict[str, Any]] = weakref.WeakKeyDictionary()

current: list[str] = []
"""What is being lowered, as jax calls it: `step at /home/me/train.py:12`."""


def install(jax: Any) -> None:
    """Watch the functions of jax that lower a traced program, and the methods that compile it."""
    from jax._src.interpreters import pxla

    for name in ("lower_sharding_computation", "lower_parallel_callable"):
        if hasattr(pxla, name):
            setattr(pxla, name, _wrap_lowering(getattr(pxla, name), name == "lower_parallel_callable"))
    for name in ("MeshComputation", "PmapComputation"):
        kind = getattr(pxla, name, None)
        if kind is not None:
            kind.compile = _wrap_compiling(kind.compile)


def _wrap_lowering(lower: Any, pmap: bool) -> Any:
    @functools.wraps(lower)
    def lower_and_note(*args: Any, **kwargs: Any) -> Any:
        closed = kwargs.get("closed_jaxpr", args[0] if args else None)
        current[:] = [_function_source(closed)]
        computation = lower(*args, **kwargs)
        current.clear()
        donated = kwargs.get("donated_invars", args[7] if len(args) > 7 and not pmap else ())
        _note_lowered(closed, computation, kwargs, pmap, donated)
        return computation

    return lower_and_note


def _wrap_compiling(compile_: Any) -> Any:
    @functools.wraps(compile_)
    def compile_and_note(self: Any, *args: Any, **kwargs: Any) -> Any:
        executable = compile_(self, *args, **kwargs)
        _note_compiled(self, executable)
        return executable

    return compile_and_note


@silence_errors
def _note_compiled(computation: Any, executable: Any) -> None:
    facts = computations.get(computation)
    if facts is not None:
        executables[executable.unsafe_call] = facts


@silence_errors
def _note_lowered(closed: Any, computation: Any, kwargs: Any, pmap: bool, donated: Any) -> None:
    jaxpr = getattr(closed, "jaxpr", closed)
    if not hasattr(jaxpr, "eqns"):
        return
    info = _debug_info(closed)
    source = _function_source(closed)
    lines = user_stack()
    facts: dict[str, Any] = {
        "name": source.split(" at ")[0] or str(getattr(computation, "_name", "")),
        "defined": place_of_source(source),
        "arguments": _argument_names(getattr(info, "arg_names", None)),
        "results": [name.removeprefix("result") for name in _argument_names(getattr(info, "result_paths", None))],
        "work": program.count_multiplications(jaxpr),
        "lines": lines,
        "regions": [],
        "again": [],
        "pmap": pmap,
        "donated": frozenset(at for at, one in enumerate(donated or ()) if one),
        "moves": program.is_only_moving(jaxpr),
        "closed": closed if hasattr(closed, "in_avals") else None,
        "whole": [],
        "scanned": [],
        "shuffled": [],
        "made_whole": program.constraints_replicating(jaxpr),
        "reshaped": program.cut_apart(jaxpr),
        "constrained": program.lines_of_constraints(jaxpr),
        "bytes": sum(
            int(getattr(v.aval, "size", 0)) * int(getattr(getattr(v.aval, "dtype", None), "itemsize", 0) or 0)
            for v in jaxpr.invars
        ),
    }
    if facts["name"] == "_fun":
        _rename_by_pmap(facts)
    if "SHARDLINT_RUN_PROCESS" in os.environ:
        facts["digest"] = processes.digest_program(computation)
    computations[computation] = facts
    for laid, eqn in program.lines_laid_out(jaxpr):
        sharding, by = eqn.params["sharding"], user_lines_of_traceback(eqn.source_info.traceback)[:2]
        axes = sorted(program.axes_of(sharding))
        write_event("laid-out", lines=laid, by=by, axes=axes, decided=sharding_origins.deciding_lines(sharding))
    for each in (*program.find_requests(jaxpr), *short_specs.find_short_constraints(jaxpr)):
        write_event("asked", function=facts["name"], **each)
    if facts["defined"] and _is_compiled_ahead():
        write_event("ahead", defined=facts["defined"], lines=lines)
    for scanned, cut in program.scans_of_cut_rows(jaxpr):
        write_event("cut", scanned=scanned, lines=cut)
    captured_constants.note_captured(closed, facts["name"], facts["defined"], lines)
    _check_taken_parts(jaxpr, donated, facts)
    _note_keyword_donation(source, jaxpr, donated, facts)
    found = list(region.find_regions(jaxpr))
    for (eqn, counts), half in zip(found, region.label_gradient_halves([eqn for eqn, _ in found]), strict=True):
        seen = region.judge_region(eqn, lines, half, counts)
        _name_results(eqn, jaxpr, facts["results"], seen)
        facts["whole"] += _arguments_taken_whole(eqn, jaxpr, seen)
        facts["regions"].append(seen)
        facts["again"].append(region_reruns.note_region(eqn, lines, half, counts, jaxpr))
        if seen["seen"]:
            write_event("region", **seen)
    if pmap:
        _body_of_pmap(kwargs, jaxpr, facts)


def _is_compiled_ahead() -> bool:
    """Return whether the user's code calls the method `lower`, and not the function itself."""
    frames = takewhile(lambda frame: not is_user(frame.f_code.co_filename), walk_frames(sys._getframe(1)))
    return any(frame.f_code.co_name == "lower" for frame in frames)


@silence_errors
def _check_taken_parts(jaxpr: Any, donated: Any, facts: dict[str, Any]) -> None:
    names = facts["arguments"]
    given = [names[at] for at, one in enumerate(donated or ()) if one and at < len(names)]
    if given and facts["defined"] and len(donated) == len(names):
        # What no result can take jax does not hand on to the compiler.
        retyped = _line_changing_type(jaxpr, [jaxpr.invars[at].aval for at, one in enumerate(donated) if one])
        write_event("donates", name=facts["name"], defined=facts["defined"], arguments=given[:400], retyped=retyped)
    for one in find_taken_parts(jaxpr, donated):
        if one["what"] in ("scanned", "shuffled"):
            facts[one["what"]] += [[at, one["lines"]] for at in one["arguments"]]
            continue
        size = sum(program.bytes_when_whole(jaxpr.invars[at].aval) for at in one["arguments"])
        shown = [names[at] if at < len(names) else f"argument {at}" for at in one["arguments"]]
        write_event(
            "donated-inside", inner=one["inner"], name=facts["name"], defined=facts["defined"], lines=one["lines"],
            arguments=shown[:4], count=len(shown), bytes=size, donating=one["donating"],
        )  # fmt: skip


def _line_changing_type(jaxpr: Any, given: list[Any]) -> list[Any]:
    """The user's line that makes a result of the shape of what is donated, and of another type."""
    types = {(aval.shape, aval.dtype) for aval in given}
    shapes = {aval.shape for aval in given if aval.shape}
    makers = {variable: eqn for eqn in jaxpr.eqns for variable in eqn.outvars}
    for atom in jaxpr.outvars:
        aval = atom.aval
        if aval.shape in shapes and (aval.shape, aval.dtype) not in types and atom in makers:
            return user_lines_of_traceback(makers[atom].source_info.traceback)[:1]
    return []


@silence_errors
def _note_keyword_donation(source: str, jaxpr: Any, donated: Any, facts: dict[str, Any]) -> None:
    """A jit that donates by position, called by keywords that it cannot bring to positions."""
    numbers, names = mapped_functions.donated_by_number(source), facts["arguments"]
    named = [name for name in names if name.startswith(f"{mapped_functions.keywords_parameter(source)}[")]
    if numbers and donated and not any(donated) and names and len(named) == len(names):
        write_event(
            "not-donated", name=facts["name"], defined=facts["defined"], lines=facts["lines"], numbers=numbers,
            arguments=named[:2], bytes=sum(program.bytes_when_whole(one.aval) for one in jaxpr.invars),
        )  # fmt: skip


@silence_errors
def _rename_by_pmap(facts: dict[str, Any]) -> None:
    """The names that the user gave to what `pmap` runs."""
    import jax

    known = mapped_functions.facts_of_called_pmap(jax)
    if known is not None and len(known["arguments"]) == len(facts["arguments"]):
        facts.update(known)


def _name_results(eqn: Any, jaxpr: Any, names: list[str], seen: dict[str, Any]) -> None:
    """Set the names that the program gives to results of a region that it returns unchanged: `[1]['mean']` for the
    eleventh.
    """
    known = {id(atom): name for atom, name in zip(jaxpr.outvars, names, strict=False)}
    for one in seen["seen"]:
        at = one.get("at")
        if at is not None and one["result"] == f"[{at}]" and at < len(eqn.outvars):
            one["result"] = known.get(id(eqn.outvars[at])) or one["result"]


def _arguments_taken_whole(eqn: Any, jaxpr: Any, seen: dict[str, Any]) -> list[Any]:
    """Arguments of the program that a region takes as they are: which, the axes its spec names, and the line."""
    if eqn.primitive.name != "shard_map" or seen["pmap"]:
        return []
    numbers = {variable: at for at, variable in enumerate(jaxpr.invars)}
    line = seen["made"] or next(iter(seen["called"]), None)
    taken = region.shard_map_axes(eqn)[0]
    return [
        [numbers[atom], sorted(axes), line, sorted(seen["axes"])]
        for atom, axes in zip(eqn.invars, taken, strict=False)
        if not hasattr(atom, "val") and atom in numbers
    ]


def _body_of_pmap(kwargs: Any, jaxpr: Any, facts: dict[str, Any]) -> None:
    """In releases where `pmap` is lowered by itself the program is the body."""
    facts["regions"].append({"pmap": True, "collectives": sum(
        1 for eqn, _, _ in program.iterate_operations(jaxpr) if eqn.primitive.name in ("psum", "pmax", "pmin",
        "all_gather")
    ), "checked": False})  # fmt: skip


def _debug_info(closed: Any) -> Any:
    return getattr(getattr(closed, "jaxpr", closed), "debug_info", None) or getattr(
        closed, "_debug_info", None
    )


def _function_source(closed: Any) -> str:
    return str(getattr(_debug_info(closed), "func_src_info", "") or "")


def _argument_names(given: Any) -> list[str]:
    given = given() if callable(given) else given
    return [str(name) for name in given or ()]
