"""Functions of `shard_map` and `pmap` once more, when the program has ended: do they give on one device what they gave
on several?

A function is traced again for a mesh of one device, and both are run on the same made-up arrays. What does not agree is
no mistake by itself: what each device draws, counts or normalises by itself may be meant. So nothing is said of
functions that draw random numbers or give each device one row, where any reading of the numbers in them agrees (a
constant may be the size of an axis, or a count of one device), or where the numbers part at a statistic of a device's
own rows.
"""

from __future__ import annotations

import atexit
import functools
import inspect
import itertools
import math
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from typing import Any

from . import event_sink, pmapped, program
from .event_sink import silence_errors, write_event
from .frames import is_user, user_stack
from .operation_comparison import find_literals, is_same_array, relative_distance
from .region_comparison import Region, shard_map, where_they_part
from .stand_in import stand_in
from .unreached_rows import find_unreached_rows, shifts_in_a_loop
from .values import RANDOM, is_key

_MOST = 24
_SECONDS = 20.0
_OPERATIONS = 4000
_WORK = 4e10
# Of all arguments together when whole, and of what the devices hold of them together.
_ELEMENTS, _HELD = 2**26, 2**27
_FACTORS = ("qr", "geqrf", "householder_product", "eigh", "eig", "svd", "schur")
# A reading must agree as well as arrays of such a size in bytes do, or come so many times nearer.
_ROUGH, _NOISE, _NEARER = 4, 1e-3, 4
_LEAST = 8
_INTEGERS = 8
_ROWS = 16
_REPEATED = 1_000_003
_CALLS = 3
_NAMES = 4
_SEED = 1000
_OURS = ("f", "mesh")
_noted: dict[Any, dict[str, Any]] = {}
_begun: list[bool] = []


def wrap_mapped(mapped: Any, mapper: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any], made: Any) -> Any:
    """`mapped`, which `mapper` gave, with a note of what it is called with first."""
    if not inspect.isfunction(mapped) or "SHARDLINT_RUN_PROCESS" in os.environ:
        return mapped
    calls = itertools.count()

    @functools.wraps(mapped)
    def call_and_note(*given: Any, **more: Any) -> Any:
        if next(calls) < _CALLS and not more:
            _note_first_call(mapper, args, kwargs, made, given)
        return mapped(*given, **more)

    return call_and_note


@silence_errors
def _note_first_call(
    mapper: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any], made: Any, given: Any
) -> None:
    if event_sink.still or len(_noted) >= _MOST:
        return
    import jax

    options = inspect.signature(mapper).bind_partial(*args, **kwargs).arguments
    function = inside = options.get("f", options.get("fun"))
    while isinstance(inside, functools.partial):
        inside = inside.func
    code = getattr(inspect.unwrap(inside), "__code__", None) if inside is not None else None
    if code is None or not is_user(code.co_filename):
        return
    leaves, tree = jax.tree_util.tree_flatten(given)
    key = (code, tuple((tuple(getattr(one, "shape", ())), str(getattr(one, "dtype", ""))) for one in leaves))
    if key in _noted or not all(hasattr(one, "dtype") for one in leaves):
        return
    if "fun" in options:
        ways = list(pmapped.convert_to_regions(jax, options, given))
    elif options.get("in_specs"):
        ways = [{
            "function": function, "inside": function, "tree": tree, "copies": False,
            "options": {name: value for name, value in options.items() if name not in _OURS},
            "mesh": options.get("mesh") or _entered_mesh(),
            "values": [_keep_value(jax, one) for one in leaves],
        }]  # fmt: skip
    else:
        return
    if not _begun:
        _begun.append(True)
        atexit.register(_compare_at_end)
    defined = [code.co_filename, code.co_firstlineno, code.co_name]
    _noted[key] = {"ways": ways, "made": made, "called": user_stack()[:4], "defined": defined}


def _keep_value(jax: Any, one: Any) -> Any:
    """Whole numbers as they are, since what they count cannot be made up; the shape and type of all else."""
    if isinstance(one, jax.core.Tracer) or getattr(one.dtype, "kind", "") not in "iub" or one.size > _ELEMENTS:
        return jax.ShapeDtypeStruct(one.shape, one.dtype)
    return jax.device_get(one)


def _entered_mesh() -> Any:
    from jax._src import mesh

    found = mesh.get_concrete_mesh()
    return found if getattr(found, "size", 0) else None


