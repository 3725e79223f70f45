"""Arrays that lie split over devices, and that a program closes over: its constants, whole on every device."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from .event_sink import silence_errors, write_event
from .frames import user_lines_of_traceback
from .program import bytes_when_whole, spec_text
from .values import inner_jaxpr


@silence_errors
def note_captured(closed: Any, name: str, defined: list[Any] | None, lines: list[Any]) -> None:
    """Take down what a program closes over that lies split, and the lines that read the largest of it.

    What no result depends on is not in the program: an array of which the shape alone is used.
    """
    if not any(_is_split(one) for _, _, one in _captured_constants(inner_jaxpr(closed), closed)):
        return
    from jax.interpreters.partial_eval import dce_jaxpr

    body = inner_jaxpr(closed)
    live, _ = dce_jaxpr(body, [True] * len(body.outvars), True)
    found = [
        (body, variable, one)
        for body, variable, one in _captured_constants(live, closed)
        if _is_split(one) and _is_read(body, variable)
    ]
    if not found:
        return
    body, variable, largest = max(found, key=lambda each: bytes_when_whole(each[2]))
    write_event(
        "captured", name=name, defined=defined, lines=_lines_reading(body, variable)[:8], called=lines,
        count=len(found),
        shape=list(largest.shape), dtype=str(largest.dtype), spec=spec_text(largest.sharding),
        bytes=sum(bytes_when_whole(one) for _, _, one in found),
    )  # fmt: skip


def _captured_constants(body: Any, closed: Any) -> Iterator[tuple[Any, Any, Any]]:
    """The constants of a program and of what it calls: the body, the variable of it, and the array."""
    for variable, one in zip(getattr(body, "constvars", ()), getattr(closed, "consts", ()), strict=False):
        yield body, variable, one
    for eqn in body.eqns:
        for param in eqn.params.values():
            for each in param if isinstance(param, (tuple, list)) else (param,):
                if hasattr(inner_jaxpr(each), "eqns"):
                    yield from _captured_constants(inner_jaxpr(each), each)


def _is_read(body: Any, variable: Any) -> bool:
    return any(atom is variable for eqn in body.eqns for atom in eqn.invars) or any(
        atom is variable for atom in body.outvars
    )


def _is_split(one: Any) -> bool:
    sharding = getattr(one, "sharding", None)
    return sharding is not None and len(sharding.device_set) > 1 and not sharding.is_fully_replicated


def _lines_reading(body: Any, variable: Any) -> list[Any]:
    """The lines that led to the first operation which takes a constant."""
    eqn = next((one for one in body.eqns if any(atom is variable for atom in one.invars)), None)
    return user_lines_of_traceback(eqn.source_info.traceback) if eqn is not None else []
