"""Functions of `shard_map` once more, when the program has ended: whether they give on one device what they gave on several.

A function is traced again for a mesh of one device, and both are run on the same made-up arrays. What does not agree is
no mistake by itself: what each device draws, counts or normalises by itself may be meant. So nothing is said of functions
that draw random numbers or give each device one row, where any reading of the numbers in them agrees (a constant may
be the size of an axis, or a count of one device), or where the numbers part at a statistic of a device's own rows.
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
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from . import program, sink
from .beside import Region, where_they_part
from .frames import is_user, stack
from .sink import quiet, write
from .stand_in import stand_in
from .steps import literals, same
from .values import RANDOM, is_key

_MOST = 12
_SECONDS = 20.0
_OPERATIONS = 2500
_WORK = 2e10
_ELEMENTS = 2**24
_LEAST = 8
_INTEGERS = 8
_noted: dict[Any, dict[str, Any]] = {}
_begun: list[bool] = []


def noting(mapped: Any, mapper: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any], made: Any) -> Any:
    """`mapped`, which `mapper` gave, with a note of what it is called with first."""
    if not callable(mapped) or "SHARDLINT_RUN_PROCESS" in os.environ:
        return mapped

    @functools.wraps(mapped)
    def call(*given: Any, **more: Any) -> Any:
        _note(mapper, args, kwargs, made, given)
        return mapped(*given, **more)

    return call


@quiet
def _note(mapper: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any], made: Any, given: Any) -> None:
    if sink.still or len(_noted) >= _MOST:
        return
    import jax

    bound = inspect.signature(mapper).bind_partial(*args, **kwargs).arguments
    function = bound.pop("f", None)
    inside = function
    while isinstance(inside, functools.partial):
        inside = inside.func
    code = getattr(inspect.unwrap(inside), "__code__", None) if inside is not None else None
    if code is None or not is_user(code.co_filename) or not bound.get("in_specs"):
        return
    leaves, tree = jax.tree_util.tree_flatten(given)
    avals = [(tuple(getattr(one, "shape", ())), str(getattr(one, "dtype", ""))) for one in leaves]
    key = (code, tuple(avals))
    if key in _noted or not all(hasattr(one, "dtype") for one in leaves):
        return
    if not _begun:
        _begun.append(True)
        atexit.register(_at_end)
    whole = [isinstance(one, jax.core.Tracer) or one.dtype.kind not in "iub" or one.size > _ELEMENTS for one in leaves]
    _noted[key] = {
        "function": function, "mapper": mapper, "options": bound, "tree": tree, "made": made, "called": stack()[:4],
        "avals": [jax.ShapeDtypeStruct(one.shape, one.dtype) for one in leaves],
        "values": [None if skip else jax.device_get(one) for skip, one in zip(whole, leaves, strict=True)],
        "mesh": bound.get("mesh") or _entered(),
        "defined": [code.co_filename, code.co_firstlineno, code.co_name],
    }  # fmt: skip


def _entered() -> Any:
    from jax._src import mesh

    found = mesh.get_concrete_mesh()
    return found if getattr(found, "size", 0) else None


@quiet
def _at_end() -> None:
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
                sink.still.append(True)
                try:
                    found = _look(jax, one, folder, left)
                finally:
                    sink.still.clear()
                if found:
                    told = {key: one[key] for key in ("defined", "made", "called")}
                    write("alone", **told, **found)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _look(jax: Any, noted: dict[str, Any], folder: str, left: list[float]) -> dict[str, Any] | None:
    """What is another on one device; None where nothing is, or it cannot be told."""
    try:
        region = _region(jax, noted, folder)
        if region is None:
            return None
        left[0] -= sum(1 for _ in program.operations(region.body))
        left[1] -= region.work
        if min(left) < 0:
            return None
        given = region.results()
        found = None
        for numbers in (False, True):
            alone = _alone(jax, noted, region, numbers)
            if alone is None:
                continue
            for instead in _readings(region, alone):
                results = alone.results(instead)
                wrong = [at for at, (one, two) in enumerate(zip(given, results, strict=True)) if not same(one, two)]
                if not wrong or any(given[at].shape != results[at].shape for at in wrong):
                    return None
                found = found or (alone, wrong, results)
    except Exception:  # what cannot be traced for one device is not judged
        if os.environ.get("SHARDLINT_RUN_DEBUG"):
            raise
        return None
    if found is None:
        return None
    alone, wrong, results = found
    parts = where_they_part(jax, region, alone)
    if parts is None:
        return None
    at = max(wrong, key=lambda one: given[one].size)
    times = _times(given[at], results[at])
    return {"axes": region.sizes, "result": region.names[at], "shape": list(given[at].shape), "times": times, **parts}


def _times(one: Any, other: Any) -> float | None:
    """By what number all of one array is the other's."""
    import numpy as np

    first, second = np.asarray(one, np.float64).ravel(), np.asarray(other, np.float64).ravel()
    large = np.abs(second) > 0.1 * np.sqrt(np.mean(second**2))
    if first.dtype.kind != "f" or not large.any():
        return None
    ratios = first[large] / second[large]
    middle = float(np.median(ratios))
    return middle if float(np.std(ratios)) < 1e-2 * abs(middle) else None


