"""Each program as jax lowers it: looked through once, and remembered for when it runs."""

from __future__ import annotations

import functools
import os
import weakref
from typing import Any

from . import again, captured, mapped, processes, program, region, short
from .frames import of_traceback, place, stack
from .sink import quiet, write
from .taken import taken

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
            setattr(pxla, name, _lowering(getattr(pxla, name), name == "lower_parallel_callable"))
    for name in ("MeshComputation", "PmapComputation"):
        kind = getattr(pxla, name, None)
        if kind is not None:
            kind.compile = _compiling(kind.compile)


def _lowering(lower: Any, pmap: bool) -> Any:
    @functools.wraps(lower)
    def lowered(*args: Any, **kwargs: Any) -> Any:
        closed = kwargs.get("closed_jaxpr", args[0] if args else None)
        current[:] = [_source(closed)]
        computation = lower(*args, **kwargs)
        current.clear()
        donated = kwargs.get("donated_invars", args[7] if len(args) > 7 and not pmap else ())
        _lowered(closed, computation, kwargs, pmap, donated)
        return computation

    return lowered


def _compiling(compile_: Any) -> Any:
    @functools.wraps(compile_)
    def compiled(self: Any, *args: Any, **kwargs: Any) -> Any:
        executable = compile_(self, *args, **kwargs)
        _compiled(self, executable)
        return executable

    return compiled


@quiet
def _compiled(computation: Any, executable: Any) -> None:
    facts = computations.get(computation)
    if facts is not None:
        executables[executable.unsafe_call] = facts


@quiet
def _lowered(closed: Any, computation: Any, kwargs: Any, pmap: bool, donated: Any) -> None:
    jaxpr = getattr(closed, "jaxpr", closed)
    if not hasattr(jaxpr, "eqns"):
        return
    info = _info(closed)
    source = _source(closed)
    lines = stack()
    facts: dict[str, Any] = {
        "name": source.split(" at ")[0] or str(getattr(computation, "_name", "")),
        "defined": place(source),
        "arguments": _names(getattr(info, "arg_names", None)),
        "results": [name.removeprefix("result") for name in _names(getattr(info, "result_paths", None))],
        "work": program.work(jaxpr),
        "lines": lines,
        "regions": [],
        "again": [],
        "pmap": pmap,
        "moves": program.only_moves(jaxpr),
        "closed": closed if hasattr(closed, "in_avals") else None,
        "whole": [],
        "scanned": [],
        "shuffled": [],
        "made_whole": program.made_whole(jaxpr),
        "reshaped": program.cut_apart(jaxpr),
        "constrained": program.constrained(jaxpr),
        "bytes": sum(
            int(getattr(v.aval, "size", 0)) * int(getattr(getattr(v.aval, "dtype", None), "itemsize", 0) or 0)
            for v in jaxpr.invars
        ),
    }
    if facts["name"] == "_fun":
        _by_pmap(facts)
    if "SHARDLINT_RUN_PROCESS" in os.environ:
        facts["digest"] = processes.digest(computation)
    computations[computation] = facts
    if laid := program.laid_out(jaxpr):
        write("laid-out", lines=laid)
    for each in (*program.asked(jaxpr), *short.short(jaxpr)):
        write("asked", function=facts["name"], **each)
    captured.note(closed, facts["name"], facts["defined"], lines)
    _look_for_taken(jaxpr, donated, facts)
    _by_keyword(source, jaxpr, donated, facts)
    found = list(region.regions(jaxpr))
    for (eqn, counts), half in zip(found, region.halves([eqn for eqn, _ in found]), strict=True):
        seen = region.judge(eqn, lines, half, counts)
        _named_results(eqn, jaxpr, facts["results"], seen)
        facts["whole"] += _wholes(eqn, jaxpr, seen)
        facts["regions"].append(seen)
        facts["again"].append(again.note(eqn, lines, half, counts, jaxpr))
        if seen["seen"]:
            write("region", **seen)
    if pmap:
        _body_of_pmap(kwargs, jaxpr, facts)