@silence_errors
def _compare_at_end() -> None:
    """Look at what was noted, as long as that comes to little: counted in operations, that the answer does not depend
    on the load of the machine.
    """
    import jax

    if getattr(sys, "last_value", None) is not None or jax.process_count() > 1:
        return
    folder = tempfile.mkdtemp(prefix="shardlint-run-")
    end = time.monotonic() + _SECONDS
    left = [_OPERATIONS, _WORK]
    try:
        for one in _noted.values():
            if time.monotonic() < end:
                event_sink.still.append(True)
                try:
                    found = None
                    for way in one["ways"]:
                        found = _compare_with_one_device(jax, way, folder, left)
                        if not found:
                            break
                finally:
                    event_sink.still.clear()
                if found:
                    told = {key: one[key] for key in ("defined", "made", "called")}
                    write_event("alone", **told, **found)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _compare_with_one_device(jax: Any, way: dict[str, Any], folder: str, left: list[float]) -> dict[str, Any] | None:
    """Return the difference of a run on one device; None if there is none, or if it cannot be determined."""
    try:
        region = _make_region(jax, way, folder)
        if region is None:
            return None
        shifts, single = shifts_in_a_loop(region), any(dim == 1 for dim in region.split)
        if (single and not shifts) or not _is_affordable(region, left):
            return None
        if shifts and _is_affordable(region, left):
            other = _make_region(jax, way, folder, _SEED)
            if other is not None and (rows := find_unreached_rows(region, other)) is not None:
                return rows
        if single:
            return None
        given = region.run_region()
        judged = [at for at, one in enumerate(given) if not way["copies"] or _is_equal_on_devices(one)]
        first = [one[:1] for one in given] if way["copies"] else given
        found, before = None, None
        # Their columns have whatever sign comes out.
        factors = any(eqn.primitive.name in _FACTORS for eqn, _, _ in program.iterate_operations(region.body))
        apart: dict[int, float] = {}
        met: set[str] = set()
        ways: list[tuple[bool | str, bool]] = [(False, False), (True, False)]
        for numbers, sizes in ways:
            alone = _region_for_one_device(jax, way, region, numbers, met, sizes)
            # Which of several numbers is that of the devices is not known where all of them together come to nothing.
            if alone is None and numbers is True and 1 < len(met) <= _NAMES:
                ways += [(name, False) for name in sorted(met)]
            if alone is None or alone.is_same_region(before):
                continue
            before = alone
            if not _is_affordable(region, left):
                return None
            if _sizes_written_in_code(region, alone):
                ways += [(True, True)] if (True, True) not in ways else []
                continue
            atoms, readings = _possible_readings(region, alone)
            run = alone.with_numbers(atoms)
            for instead in readings:
                results = _run_on_one_device(run, instead)
                if results is None:
                    break
                wrong = [at for at in judged if not is_same_array(first[at], results[at])]
                if factors:
                    wrong = [at for at in wrong if not is_same_array(abs(first[at]), abs(results[at]))]
                wrong += [
                    at
                    for at, far in apart.items()
                    if at not in wrong and not _explains_deviation(first[at], results[at], far)
                ]
                if not apart:
                    apart = {at: relative_distance(first[at], results[at]) for at in wrong}
                if not wrong or any(first[at].shape != results[at].shape for at in wrong):
                    return None
                found = found or (alone, wrong, results)
    except Exception:  # what cannot be traced for one device is not judged
        if os.environ.get("SHARDLINT_RUN_DEBUG"):
            raise
        return None
    if found is None:
        return None
    alone, wrong, results = found
    # The smallest says where as well as all of them, and what it is made of is the least to look at.
    parts = where_they_part(region, alone, [min(wrong, key=lambda one: given[one].size)])
    if parts is None or (parts["step"] == "axis_index" and _has_invented_counts(jax, way, region)):
        return None
    at = max(wrong, key=lambda one: given[one].size)
    times = _ratio_of_arrays(first[at], results[at])
    return {"axes": region.sizes, "result": region.names[at], "shape": list(given[at].shape), "times": times, **parts}


def _has_invented_counts(jax: Any, way: dict[str, Any], region: Region) -> bool:
    """Return whether generated numbers that may count rows are sharded, so that their owner is not known."""
    invented = any(_is_integer(one) and isinstance(one, jax.ShapeDtypeStruct) for one in way["values"])
    pairs = zip(region.given, region.in_specs, strict=True)
    return invented and any(_is_integer(one) and any(spec) for one, spec in pairs)