def _region(jax: Any, noted: dict[str, Any], folder: str) -> Region | None:
    """A region with arrays to run it on, as it was mapped over its mesh."""
    mesh, avals = noted["mesh"], noted["avals"]
    if mesh is None or mesh.size < 2 or sum(one.size for one in avals) > _ELEMENTS:
        return None
    count = itertools.count()
    arrays = [
        value if value is not None else _made_up(one, avals, next(count))
        for one, value in zip(avals, noted["values"], strict=True)
    ]
    if any(one is None for one in arrays):
        return None
    devices = getattr(mesh, "devices", None)
    grid = devices if devices is not None else jax.devices()[: mesh.size]
    several = _mesh(jax, mesh, grid)
    args = jax.tree_util.tree_unflatten(noted["tree"], arrays)
    region = Region(jax, several, args, folder)
    with _context(jax, several):
        region.trace(_mapped(noted, several))
    names = _names(region.body)
    if names & (RANDOM | {"sort"} if any(map(_integers, avals)) else RANDOM) or any(map(_outside, names)):
        return None
    if any(dim == 1 for dim in region.split):
        return None
    return region


def _integers(aval: Any) -> bool:
    return getattr(aval.dtype, "kind", "") in "iu"


def _outside(name: str) -> bool:
    """Whether an operation leaves the program, draws, or works on groups whose sizes cannot be made up."""
    return "callback" in name or name.startswith(("random_", "rng_", "pallas", "ragged_", "shard_map"))


def _names(jaxpr: Any) -> set[str]:
    return {eqn.primitive.name for eqn, _, _ in program.operations(jaxpr)}


def _made_up(aval: Any, avals: Sequence[Any], seed: int) -> Any:
    """An array of a shape and type; None for a key."""
    import numpy as np

    if is_key(aval):
        return None
    rng = np.random.default_rng(seed)
    kind = getattr(aval.dtype, "kind", "")
    if kind == "b":
        return rng.integers(0, 2, aval.shape).astype(bool)
    if kind in "iu":
        sizes = [size for one in avals for size in one.shape if size >= _LEAST and not _integers(one)]
        return rng.integers(0, min(sizes, default=_INTEGERS), aval.shape).astype(aval.dtype)
    return rng.normal(size=aval.shape).astype(aval.dtype)


def _mesh(jax: Any, mesh: Any, devices: Any) -> Any:
    """A mesh of the same axes over some devices, none of them explicit."""
    import numpy as np

    names = tuple(mesh.axis_names)
    grid = np.array(devices)
    grid = grid.reshape(tuple(mesh.shape[name] for name in names) if grid.size == mesh.size else (1,) * len(names))
    kinds = getattr(jax.sharding, "AxisType", None)
    if kinds is None:
        return jax.sharding.Mesh(grid, names)
    return jax.sharding.Mesh(grid, names, axis_types=(kinds.Auto,) * len(names))


def _context(jax: Any, mesh: Any) -> Any:
    return jax.set_mesh(mesh) if hasattr(jax, "set_mesh") else mesh


def _mapped(noted: dict[str, Any], mesh: Any) -> Any:
    options = {name: value for name, value in noted["options"].items() if name not in ("mesh", "check_vma", "check_rep")}
    check = "check_vma" if "check_vma" in inspect.signature(noted["mapper"]).parameters else "check_rep"
    return noted["mapper"](noted["function"], mesh=mesh, **options, **{check: False})


def _alone(jax: Any, noted: dict[str, Any], region: Region, numbers: bool) -> Region | None:
    """The region for one device; None where it cannot be traced so, as a shift between devices that are not there."""
    mesh = _mesh(jax, region.several, [region.several.devices.flat[0]])
    alone = Region(jax, mesh, region.args, region.folder)
    try:
        with stand_in(jax, noted["function"], noted["mesh"], mesh, numbers), _context(jax, mesh):
            alone.trace(_mapped(noted, mesh))
    except Exception:
        return None
    return alone


def _readings(region: Region, alone: Region) -> Iterator[dict[int, Any]]:
    """Values for the numbers of a region that did not change with the mesh: as they are, and where one may be the size
    of an axis, or a count of what one device has, as it were on one device.
    """
    yield {}
    import numpy as np

    sizes = {
        math.prod(each) for count in range(1, len(region.sizes) + 1)
        for each in itertools.combinations(region.sizes.values(), count)
    }  # fmt: skip
    before = {float(atom.val) for atom, _ in literals(region.body) if np.ndim(atom.val) == 0}
    found: dict[int, Any] = {}
    for atom, _ in literals(alone.body):
        if np.ndim(atom.val) or not np.isrealobj(atom.val) or float(atom.val) not in before or not float(atom.val):
            continue
        value = float(atom.val)
        for number, back in ((value, False), (1 / value, True)):
            count = round(number)
            if count < 2 or abs(number - count) > 1e-6 * count:
                continue
            other = 1 if count in sizes else region.counts.get(count)
            if other is not None:
                found[id(atom)] = np.asarray(1 / other if back else other, np.asarray(atom.val).dtype)
    if found:
        yield found
        for key in found if len(found) > 1 else ():
            yield {key: found[key]}
