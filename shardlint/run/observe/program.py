"""A program as jax traced it, before the compiler: what it asks for, and how much it computes."""

from __future__ import annotations

import inspect
import math
import sys
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

from .frames import user_lines_of_traceback
from .values import RANDOM, axes_in, inner_jaxpr, scan_counts

_STEPS = 24
_ARRANGES = frozenset(("transpose", "pad", "convert_element_type", "copy", "squeeze", "expand_dims", "real", "conj"))
_LAID = frozenset(("convert_element_type", "copy", "slice", "squeeze", "dynamic_slice", "transpose", "reshape"))


def iterate_operations(jaxpr: Any, times: int = 1, manual: int = 1) -> Iterator[tuple[Any, int, int]]:
    """Each operation of a program, also inside of others, how often it runs, and on how many devices at once."""
    for eqn in jaxpr.eqns:
        yield eqn, times, manual
        count = times * int(eqn.params.get("length", 1)) if eqn.primitive.name == "scan" else times
        wide = manual
        if eqn.primitive.name == "shard_map":
            wide = manual * math.prod(dict(eqn.params["mesh"].shape).values())
        for param in eqn.params.values():
            for each in param if isinstance(param, (tuple, list)) else (param,):
                body = inner_jaxpr(each)
                if hasattr(body, "eqns"):
                    yield from iterate_operations(body, count, wide)


def count_multiplications(jaxpr: Any) -> int:
    """Multiplications of matrices and convolutions in a program, in all."""
    return sum(times * manual * count_product(eqn) for eqn, times, manual in iterate_operations(jaxpr))


def count_product(eqn: Any) -> int:
    """How much an operation multiplies, where it is a product of matrices or a convolution."""
    if eqn.primitive.name == "dot_general":
        (contracted, _), _ = eqn.params["dimension_numbers"]
        shape = eqn.invars[0].aval.shape
        return int(math.prod(eqn.outvars[0].aval.shape) * math.prod(shape[at] for at in contracted))
    if eqn.primitive.name == "conv_general_dilated":
        kernel = eqn.invars[1].aval.shape
        out = eqn.params["dimension_numbers"].rhs_spec[0]
        return int(math.prod(eqn.outvars[0].aval.shape) * math.prod(kernel)) // max(1, int(kernel[out]))
    return 0


def bytes_when_whole(one: Any) -> int:
    """Bytes of an array when whole; none of what is not an array."""
    size, dtype = getattr(one, "size", None), getattr(one, "dtype", None)
    itemsize = getattr(dtype, "itemsize", None)
    return int(size) * int(itemsize) if isinstance(size, int) and itemsize and hasattr(one, "shape") else 0


def bytes_per_device(one: Any, sharding: Any) -> int:
    """Bytes of an array on one device."""
    if sharding is None or not getattr(one, "size", 0):
        return bytes_when_whole(one)
    size = 1
    for part in sharding.shard_shape(tuple(one.shape)):
        size *= part
    return bytes_when_whole(one) * size // int(one.size)


def is_only_moving(jaxpr: Any) -> bool:
    """Return whether a program computes nothing and only moves its arguments."""
    moves = ("sharding_constraint", "device_put", "copy", "copy_p", "jit", "pjit", "reshard")
    return all(eqn.primitive.name in moves for eqn, _, _ in iterate_operations(jaxpr))


def lines_of_constraints(jaxpr: Any) -> dict[int, list[Any]]:
    """The lines of the constraints that give results as they are, by their numbers."""
    return {
        at: user_lines_of_traceback(eqn.source_info.traceback)[:2]
        for at, eqn in _result_operations_named(jaxpr, "sharding_constraint")
    }


def lines_laid_out(jaxpr: Any) -> Iterator[tuple[list[list[Any]], Any]]:
    """The constraints of a program, each after the user's lines that make what it lays out: what computes it, and what
    arranges it after that.
    """
    for body in iterate_bodies(jaxpr):
        makers = {variable: eqn for eqn in body.eqns for variable in eqn.outvars}
        for eqn in body.eqns:
            found = []
            atom = eqn.invars[0] if eqn.primitive.name == "sharding_constraint" else None
            while atom is not None and not hasattr(atom, "val") and atom in makers:
                made = makers[atom]
                found += user_lines_of_traceback(made.source_info.traceback)[:1]
                atom = max(made.invars, key=lambda one: bytes_when_whole(one.aval)) if _is_rearrangement(made) else None
            if found:
                yield found, eqn


def _is_rearrangement(eqn: Any) -> bool:
    """Return whether an operation, or all of a call, only rearranges its operands."""
    name = eqn.primitive.name
    body = inner_jaxpr(eqn.params.get("jaxpr")) if name in ("jit", "pjit") else None
    each = body.eqns if body is not None else (eqn,)
    return bool(eqn.invars) and all(
        one.primitive.name in _ARRANGES for one in each if bytes_when_whole(one.outvars[0].aval) > 8
    )