def _is_affordable(region: Region, left: list[float]) -> bool:
    """Return whether the remaining budget allows one more run of a region, which has to be compiled. Subtract its
    cost.
    """
    left[0] -= region.operations
    left[1] -= region.work
    return min(left) >= 0


def _run_on_one_device(run: Callable[[dict[int, Any]], list[Any]], instead: dict[int, Any]) -> list[Any] | None:
    """Return the results of a region on one device; None if it cannot run there, such as a shift between missing
    devices.
    """
    try:
        return run(instead)
    except Exception:
        return None


def _explains_deviation(one: Any, other: Any, far: float) -> bool:
    """Return whether another reading of the numbers explains the deviation `far`, and does not only reduce it a
    little.
    """
    now = relative_distance(one, other)
    return one.dtype.itemsize < _ROUGH or now <= _NOISE or now * _NEARER <= far


def _is_equal_on_devices(one: Any) -> bool:
    """Return whether each device has an equal part of a result of `pmap`, which is more than a number."""
    return one[0].size >= _LEAST and all(is_same_array(row, one[0]) for row in one[1:])


def _ratio_of_arrays(one: Any, other: Any) -> float | None:
    """By what number all of one array is the other's."""
    import numpy as np

    first, second = np.asarray(one, np.float64).ravel(), np.asarray(other, np.float64).ravel()
    large = np.abs(second) > 0.1 * np.sqrt(np.mean(second**2))
    if first.dtype.kind != "f" or not large.any():
        return None
    ratios = first[large] / second[large]
    middle = float(np.median(ratios))
    return middle if float(np.std(ratios)) < 1e-2 * abs(middle) else None


def _make_region(jax: Any, way: dict[str, Any], folder: str, first: int = 0) -> Region | None:
    """A region with arrays to run it on, as it was mapped over its mesh."""
    mesh, values = way["mesh"], way["values"]
    if mesh is None or mesh.size < 2 or sum(one.size for one in values) > _ELEMENTS:
        return None
    arrays = [_make_up_array(jax, one, values, seed) for seed, one in enumerate(values, first)]
    if any(one is None for one in arrays):
        return None
    devices = getattr(mesh, "devices", None)
    grid = devices if devices is not None else jax.devices()[: mesh.size]
    several = _mesh_over_devices(jax, mesh, grid)
    region = Region(jax, several, jax.tree_util.tree_unflatten(way["tree"], arrays), folder)
    with _enter_mesh(jax, several):
        region.trace_operations(_map_function(jax, way, several))
    if region.held > _HELD:
        return None
    names = {eqn.primitive.name for eqn, _, _ in program.iterate_operations(region.body)}
    if _is_gradient_different(way, region):
        return None
    if names & (RANDOM | {"sort"} if any(map(_is_integer, values)) else RANDOM) or any(map(_is_unreproducible, names)):
        return None
    return region


def _is_integer(aval: Any) -> bool:
    return getattr(aval.dtype, "kind", "") in "iu"


def _is_unreproducible(name: str) -> bool:
    """Return whether an operation leaves the program, draws random numbers, or works on groups whose sizes cannot be
    simulated.
    """
    return "callback" in name or name.startswith(("random_", "rng_", "pallas", "ragged_", "shard_map"))


def _make_up_array(jax: Any, aval: Any, avals: Sequence[Any], seed: int) -> Any:
    """An array of a shape and type, where it is not known; None for a key."""
    import numpy as np

    if is_key(aval):
        return None
    if not isinstance(aval, jax.ShapeDtypeStruct):
        return aval
    rng = np.random.default_rng(seed)
    kind = getattr(aval.dtype, "kind", "")
    if kind == "b":
        return rng.integers(0, 2, aval.shape).astype(bool)
    if kind in "iu":
        sizes = [size for one in avals for size in one.shape if size >= _LEAST and not _is_integer(one)]
        return rng.integers(0, min(sizes, default=_INTEGERS), aval.shape).astype(aval.dtype)
    # A large array repeats one that is smaller than its parts are alike.
    size = math.prod(aval.shape)
    some = rng.normal(size=min(size, _REPEATED)).astype(aval.dtype)
    return np.resize(some, aval.shape)


