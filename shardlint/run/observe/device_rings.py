"""Loops that send what they carry around a ring of devices, and do nothing else to it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from .values import TYPES, Region, Value, inner_jaxpr


def find_rings(
    body: Any, taken: Sequence[Any], given: Sequence[Any], values: Sequence[Value], region: Region
) -> set[int]:
    """The `ppermute` operations of a loop's body that make what is carried of what was carried, by their `id`.

    None of a loop that chooses by the number of the device: that is how pipelines and masks leave out what is zero.
    """
    if any(_is_choosing(eqn) for eqn in _iterate_operations(body)):
        return set()
    found = set()
    for before, after in zip(taken, given, strict=False):
        eqn = _find_shift(body, after, before)
        if eqn is not None:
            found.add(id(eqn))
    return found


def _find_shift(body: Any, atom: Any, wanted: Any, depth: int = 0) -> Any:
    """The `ppermute` between two variables, where that is all there is."""
    makers = {variable: (eqn, at) for eqn in body.eqns for at, variable in enumerate(eqn.outvars)}
    shift = None
    for _ in range(12):
        if hasattr(atom, "val"):
            return None
        if atom is wanted:
            return shift
        eqn, at = makers.get(atom, (None, 0))
        if eqn is None:
            return None
        name = eqn.primitive.name
        if name == "ppermute" and shift is None:
            shift = eqn
            atom = eqn.invars[at]
        elif name in TYPES:
            atom = eqn.invars[0]
        elif depth < 3 and (called := _called_bodies(eqn)) is not None:
            for number, variable in enumerate(called.invars):
                found = _find_shift(called, called.outvars[at], variable, depth + 1)
                if found is not None:
                    shift, atom = found, eqn.invars[len(eqn.invars) - len(called.invars) + number]
                    break
            else:
                return None
        else:
            return None
    return None


def _called_bodies(eqn: Any) -> Any:
    for key in ("jaxpr", "call_jaxpr", "fun_jaxpr"):
        called = inner_jaxpr(eqn.params.get(key))
        if hasattr(called, "eqns") and eqn.primitive.name != "scan":
            return called
    return None


def _iterate_operations(body: Any) -> Iterator[Any]:
    for eqn in body.eqns:
        yield eqn
        for param in eqn.params.values():
            for each in param if isinstance(param, (tuple, list)) else (param,):
                called = inner_jaxpr(each)
                if hasattr(called, "eqns"):
                    yield from _iterate_operations(called)


def _is_choosing(eqn: Any) -> bool:
    return eqn.primitive.name in ("axis_index", "cond")