def constraints_replicating(jaxpr: Any) -> list[list[Any]]:
    """The shapes, types and lines of constraints that have something computed whole on all devices. What is laid there
    as it was taken is gathered to be used, and the second half of a gradient asks as the first did.
    """
    found: dict[str, list[Any]] = {}
    for body in iterate_bodies(jaxpr):
        made = {variable: eqn.primitive.name for eqn in body.eqns for variable in eqn.outvars}
        for eqn in body.eqns:
            sharding = eqn.params.get("sharding") if eqn.primitive.name == "sharding_constraint" else None
            if sharding is None or not sharding.is_fully_replicated or device_count_of(sharding) < 2:
                continue
            computed = not hasattr(eqn.invars[0], "val") and made.get(eqn.invars[0], "slice") not in _LAID
            lines = user_lines_of_traceback(eqn.source_info.traceback)[:4]
            if computed and lines and "transpose" not in str(eqn.source_info.name_stack):
                aval = eqn.outvars[0].aval
                found.setdefault(str((lines[0], aval)), [list(aval.shape), str(aval.dtype), lines])
    return [*found.values()]


def iterate_bodies(jaxpr: Any) -> Iterator[Any]:
    """A program and those inside of it."""
    yield jaxpr
    for eqn in jaxpr.eqns:
        for param in eqn.params.values():
            for each in param if isinstance(param, (tuple, list)) else (param,):
                if hasattr(inner_jaxpr(each), "eqns"):
                    yield from iterate_bodies(inner_jaxpr(each))


def cut_apart(jaxpr: Any) -> dict[int, list[Any]]:
    """The results whose first dimension a `reshape` has cut in two, by their numbers, with its lines."""
    found = {}
    for at, eqn in _result_operations_named(jaxpr, "reshape"):
        if _cuts_first_dimension(eqn):
            found[at] = user_lines_of_traceback(eqn.source_info.traceback)[:2]
    return found


def _cuts_first_dimension(eqn: Any) -> bool:
    shape, out = eqn.invars[0].aval.shape, eqn.outvars[0].aval.shape
    return len(out) == len(shape) + 1 and out[:1] != shape[:1] and bool(out[2:] == shape[1:])


def scans_of_cut_rows(jaxpr: Any) -> Iterator[tuple[list[Any], list[Any]]]:
    """The lines of each scan over what a `reshape` has cut in two, and those of the `reshape`."""
    makers: dict[Any, Any] = {}
    for eqn, _, _ in iterate_operations(jaxpr):
        if eqn.primitive.name == "reshape" and _cuts_first_dimension(eqn):
            makers[eqn.outvars[0]] = eqn
        elif eqn.primitive.name == "scan":
            consts, carried = scan_counts(eqn)
            made = [makers[one] for one in eqn.invars[consts + carried :] if not hasattr(one, "val") and one in makers]
            if made:
                scanned, cut = (user_lines_of_traceback(one.source_info.traceback)[:2] for one in (eqn, made[0]))
                yield scanned, cut


def _result_operations_named(jaxpr: Any, name: str) -> Iterator[tuple[int, Any]]:
    """The operations of a name that give results as they are, with the numbers of these."""
    makers = {variable: eqn for eqn in jaxpr.eqns if eqn.primitive.name == name for variable in eqn.outvars}
    for at, atom in enumerate(jaxpr.outvars):
        if not hasattr(atom, "val") and atom in makers:
            yield at, makers[atom]


def find_requests(jaxpr: Any) -> Iterator[dict[str, Any]]:
    """Constraints whose axes do not divide a dimension, placements that traced code asks for in vain, and random
    numbers that are drawn whole on every device.
    """
    yield from _draws_left_replicated(jaxpr)
    for eqn, _, _ in iterate_operations(jaxpr):
        name = eqn.primitive.name
        if name == "sharding_constraint":
            shape = eqn.outvars[0].aval.shape
            for at, size, axes, parts in indivisible_dimensions(eqn.params["sharding"], shape):
                lines = user_lines_of_traceback(eqn.source_info.traceback)[:4]
                if lines:
                    yield {
                        "what": "indivisible", "lines": lines, "shape": list(shape), "dimension": at, "size": size,
                        "axes": axes, "parts": parts, "dtype": str(eqn.outvars[0].aval.dtype),
                    }  # fmt: skip
        elif name == "device_put":
            for target, atom, variable in zip(eqn.params.get("devices", ()), eqn.invars, eqn.outvars, strict=False):
                lines = user_lines_of_traceback(eqn.source_info.traceback)[:4]
                if lines and _memory_kind(atom) == _memory_kind(variable) and _is_request_ignored(target):
                    yield {
                        "what": "put-in-jit", "lines": lines, "shape": list(variable.aval.shape),
                        "dtype": str(variable.aval.dtype), "target": spec_text(target),
                    }  # fmt: skip