def _mesh_over_devices(jax: Any, mesh: Any, devices: Any) -> Any:
    """A mesh of the same axes over some devices, none of them explicit."""
    import numpy as np

    names = tuple(mesh.axis_names)
    grid = np.array(devices)
    grid = grid.reshape(tuple(mesh.shape[name] for name in names) if grid.size == mesh.size else (1,) * len(names))
    kinds = getattr(jax.sharding, "AxisType", None)
    if kinds is None:
        return jax.sharding.Mesh(grid, names)
    return jax.sharding.Mesh(grid, names, axis_types=(kinds.Auto,) * len(names))


def _enter_mesh(jax: Any, mesh: Any) -> Any:
    return jax.set_mesh(mesh) if hasattr(jax, "set_mesh") else mesh


def _map_function(jax: Any, way: dict[str, Any], mesh: Any) -> Any:
    """The function as the program maps it: whether jax checks what varies decides what a gradient in it comes to. In
    `pmap` it does not, and before it is part of the types nothing is checked here: see `_differentiated`.
    """
    mapper, options = shard_map(jax), way["options"]
    if "check_vma" not in inspect.signature(mapper).parameters:
        options = {**options, "check_rep": False}
    elif way["copies"]:
        options = {**options, "check_vma": False}
    return mapper(way["function"], mesh=mesh, **options)


def _is_gradient_different(way: dict[str, Any], region: Region) -> bool:
    """Return whether a gradient is taken in a region, and differs without the check that the program requests."""
    checks = way["options"].get("check_rep", "check_vma" not in way["options"])
    if way["copies"] or region.checked or not checks:
        return False
    return any("transpose" in str(eqn.source_info.name_stack) for eqn, _, _ in program.iterate_operations(region.body))


def _region_for_one_device(
    jax: Any, way: dict[str, Any], region: Region, numbers: bool | str, met: set[str], rows: bool
) -> Region | None:
    """The region for one device, with the `rows` of one device for those of all; None where it cannot be traced so."""
    counts = {few: many for few, many in region.rows.items() if few >= _ROWS} if rows else None
    mesh = _mesh_over_devices(jax, region.several, [region.several.devices.flat[0]])
    alone = Region(jax, mesh, region.args, region.folder)
    try:
        with stand_in(jax, way["inside"], way["mesh"], mesh, numbers, met, counts), _enter_mesh(jax, mesh):
            alone.trace_operations(_map_function(jax, way, mesh))
    except Exception:
        return None
    return alone


def _sizes_written_in_code(region: Region, alone: Region) -> set[float]:
    """Sizes of what one of several devices has that rows are compared with or cut by, on one device too: where the
    program has written them down, the function cannot be run there.
    """
    sizes = {float(size - less) for size in region.split if size >= _ROWS for less in (0, 1)}
    return sizes & _fixed_numbers(region.body) & _fixed_numbers(alone.body)


def _fixed_numbers(jaxpr: Any) -> set[float]:
    """The numbers in a body that do not scale."""
    import numpy as np

    return {
        float(atom.val)
        for eqn, _, _ in program.iterate_operations(jaxpr)
        if eqn.primitive.name not in ("mul", "div")
        for atom in eqn.invars
        if hasattr(atom, "val") and np.ndim(atom.val) == 0 and np.isrealobj(atom.val)
    }


def _possible_readings(region: Region, alone: Region) -> tuple[list[Any], list[dict[int, Any]]]:
    """Numbers of a region that did not change with the mesh and may be the size of an axis, or a count of what one
    device has; and values for them by `id`: as they are, all as they were on one device, and each.
    """
    import numpy as np

    sizes = {
        math.prod(each) for count in range(1, len(region.sizes) + 1)
        for each in itertools.combinations(region.sizes.values(), count)
    }  # fmt: skip
    before = {float(atom.val) for atom, _ in find_literals(region.body) if np.ndim(atom.val) == 0}
    atoms: list[Any] = []
    found: dict[int, Any] = {}
    for atom, _ in find_literals(alone.body):
        if np.ndim(atom.val) or not np.isrealobj(atom.val) or float(atom.val) not in before or not float(atom.val):
            continue
        value = float(atom.val)
        for number, back in ((value, False), (1 / value, True)):
            count = round(number)
            if count < 2 or abs(number - count) > 1e-6 * count:
                continue
            other = 1 if count in sizes else region.counts.get(count)
            if other is not None and id(atom) not in found:
                atoms.append(atom)
                found[id(atom)] = np.asarray(1 / other if back else other, np.asarray(atom.val).dtype)
    each = [{key: found[key]} for key in found] if len(found) > 1 else []
    return atoms, [{}, *([found] if found else []), *each]
