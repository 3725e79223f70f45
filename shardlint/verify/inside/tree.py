"""Leaves of arguments and outputs: their paths, and copying them on and off devices.

A tree may hold anything: only array leaves are touched, so Equinox and NNX Modules work like plain pytrees.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np

from shardlint.verify.paths import path_text
from shardlint.verify.texts import array_text


@dataclass(frozen=True)
class Leaf:
    """One array leaf: its path, how a person writes it, and where it lies. `sharding` None: not on a
    jax device.
    """

    path: str
    where: str
    shape: tuple[int, ...]
    dtype: Any
    sharding: Any

    @property
    def describe_array(self) -> str:
        """`f32[1024,4096]`."""
        return array_text(str(self.dtype), self.shape)

    def bytes_under(self, sharding: Any) -> int:
        """Bytes of the leaf one device holds under a sharding."""
        whole = math.prod(self.shape) * item_bytes(self.dtype)
        if sharding is None:
            return whole
        try:
            return int(math.prod(sharding.shard_shape(self.shape))) * item_bytes(self.dtype)
        except ValueError:  # padded: a compiler may split what a spec may not
            return -(-whole // len(sharding.device_set))

    @property
    def local_bytes(self) -> int:
        """Bytes of the leaf one device holds."""
        return self.bytes_under(self.sharding)


@dataclass(frozen=True)
class HostKey:
    """A PRNG key array brought to the host: numpy has no such dtype."""

    data: Any
    impl: Any


def item_bytes(dtype: Any) -> int:
    """Bytes of one element; of a PRNG key, of its data."""
    if is_key(dtype):
        return (
            int(math.prod(dtype._impl.key_shape)) * 4
        )  # keys are uint32 words; jax has no public size for them
    return int(np.dtype(dtype).itemsize)


def is_key(dtype: Any) -> bool:
    """Return whether a dtype is a PRNG key's."""
    return bool(jax.dtypes.issubdtype(dtype, jax.dtypes.prng_key))


def is_array(leaf: Any) -> bool:
    """Return whether a leaf is an array with values."""
    return isinstance(leaf, jax.Array | np.ndarray)


def is_abstract(leaf: Any) -> bool:
    """Return whether a leaf has only a shape and dtype."""
    return isinstance(leaf, jax.ShapeDtypeStruct)


def flatten_tree(tree: Any) -> list[tuple[str, str, Any]]:
    """Path, spelling (`[0]['w1']`) and value of every leaf."""
    leaves, _ = jax.tree_util.tree_flatten_with_path(tree)
    return [(path_text(keys), jax.tree_util.keystr(keys), leaf) for keys, leaf in leaves]


def array_leaves(tree: Any, name: str) -> list[Leaf]:
    """The jax and numpy arrays in `tree`, spelled from `name` (`out[0]['w1']`)."""
    return [
        Leaf(path, name + where, tuple(leaf.shape), leaf.dtype, getattr(leaf, "sharding", None))
        for path, where, leaf in flatten_tree(tree)
        if is_array(leaf)
    ]


def map_arrays(change: Callable[[Any], Any], tree: Any) -> Any:
    """`tree` with `change` applied to arrays, abstract arrays and host keys, and to nothing else."""

    def map_leaf(leaf: Any) -> Any:
        return change(leaf) if is_array(leaf) or is_abstract(leaf) or isinstance(leaf, HostKey) else leaf

    return jax.tree_util.tree_map(map_leaf, tree)


def snapshot_tree(tree: Any) -> Any:
    """The same leaves in containers of their own: what changes a Module in place, as NNX does, leaves them be."""
    return jax.tree_util.tree_map(lambda leaf: leaf, tree)


def to_host(leaf: Any) -> Any:
    """A copy on the host: a numpy array or a `HostKey`; abstract leaves stay as they are."""
    if is_abstract(leaf) or isinstance(leaf, HostKey):
        return leaf
    if is_key(leaf.dtype):
        return HostKey(np.array(jax.random.key_data(leaf)), jax.random.key_impl(leaf))
    return np.array(_local_part(leaf))


def holder_index(sharding: Any) -> int | None:
    """The place, among its devices in order, of the one that holds an array whole while the others hold nothing (what
    the compiler calls maximal), or None where there is no such one.
    """
    if type(sharding).__name__ != "GSPMDSharding" or len(sharding.device_set) == 1:
        return None
    match = _MAXIMAL.search(str(sharding))
    return int(match[1]) if match else None


_MAXIMAL = re.compile(r"\{maximal device=(\d+)\}")


def _local_part(leaf: Any) -> Any:
    """An array, or of one that a single device of several holds, the part that holds it."""
    place = holder_index(leaf.sharding) if isinstance(leaf, jax.Array) else None
    if place is None:
        return leaf
    order = list(leaf.sharding._device_assignment)
    return next(shard.data for shard in leaf.addressable_shards if shard.device == order[place])


def from_host(leaf: Any, sharding: Any = None) -> Any:
    """The jax array of a host copy, placed by `sharding`, or uncommitted without one."""
    if isinstance(leaf, HostKey):
        array = jax.random.wrap_key_data(jax.numpy.asarray(leaf.data), impl=leaf.impl)
    else:
        array = jax.numpy.asarray(leaf) if sharding is None else leaf
    return array if sharding is None else jax.device_put(array, sharding)


def upcast_leaf(leaf: Any) -> Any:
    """A host copy with floats as float64 and complex numbers as complex128; anything else as it is."""
    if isinstance(leaf, np.ndarray):
        if jax.dtypes.issubdtype(leaf.dtype, np.complexfloating):
            return leaf.astype(np.complex128)
        if jax.dtypes.issubdtype(leaf.dtype, np.floating):
            return leaf.astype(np.float64)
    return leaf


def materialise_leaf(leaf: Any, below: int, seed: int) -> Any:
    """A host array of the shape and dtype of an abstract leaf, filled reproducibly (see `arg`)."""
    if not is_abstract(leaf):
        return leaf
    rng = np.random.default_rng(seed)
    if is_key(leaf.dtype):
        keys = jax.random.split(jax.random.key(seed), math.prod(leaf.shape)).reshape(leaf.shape)
        return to_host(keys)
    if leaf.dtype == np.bool_:
        return rng.integers(0, 2, leaf.shape).astype(np.bool_)
    if jax.dtypes.issubdtype(leaf.dtype, np.integer):
        return rng.integers(0, below, leaf.shape).astype(leaf.dtype)
    return rng.standard_normal(leaf.shape).astype(leaf.dtype)
