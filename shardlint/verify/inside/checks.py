"""The comparisons every verification is made of. Each returns what does not hold, and how many leaves
it looked at.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import jax
import numpy as np

from shardlint.verify.declarations import REPLICATED, name_item
from shardlint.verify.inside import tree
from shardlint.verify.inside.compiled import Compiled
from shardlint.verify.inside.coverage import Looked
from shardlint.verify.inside.placed_arguments import Indivisible, named_sharding
from shardlint.verify.paths import idle_globs, select_glob
from shardlint.verify.report import Failure
from shardlint.verify.spec import P, sizes_text
from shardlint.verify.texts import array_text, size_text

ONE_DEVICE = "one device"
_NO_ARRAY = "the argument contains no array"


@dataclass
class Checked:
    """Failures, the number of leaves compared, and what that says of the fixture's declarations."""

    failures: list[Failure]
    count: int
    looked: Looked = field(default_factory=Looked)

    def __iadd__(self, other: Checked) -> Checked:
        self.failures += other.failures
        self.count += other.count
        self.looked += other.looked
        return self


def is_same_sharding(actual: Any, mesh: Any, spec: P, ndim: int) -> bool:
    """Return whether a sharding places an array as `spec` on `mesh` does. The memory kind does not matter."""
    if isinstance(actual, jax.sharding.SingleDeviceSharding):
        return bool(mesh.devices.size == 1 and actual.device_set == set(mesh.devices.flat))
    expected = named_sharding(mesh, spec, getattr(actual, "memory_kind", None))
    return bool(actual.is_equivalent_to(expected, ndim))


def is_on_one_device(sharding: Any) -> bool:
    """Return whether a sharding uses a single device."""
    return len(sharding.device_set) == 1 or tree.holder_index(sharding) is not None


def sharding_text(sharding: Any) -> str:
    """A sharding in mesh axis names: `P('data', None)`, `one device`, or jax's own words for anything
    else.
    """
    if sharding is None:
        return "host memory"
    if is_on_one_device(sharding):
        return ONE_DEVICE
    if isinstance(sharding, jax.sharding.NamedSharding):
        entries = list(sharding.spec)
        while entries and entries[-1] in (None, ()):
            entries.pop()
        return f"P({', '.join(repr(entry) for entry in entries)})"
    if sharding.is_fully_replicated:
        return "P()"
    return str(sharding)


def check_placement(
    leaves: Sequence[tree.Leaf],
    out: Mapping[str, P],
    mesh: Any,
    replicated_max: int | None,
    field: str = "out",
) -> Checked:
    """Compare output leaves with the specs their paths ask for, and limit the size of the replicated others.

    `field` is the one that declares `out`. Raises `Indivisible` when the mesh does not divide an expected dimension.
    """
    checked = Checked([], 0)
    sizes = dict(mesh.shape)
    for glob, message in idle_globs(out, [leaf.path for leaf in leaves]).items():
        checked.failures.append(Failure("pattern", message))
        checked.looked.proved.add(name_item(field, glob))
    others = []
    for leaf in leaves:
        found = select_glob(out, leaf.path)
        if found is None:
            others.append(leaf)
            continue
        glob, spec = found
        try:
            misfit = spec.explain_misfit(leaf.shape, sizes)
        except ValueError as error:
            failure = Failure("fixture", str(error), leaf.where, leaf.path, leaf.describe_array)
            checked += Checked([failure], 1, Looked({name_item(field, glob)}))
            continue
        if misfit:
            raise Indivisible(f"{leaf.where}: {misfit}")
        found_wrong = _compare_sharding(leaf, mesh, spec)
        checked.failures += found_wrong
        checked += weigh_leaf(name_item(field, glob), spec, sizes, bool(found_wrong))
    if replicated_max is not None and not leaves:
        nothing = Failure("empty", "checks nothing: no output leaf was compared")
        checked += Checked([nothing], 0, Looked({REPLICATED}))
    elif replicated_max is not None:
        checked += _check_replicated_sizes(others, mesh, replicated_max)
    return checked


def weigh_leaf(text: str, spec: P, sizes: Mapping[str, int], wrong: bool = False) -> Checked:
    """One leaf compared with `spec` for the declaration `text`; it counts where the mesh can tell a wrong one."""
    if wrong:
        return Checked([], 1, Looked({text}))
    thin = [axis for axis in spec.axis_names() if sizes.get(axis) == 1]
    if all(size == 1 for size in sizes.values()):
        return Checked([], 0, Looked(idle={text: "the mesh has one device"}))
    if thin and len(thin) == len(spec.axis_names()):
        why = f"every axis that {spec} names has size 1 on this mesh"
        return Checked([], 0, Looked(idle={text: why}))
    said = [f"axis {axis!r} has size 1 on this mesh, so nothing is proved of it" for axis in thin]
    return Checked([], 1, Looked({text}, said=said))


