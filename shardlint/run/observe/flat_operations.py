"""A manual region as one list of operations: calls, loops and branches are written out where they stand."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from .frames import place_of_source, user_lines_of_traceback
from .values import inner_jaxpr, scan_counts

_MOST = 20_000
LOOP = "loop"
"""The name of an operation that hands a value through, from before a loop or a branch to its inside or out of it."""


@dataclass
class FlatOperation:
    """An operation: the numbers of what it takes (None for a constant) and gives, and the shapes of both."""

    name: str
    params: dict[str, Any]
    takes: list[int | None]
    gives: list[int]
    eqn: Any
    at: list[Any]
    dropped: bool = False
    """Of one that hands a value through: whether the first dimension is left out (1 in `added`: put in front)."""
    added: bool = False


@dataclass
class FlatRegion:
    """The operations, the variables by number, and who takes each."""

    ops: list[FlatOperation] = field(default_factory=list)
    avals: dict[int, Any] = field(default_factory=dict)
    users: dict[int, list[FlatOperation]] = field(default_factory=dict)
    results: list[int | None] = field(default_factory=list)
    arguments: list[int] = field(default_factory=list)
    _numbers: Iterator[int] = field(default_factory=itertools.count)

    def new_number(self, aval: Any) -> int:
        """A number for another value."""
        number = next(self._numbers)
        self.avals[number] = aval
        return number

    def add_operation(self, op: FlatOperation) -> None:
        """Put an operation behind the others."""
        self.ops.append(op)
        for taken in op.takes:
            if taken is not None:
                self.users.setdefault(taken, []).append(op)

    @functools.cached_property
    def operations_by_value(self) -> dict[int, FlatOperation]:
        """Which operation gives each value, once all are known."""
        return {give: op for op in self.ops for give in op.gives}

    def values_behind(self, result: int) -> set[int]:
        """All values that have part in one, itself included."""
        waiting, found = [result], set[int]()
        while waiting:
            number = waiting.pop()
            if number in found:
                continue
            found.add(number)
            if (op := self.operations_by_value.get(number)) is not None:
                waiting += [one for one in op.takes if one is not None]
        return found

    def shape_of_value(self, number: int | None) -> tuple[int, ...]:
        """The shape of a value; that of a number for a constant."""
        return () if number is None else tuple(getattr(self.avals[number], "shape", ()))

    def type_letter(self, number: int | None) -> str:
        """The letter of its type, `f` for floats."""
        dtype = None if number is None else getattr(self.avals[number], "dtype", None)
        return "f" if str(dtype) == "bfloat16" else str(getattr(dtype, "kind", ""))


def flatten_body(body: Any) -> FlatRegion:
    """The body of a region."""
    found = FlatRegion()
    found.arguments = [found.new_number(one.aval) for one in body.invars]
    found.results = _write_operations(body, list(found.arguments), found, [])
    return found


def _write_operations(
    body: Any, given: Sequence[int | None], flat_region: FlatRegion, at: list[Any]
) -> list[int | None]:
    known: dict[Any, int | None] = dict.fromkeys(body.constvars)
    known.update(zip(body.invars, given, strict=False))

    def read_atom(atom: Any) -> int | None:
        return None if hasattr(atom, "val") else known.get(atom)

    for eqn in body.eqns:
        takes = [read_atom(atom) for atom in eqn.invars]
        gives = None if len(flat_region.ops) > _MOST else _write_inner_body(eqn, takes, flat_region, at)
        if gives is None:
            numbers = [flat_region.new_number(one.aval) for one in eqn.outvars]
            flat_region.add_operation(FlatOperation(eqn.primitive.name, eqn.params, takes, numbers, eqn, at))
            gives = list(numbers)
        known.update(zip(eqn.outvars, gives, strict=False))
    return [read_atom(atom) for atom in body.outvars]


def _write_inner_body(
    eqn: Any, takes: list[int | None], flat_region: FlatRegion, at: list[Any]
) -> list[int | None] | None:
    name, params = eqn.primitive.name, eqn.params
    if name in ("shard_map", "xla_pmap", "custom_vmap_call") or name.startswith("pallas"):
        return None
    if name == "scan":
        return _write_scan(eqn, takes, flat_region, at)
    if name == "while":
        tests, consts = params["cond_nconsts"], params["body_nconsts"]
        body = inner_jaxpr(params["body_jaxpr"])
        carry = takes[tests + consts :]
        pairs = zip(carry, body.invars[consts:], strict=False)
        inside = [_pass_through(eqn, one, var.aval, flat_region, at) for one, var in pairs]
        results = _write_operations(body, [*takes[tests : tests + consts], *inside], flat_region, at)
        return _write_loop_results(eqn, results, inside, flat_region, at)
    if name == "cond":
        ends = [_write_operations(inner_jaxpr(each), takes[1:], flat_region, at) for each in params["branches"]]
        gives = [flat_region.new_number(one.aval) for one in eqn.outvars]
        for ends_of, give in zip(zip(*ends, strict=False), gives, strict=False):
            flat_region.add_operation(FlatOperation(LOOP, {}, list(ends_of), [give], eqn, at))
        return list(gives)
    for key in ("jaxpr", "call_jaxpr", "fun_jaxpr"):
        body = inner_jaxpr(params.get(key))
        if hasattr(body, "eqns"):
            source = str(getattr(getattr(body, "debug_info", None), "func_src_info", "") or "")
            # What a library does stands at the line that called it.
            lines = at or ([] if place_of_source(source) else user_lines_of_traceback(eqn.source_info.traceback))
            return _write_operations(body, takes[-len(body.invars) :] if body.invars else [], flat_region, lines)
    return None


def _write_scan(eqn: Any, takes: list[int | None], flat_region: FlatRegion, at: list[Any]) -> list[int | None]:
    body = inner_jaxpr(eqn.params["jaxpr"])
    consts, carried = scan_counts(eqn)
    given = list(takes[:consts])
    pairs = list(zip(takes, body.invars, strict=False))
    inside = [_pass_through(eqn, one, var.aval, flat_region, at) for one, var in pairs[consts : consts + carried]]
    rows = [_pass_through(eqn, one, var.aval, flat_region, at, dropped=True) for one, var in pairs[consts + carried :]]
    results = _write_operations(body, [*given, *inside, *rows], flat_region, at)
    ends = _write_loop_results(eqn, results[:carried], inside, flat_region, at)
    stacked = zip(results[carried:], eqn.outvars[carried:], strict=False)
    return [*ends, *(_pass_through(eqn, one, var.aval, flat_region, at, added=True) for one, var in stacked)]


def _write_loop_results(
    eqn: Any, results: Sequence[int | None], inside: Sequence[int | None], flat_region: FlatRegion, at: list[Any]
) -> list[int | None]:
    """Return the results of a loop. Each iteration takes the results of the one before."""
    for end, begin in zip(results, inside, strict=False):
        if end is not None and begin is not None:
            flat_region.users.setdefault(end, []).append(FlatOperation(LOOP, {}, [end], [begin], eqn, at))
    return list(results)


def _pass_through(
    eqn: Any,
    one: int | None,
    aval: Any,
    flat_region: FlatRegion,
    at: list[Any],
    dropped: bool = False,
    added: bool = False,
) -> int:
    give = flat_region.new_number(aval)
    flat_region.add_operation(FlatOperation(LOOP, {}, [one], [give], eqn, at, dropped, added))
    return give
