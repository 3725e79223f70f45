"""Direct uses of a program's arguments: scans over one, calls that donate one, lookups that permute all of its rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from .frames import place_of_source, user_lines_of_traceback
from .values import CALLS, inner_jaxpr, scan_counts

_SAME = frozenset(("convert_element_type", "copy", "copy_p"))


def find_taken_parts(jaxpr: Any, donated: Sequence[bool]) -> Iterator[dict[str, Any]]:
    """Each such part: which arguments, by number, and the user's lines. `donated` are those the program donates."""
    yield from _walk_body(jaxpr, {variable: at for at, variable in enumerate(jaxpr.invars)}, donated)


def _walk_body(
    jaxpr: Any, numbers: dict[Any, int], donated: Sequence[bool], within: Sequence[Any] = ()
) -> Iterator[dict[str, Any]]:
    def argument_number(atom: Any) -> int | None:
        return None if hasattr(atom, "val") else numbers.get(atom)

    for eqn in jaxpr.eqns:
        name = eqn.primitive.name
        given = [argument_number(atom) for atom in eqn.invars]
        if all(at is None for at in given):
            continue
        if name in _SAME and given[0] is not None:
            numbers[eqn.outvars[0]] = given[0]
        elif name == "scan":
            consts, carried = scan_counts(eqn)
            through = sorted({at for at in given[consts + carried :] if at is not None})
            if through:
                yield {"what": "scanned", "arguments": through, "lines": _operation_lines(eqn)}
            body = inner_jaxpr(eqn.params["jaxpr"])
            yield from _walk_body(body, _arguments_inside(body.invars[:consts], given[:consts]), donated)
        elif name == "gather" and given[0] is not None and _is_reordering(eqn):
            yield {"what": "shuffled", "arguments": [given[0]], "lines": within or _operation_lines(eqn)}
        elif name in CALLS:
            lost = sorted(set(_arguments_not_donated(eqn, given, donated)))
            for key in ("jaxpr", "call_jaxpr", "fun_jaxpr"):
                body = inner_jaxpr(eqn.params.get(key))
                if hasattr(body, "eqns"):
                    source = str(getattr(getattr(body, "debug_info", None), "func_src_info", "") or "")
                    place = place_of_source(source)
                    if lost:
                        inner = {"inner": str(eqn.params.get("name", "")), "donating": place}
                        yield {"what": "donated", "arguments": lost, "lines": _operation_lines(eqn), **inner}
                    # What a library does stands at the line that called it.
                    lines = within or ([] if place else _operation_lines(eqn))
                    yield from _walk_body(body, _arguments_inside(body.invars, given), donated, lines)


def _is_reordering(eqn: Any) -> bool:
    """Return whether a lookup returns all rows of the first dimension, by indices that are not known."""
    shape, out = eqn.invars[0].aval.shape, eqn.outvars[0].aval.shape
    numbers, sizes = eqn.params["dimension_numbers"], eqn.params["slice_sizes"]
    by_row = tuple(numbers.start_index_map) == (0,) and sizes[:1] == (1,) and tuple(sizes[1:]) == tuple(shape[1:])
    return by_row and shape == out and shape[0] > 1 and not hasattr(eqn.invars[1], "val")


def _arguments_not_donated(eqn: Any, given: Sequence[int | None], donated: Sequence[bool]) -> Iterator[int]:
    """The arguments that a call donates and the program does not."""
    for at, is_donated in zip(given, eqn.params.get("donated_invars", ()), strict=False):
        if is_donated and at is not None and not (at < len(donated) and donated[at]):
            yield at


def _arguments_inside(variables: Sequence[Any], given: Sequence[int | None]) -> dict[Any, int]:
    return {variable: at for variable, at in zip(variables, given, strict=False) if at is not None}


def _operation_lines(eqn: Any) -> list[Any]:
    return user_lines_of_traceback(eqn.source_info.traceback)[:4]