def _draws_left_replicated(jaxpr: Any) -> Iterator[dict[str, Any]]:
    """Random numbers that an Explicit mesh leaves whole on every device, and that only meet what is split."""
    for body in iterate_bodies(jaxpr):
        makers = {variable: eqn for eqn in body.eqns for variable in eqn.outvars}
        for eqn in body.eqns:
            if not eqn.outvars:
                continue
            shape, axes = getattr(eqn.outvars[0].aval, "shape", ()), _explicit_axes(eqn.outvars[0].aval)
            taken = [atom for atom in eqn.invars if not hasattr(atom, "val") and atom.aval.shape == shape]
            if not axes or not any(_explicit_axes(atom.aval) for atom in taken):
                continue
            for atom in taken:
                drawn = None if _explicit_axes(atom.aval) else _find_draw(atom, makers)
                lines = user_lines_of_traceback(drawn.source_info.traceback)[:4] if drawn is not None else []
                if lines:
                    yield {
                        "what": "drawn-whole", "lines": lines, "shape": list(shape), "dtype": str(atom.aval.dtype),
                        "axes": axes, "bytes": bytes_when_whole(atom.aval),
                        "named": "out_sharding" in inspect.signature(sys.modules["jax"].random.normal).parameters,
                    }  # fmt: skip


def _find_draw(atom: Any, makers: dict[Any, Any]) -> Any:
    """The operation that drew an array, past what changes it element by element."""
    waiting = [atom]
    for _ in range(_STEPS):
        eqn = makers.get(waiting.pop(0)) if waiting else None
        if eqn is None:
            continue
        if any(one.primitive.name in RANDOM for one, _, _ in iterate_operations(SimpleNamespace(eqns=[eqn]))):
            return eqn
        shape = eqn.outvars[0].aval.shape
        waiting += [one for one in eqn.invars if not hasattr(one, "val") and one.aval.shape == shape]
    return None


def _explicit_axes(aval: Any) -> list[str]:
    """The axes of an Explicit mesh that split an array, by its type."""
    sharding = getattr(aval, "sharding", None)
    mesh: Any = getattr(sharding, "mesh", None)
    kinds = dict(zip(getattr(mesh, "axis_names", ()), getattr(mesh, "axis_types", None) or (), strict=False))
    return [
        name
        for part in tuple(getattr(sharding, "spec", None) or ())
        for name in axes_in(part)
        if "Explicit" in str(kinds.get(name)) and dict(mesh.shape).get(name, 1) > 1
    ]


def _memory_kind(atom: Any) -> Any:
    """The memory that an array of a program is in, by its type; None on releases whose types do not say."""
    return getattr(atom.aval, "memory_space", None)


def _is_request_ignored(target: Any) -> bool:
    """Return whether a sharding is over several devices, and no move to another memory."""
    if device_count_of(target) < 2:
        return False
    kind = getattr(target, "memory_kind", None)
    try:
        default = next(iter(target.device_set)).default_memory().kind
    except ValueError:  # an abstract mesh has no devices, and no other memory
        default = None
    return kind in (None, default) and not getattr(target, "is_fully_replicated", False)


def indivisible_dimensions(sharding: Any, shape: Any) -> Iterator[tuple[int, int, list[str], int]]:
    """Dimensions that a sharding splits into parts that do not divide them."""
    spec, mesh = getattr(sharding, "spec", None), getattr(sharding, "mesh", None)
    if spec is None or mesh is None:
        return
    sizes = dict(mesh.shape)
    for at, part in enumerate(tuple(spec)[: len(shape)]):
        names = list(axes_in(part))
        parts = math.prod(sizes.get(name, 1) for name in names)
        # One of what a model is initialised with stands for any number.
        if parts > 1 and shape[at] > 1 and shape[at] % parts:
            yield at, int(shape[at]), names, parts


def axes_of(sharding: Any) -> set[str]:
    """The axes that a sharding names."""
    return {name for part in tuple(getattr(sharding, "spec", None) or ()) for name in axes_in(part)}


def device_count_of(sharding: Any) -> int:
    """Over how many devices a sharding is, of an abstract mesh too; 0 of something else."""
    mesh = getattr(sharding, "mesh", None)
    return int(mesh.size) if mesh is not None else len(getattr(sharding, "device_set", ()))


def spec_text(sharding: Any) -> str:
    """A sharding for a person: `P('data', None)`, `one device`, `whole on 8 devices`."""
    spec = getattr(sharding, "spec", None)
    if spec is not None:
        parts = [repr(tuple(part)) if isinstance(part, (tuple, list)) else repr(part) for part in tuple(spec)]
        return f"P({', '.join(parts)})"
    devices = device_count_of(sharding)
    return "one device" if devices == 1 else f"{type(sharding).__name__} on {devices} devices"
