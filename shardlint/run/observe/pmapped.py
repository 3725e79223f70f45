"""A call of `pmap` as the same function over a mesh: its batch as one array that is split, its copies as whole ones."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from . import replicas
from .values import is_key

_ELEMENTS = 2**24


def convert_to_regions(jax: Any, options: dict[str, Any], given: Sequence[Any]) -> Iterator[dict[str, Any]]:
    """The function with its arrays and specs: with the rows of each device behind those of the others along the first
    dimension of a batch, and along its second, as that of a batch of sequences may be. Nothing where a device's part
    is no batch, or too large.
    """
    function, axes = options.get("fun"), options.get("in_axes", 0)
    axes = tuple(axes) if isinstance(axes, (tuple, list)) else (axes,) * len(given)
    if (
        function is None
        or options.get("static_broadcasted_argnums")
        or options.get("out_axes", 0) != 0
        or len(axes) != len(given)
        or any(one not in (0, None) for one in axes)
    ):
        return
    leaves, numbers = [], []
    for one, axis in zip(given, axes, strict=True):
        mine, _ = jax.tree_util.tree_flatten(one)
        leaves += mine
        numbers += [axis] * len(mine)
    if not all(hasattr(one, "dtype") and not isinstance(one, jax.core.Tracer) for one in leaves):
        return
    if any(is_key(one) for one in leaves):
        return
    devices = {one.shape[0] for one, axis in zip(leaves, numbers, strict=True) if axis == 0}
    if len(devices) != 1 or min(devices) < 2:
        return
    count = devices.pop()
    name = options.get("axis_name") or "_internal_pmap_axis_name"
    whole = [axis is None or _is_copied(jax, one) for one, axis in zip(leaves, numbers, strict=True)]
    sizes = (one.size // (count if same else 1) for one, same in zip(leaves, whole, strict=True))
    if sum(sizes) > _ELEMENTS:
        return
    values = [
        jax.device_get(one) if not same or axis is None else _first_row(one)
        for one, axis, same in zip(leaves, numbers, whole, strict=True)
    ]
    tree = jax.tree_util.tree_structure(tuple(given))
    for dim in (1, 2):
        batch = [one for one, same in zip(values, whole, strict=True) if not same]
        if not batch or any(one.ndim <= dim or one.shape[dim] < 2 for one in batch):
            return
        spec = jax.sharding.PartitionSpec
        split = spec(*[None] * (dim - 1), name)
        arrays = [
            one if same else _join_rows(one, dim) for one, same in zip(values, whole, strict=True)
        ]
        specs = [spec() if same else split for same in whole]
        yield {
            "function": functools.partial(_stack_result, jax, function), "inside": function, "values": arrays,
            "tree": tree,
            "options": {"in_specs": jax.tree_util.tree_unflatten(tree, specs), "out_specs": spec(name)},
            "mesh": jax.sharding.Mesh(jax.local_devices()[:count], (name,)), "copies": True,
        }  # fmt: skip


def _stack_result(jax: Any, function: Callable[..., Any], *args: Any) -> Any:
    """Return the result of a function on one device, as a row of the result of `pmap`."""
    return jax.tree_util.tree_map(lambda one: jax.numpy.asarray(one)[None], function(*args))


def _is_copied(jax: Any, one: Any) -> bool:
    """Return whether each device gets equal data, by samples."""
    rows = replicas.sample_rows(jax, one) or list(jax.device_get(one))
    return replicas.are_alike(rows)


def _first_row(one: Any) -> Any:
    """Return the row of the first device."""
    import numpy as np

    shards: Sequence[Any] = getattr(one, "addressable_shards", ())
    if len(shards) > 1 and shards[0].data.shape[0] == 1:
        return np.asarray(shards[0].data)[0]
    return np.asarray(one)[0]


def _join_rows(one: Any, dim: int) -> Any:
    import numpy as np

    one = np.moveaxis(one, 0, dim - 1)
    return one.reshape(*one.shape[: dim - 1], -1, *one.shape[dim + 1 :])