@quiet
def _look_for_taken(jaxpr: Any, donated: Any, facts: dict[str, Any]) -> None:
    names = facts["arguments"]
    given = [names[at] for at, one in enumerate(donated or ()) if one and at < len(names)]
    if given and facts["defined"] and len(donated) == len(names):
        # What no result can take jax does not hand on to the compiler.
        retyped = _retyped(jaxpr, [jaxpr.invars[at].aval for at, one in enumerate(donated) if one])
        write("donates", name=facts["name"], defined=facts["defined"], arguments=given[:400], retyped=retyped)
    for one in taken(jaxpr, donated):
        if one["what"] in ("scanned", "shuffled"):
            facts[one["what"]] += [[at, one["lines"]] for at in one["arguments"]]
            continue
        size = sum(program.nbytes(jaxpr.invars[at].aval) for at in one["arguments"])
        shown = [names[at] if at < len(names) else f"argument {at}" for at in one["arguments"]]
        write(
            "donated-inside", inner=one["inner"], name=facts["name"], defined=facts["defined"], lines=one["lines"],
            arguments=shown[:4], count=len(shown), bytes=size,
        )  # fmt: skip


def _retyped(jaxpr: Any, given: list[Any]) -> list[Any]:
    """The user's line that makes a result of the shape of what is donated, and of another type."""
    types = {(aval.shape, aval.dtype) for aval in given}
    shapes = {aval.shape for aval in given if aval.shape}
    makers = {variable: eqn for eqn in jaxpr.eqns for variable in eqn.outvars}
    for atom in jaxpr.outvars:
        aval = atom.aval
        if aval.shape in shapes and (aval.shape, aval.dtype) not in types and atom in makers:
            return of_traceback(makers[atom].source_info.traceback)[:1]
    return []


@quiet
def _by_keyword(source: str, jaxpr: Any, donated: Any, facts: dict[str, Any]) -> None:
    """A jit that donates by position, called by keywords that it cannot bring to positions."""
    numbers, names = mapped.donated_by_number(source), facts["arguments"]
    named = [name for name in names if name.startswith(f"{mapped.keywords(source)}[")]
    if numbers and donated and not any(donated) and names and len(named) == len(names):
        write(
            "not-donated", name=facts["name"], defined=facts["defined"], lines=facts["lines"], numbers=numbers,
            arguments=named[:2], bytes=sum(program.nbytes(one.aval) for one in jaxpr.invars),
        )  # fmt: skip


@quiet
def _by_pmap(facts: dict[str, Any]) -> None:
    """The names that the user gave to what `pmap` runs."""
    import jax

    known = mapped.called_pmap(jax)
    if known is not None and len(known["arguments"]) == len(facts["arguments"]):
        facts.update(known)


def _named_results(eqn: Any, jaxpr: Any, names: list[str], seen: dict[str, Any]) -> None:
    """Set the names that the program gives to results of a region that it returns unchanged: `[1]['mean']` for the
    eleventh.
    """
    known = {id(atom): name for atom, name in zip(jaxpr.outvars, names, strict=False)}
    for one in seen["seen"]:
        at = one.get("at")
        if at is not None and one["result"] == f"[{at}]" and at < len(eqn.outvars):
            one["result"] = known.get(id(eqn.outvars[at])) or one["result"]


def _wholes(eqn: Any, jaxpr: Any, seen: dict[str, Any]) -> list[Any]:
    """Arguments of the program that a region takes as they are: which, the axes its spec names, and the line."""
    if eqn.primitive.name != "shard_map" or seen["pmap"]:
        return []
    numbers = {variable: at for at, variable in enumerate(jaxpr.invars)}
    line = seen["made"] or next(iter(seen["called"]), None)
    taken = region.of_shard_map(eqn)[0]
    return [
        [numbers[atom], sorted(axes), line, sorted(seen["axes"])]
        for atom, axes in zip(eqn.invars, taken, strict=False)
        if not hasattr(atom, "val") and atom in numbers
    ]


def _body_of_pmap(kwargs: Any, jaxpr: Any, facts: dict[str, Any]) -> None:
    """In releases where `pmap` is lowered by itself the program is the body."""
    facts["regions"].append({"pmap": True, "collectives": sum(
        1 for eqn, _, _ in program.operations(jaxpr) if eqn.primitive.name in ("psum", "pmax", "pmin", "all_gather")
    ), "checked": False})  # fmt: skip


def _info(closed: Any) -> Any:
    return getattr(getattr(closed, "jaxpr", closed), "debug_info", None) or getattr(
        closed, "_debug_info", None
    )


def _source(closed: Any) -> str:
    return str(getattr(_info(closed), "func_src_info", "") or "")


def _names(given: Any) -> list[str]:
    given = given() if callable(given) else given
    return [str(name) for name in given or ()]
