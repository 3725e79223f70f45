"""Constraints that name fewer dimensions than their array has, and so split another one than it was split along."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from .frames import user_lines_of_traceback
from .program import bytes_when_whole, iterate_bodies, spec_text
from .values import axes_in

_STEPS = 200
# What does not go number by number. (A norm does: products and quotients with what is reduced beside.)
_APART = frozenset(("dot_general", "conv_general_dilated", "gather", "scatter", "sort", "transpose", "rev"))


def find_short_constraints(jaxpr: Any) -> Iterator[dict[str, Any]]:
    """Each such constraint, with the one of as many entries as dimensions that its array was split by before, nothing
    between them but what is done element by element.
    """
    for body in iterate_bodies(jaxpr):
        makers = {variable: eqn for eqn in body.eqns for variable in eqn.outvars}
        for eqn in body.eqns:
            spec = _constraint_axes(eqn)
            if spec is None or not any(spec) or len(spec) >= len(eqn.outvars[0].aval.shape):
                continue
            lines = user_lines_of_traceback(eqn.source_info.traceback)[:4]
            before = _earlier_constraint(eqn, makers)
            moved = [] if before is None else _moved_axes(_constraint_axes(before) or [], spec)
            if before is not None and moved and lines:
                aval = eqn.outvars[0].aval
                yield {
                    "what": "short", "lines": lines, "shape": list(aval.shape), "dtype": str(aval.dtype),
                    "spec": spec_text(eqn.params["sharding"]), "was": spec_text(before.params["sharding"]),
                    "before": user_lines_of_traceback(before.source_info.traceback)[:4], "axes": moved,
                    "bytes": bytes_when_whole(aval),
                }  # fmt: skip


def _constraint_axes(eqn: Any) -> list[tuple[str, ...]] | None:
    """The axes of each entry of a constraint's spec; None of what is none, or leaves a dimension to the compiler."""
    if eqn.primitive.name != "sharding_constraint" or eqn.params.get("unconstrained_dims"):
        return None
    spec = getattr(eqn.params["sharding"], "spec", None)
    return None if spec is None else [axes_in(entry) for entry in spec]


def _moved_axes(was: list[tuple[str, ...]], now: list[tuple[str, ...]]) -> list[str]:
    """The axes that split another dimension than before."""
    at = {name: number for number, names in enumerate(was) for name in names}
    return [name for number, names in enumerate(now) for name in names if at.get(name, number) != number]


def _earlier_constraint(eqn: Any, makers: dict[Any, Any]) -> Any:
    """The constraint with an entry for each dimension that an array was given before, of all that it is made of."""
    shape = eqn.outvars[0].aval.shape
    waiting, seen = [eqn.invars[0]], set[Any]()
    while waiting and len(seen) < _STEPS:
        atom = waiting.pop()
        made = None if hasattr(atom, "val") or atom in seen else makers.get(atom)
        if made is None or getattr(atom.aval, "shape", None) != shape:
            continue
        seen.add(atom)
        spec = _constraint_axes(made)
        if spec is not None:
            return made if len(spec) == len(shape) else None
        if made.primitive.name not in _APART:
            waiting += made.invars
    return None