def _check_replicated_sizes(leaves: Sequence[tree.Leaf], mesh: Any, most: int) -> Checked:
    """Limit the size of leaves that no glob names, where they are replicated; the largest failure first."""
    if mesh.devices.size == 1:
        return Checked([], 0, Looked(idle={REPLICATED: "the mesh has one device"}))
    if not leaves:
        return Checked([], 0, Looked(idle={REPLICATED: "out names every output leaf"}))
    failures = [failure for leaf in leaves for failure in _limit_replicated(leaf, most)]
    failures.sort(key=lambda failure: failure.bytes_actual or 0, reverse=True)
    if len(failures) > 1:
        failures[0].message += f"; the largest of {len(failures)}"
    return Checked(failures, len(leaves), Looked({REPLICATED}))


def _compare_sharding(leaf: tree.Leaf, mesh: Any, spec: P) -> list[Failure]:
    if leaf.sharding is not None and is_same_sharding(leaf.sharding, mesh, spec, len(leaf.shape)):
        return []
    failure = Failure(
        "sharding", "", leaf.where, leaf.path, leaf.describe_array, str(spec), sharding_text(leaf.sharding)
    )
    failure.bytes_expected = leaf.bytes_under(named_sharding(mesh, spec))
    failure.bytes_actual = leaf.local_bytes
    other = getattr(leaf.sharding, "mesh", None)
    if other is not None and not is_on_one_device(leaf.sharding) and dict(other.shape) != dict(mesh.shape):
        failure.message = f"on another mesh: {sizes_text(other.shape)}"
    return [failure]


def _limit_replicated(leaf: tree.Leaf, most: int) -> list[Failure]:
    whole = leaf.sharding is None or is_on_one_device(leaf.sharding) or leaf.sharding.is_fully_replicated
    if not whole or leaf.local_bytes <= most:
        return []
    message = (
        f"replicated: {size_text(leaf.local_bytes)} is more than replicated_bytes_max ({size_text(most)})"
    )
    actual = sharding_text(leaf.sharding)
    failure = Failure("replicated", message, leaf.where, leaf.path, leaf.describe_array, "sharded", actual)
    failure.bytes_actual = leaf.local_bytes
    return [failure]


def check_donation(compiled: Compiled) -> Checked:
    """Every donated array must have been donated by the function and be reused for an output."""
    donated = compiled.donated
    failures = []
    for one in donated:
        if not one.given or one.aliased is False:
            message = (
                "donated, but no output reuses its buffer: none has its shape, dtype and sharding"
                if one.given
                else "not donated by fn" + ("" if compiled.is_jit else ", nor by a jit that it calls")
            )
            failures.append(_kept_buffer_failure(one.leaf, message))
    if not failures and any(one.aliased is None for one in donated):
        wanted = sum(one.leaf.local_bytes for one in donated)
        if compiled.alias_bytes < wanted:
            reused = (
                f"only {size_text(compiled.alias_bytes)} of {size_text(wanted)} donated are reused on each "
                "device"
            )
            failures.append(Failure("donation", reused, expected="all reused", actual="part"))
    arguments = dict.fromkeys(one.argument for one in compiled.taken if one.argument in compiled.donates)
    proved = {name_item("donate", index) for index in arguments}
    missed = {name_item("donate", index): _NO_ARRAY for index in compiled.donates if index not in arguments}
    return Checked(failures, len(donated), Looked(proved, missed=missed))


def check_deleted(args: Sequence[Any], donate: Sequence[int]) -> Checked:
    """After a call, every donated array must be gone: an array still alive was copied. `args` are those before it
    (see `tree.snapshot`).
    """
    checked = Checked([], 0)
    for index in donate:
        for path, where, leaf in tree.flatten_tree(args[index]):
            if isinstance(leaf, jax.Array):
                checked.count += 1
                checked.looked.proved.add(name_item("donate", index))
                if not leaf.is_deleted():
                    held = tree.Leaf(
                        path, f"args[{index}]{where}", tuple(leaf.shape), leaf.dtype, leaf.sharding
                    )
                    checked.failures.append(
                        _kept_buffer_failure(
                            held, "its buffer was not reused: it is still alive after the call"
                        )
                    )
        if name_item("donate", index) not in checked.looked.proved:
            checked.looked.missed[name_item("donate", index)] = _NO_ARRAY
    return checked


def _kept_buffer_failure(leaf: tree.Leaf, message: str) -> Failure:
    return Failure(
        "donation",
        message,
        leaf.where,
        leaf.path,
        leaf.describe_array,
        "buffer reused",
        "kept",
        None,
        leaf.local_bytes,
    )


def check_replicas(output: Any) -> Checked:
    """Devices that hold the same part of an output array must hold the same numbers."""
    checked = Checked([], 0)
    for path, where, leaf in tree.flatten_tree(output):
        # Of an array on one device the others hold nothing, whatever jax hands out for them.
        if not isinstance(leaf, jax.Array) or is_on_one_device(leaf.sharding):
            continue
        checked.count += 1
        first: dict[str, tuple[Any, Any]] = {}
        for shard in leaf.addressable_shards:
            data = np.asarray(jax.random.key_data(shard.data) if tree.is_key(leaf.dtype) else shard.data)
            device, other = first.setdefault(str(shard.index), (shard.device, data))
            if data.tobytes() != other.tobytes():
                message = f"devices {device.id} and {shard.device.id} have different values in the same shard"
                text = array_text(str(leaf.dtype), leaf.shape)
                checked.failures.append(Failure("replicas", message, "out" + where, path, text))
                break
    return checked
