"""Making a fixture's arguments and placing them on a mesh."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np

from shardlint.verify.fixture import Argument, Fixture
from shardlint.verify.inside import load, tree
from shardlint.verify.paths import glob_matches, nothing_matches, path_text, select_glob, unmatched_globs
from shardlint.verify.spec import P


class Indivisible(Exception):
    """An array that the mesh does not divide as its spec asks: the mesh is skipped."""


@dataclass
class HostArgument:
    """One argument before it is placed: its tree and, for each leaf path, the spec it is to have
    (None: as it is).
    """

    tree: Any
    specs: dict[str, P | None]
    below: int
    seed: int


def jax_spec(spec: P) -> Any:
    """The jax PartitionSpec of a `P`."""
    return jax.sharding.PartitionSpec(*spec.entries)


def named_sharding(mesh: Any, spec: P, memory_kind: str | None = None) -> Any:
    """The jax NamedSharding of a `P` on a mesh."""
    return jax.sharding.NamedSharding(mesh, jax_spec(spec), memory_kind=memory_kind)


def axes_named(fixture: Fixture) -> list[str]:
    """Every mesh axis the fixture's specs name, in the order they are met.

    Specs that can only be made with a mesh in hand are not asked.
    """
    found: dict[str, None] = {}
    for argument in fixture.args:
        specs = argument.specs
        if specs is not None and not isinstance(specs, Mapping):
            specs = load.resolve_reference(specs)
            if callable(specs) and not load.takes_mesh(specs, 0):
                specs = specs()
        if callable(specs):
            specs = None
        for spec in (argument.spec, *spec_leaves(specs).values()):
            found |= dict.fromkeys(P.make_spec(spec).axis_names())
    for spec in fixture.expected_specs().values():
        found |= dict.fromkeys(spec.axis_names())
    return list(found)


def make_arguments(
    fixture: Fixture, mesh: Any, maker: Callable[[Any, Any], Any] = load.value_of_reference
) -> list[HostArgument]:
    """The fixture's arguments and the spec of each of their arrays. `maker` makes one of its source and the mesh.

    Raises `Indivisible` when the mesh does not divide one, `ValueError` for specs that fit no leaf,
    and whatever the user's own code raises.
    """
    made = [make_one(argument, index, mesh, maker) for index, argument in enumerate(fixture.args)]
    sizes = dict(mesh.shape)
    for index, argument in enumerate(made):
        for path, where, leaf in tree.flatten_tree(argument.tree):
            spec = argument.specs.get(path)
            reason = None if spec is None else spec.explain_misfit(tuple(leaf.shape), sizes)
            if reason:
                raise Indivisible(f"args[{index}]{where}: {reason}")
    return made


def make_one(
    argument: Argument, index: int, mesh: Any, maker: Callable[[Any, Any], Any] = load.value_of_reference
) -> HostArgument:
    """One argument and the spec of each of its arrays."""
    if argument.shape is not None:
        value: Any = jax.ShapeDtypeStruct(argument.shape, np.dtype(jax.numpy.dtype(argument.dtype)))
    else:
        value = maker(argument.source, mesh)
    arrays = {
        path: leaf
        for path, _, leaf in tree.flatten_tree(value)
        if tree.is_array(leaf) or tree.is_abstract(leaf)
    }
    specs = argument.specs
    if specs is not None and not isinstance(specs, Mapping):
        specs = load.value_of_reference(specs, mesh)
    chosen: dict[str, P | None]
    if specs is not None:
        chosen = dict(choose_specs(specs, list(arrays), f"args[{index}] specs"))
    elif argument.spec is not None:
        chosen = dict.fromkeys(arrays, P.make_spec(argument.spec))
    else:
        chosen = {path: None if is_spread(leaf) else _described_spec(leaf) for path, leaf in arrays.items()}
    return HostArgument(value, chosen, argument.below, index)


def is_spread(leaf: Any) -> bool:
    """Return whether an array was already placed on several devices by the program."""
    return isinstance(leaf, jax.Array) and len(leaf.sharding.device_set) > 1


def _described_spec(leaf: Any) -> P:
    """The spec an abstract array was described with; replicated without one."""
    sharding = getattr(leaf, "sharding", None) if tree.is_abstract(leaf) else None
    return P.make_spec(sharding) if isinstance(sharding, jax.sharding.NamedSharding) else P()


def is_spec(value: Any) -> bool:
    """Return whether a value is a spec. None is one (replicated), as jax reads it in `in_shardings`."""
    return value is None or isinstance(value, P | jax.sharding.PartitionSpec | jax.sharding.Sharding)


def spec_leaves(specs: Any) -> dict[str, Any]:
    """Path -> spec of a tree of specs."""
    if specs is None:
        return {}
    leaves, _ = jax.tree_util.tree_flatten_with_path(specs, is_leaf=is_spec)
    return {path_text(keys): leaf for keys, leaf in leaves if is_spec(leaf)}


def choose_specs(specs: Any, paths: list[str], what: str) -> dict[str, P]:
    """The spec of each leaf path, from path globs or from a pytree of specs, which may be a prefix of
    the argument.

    Leaves that globs leave out are replicated. Raises `ValueError` for a spec that belongs to no leaf.
    """
    if isinstance(specs, Mapping) and all(isinstance(key, str) and is_spec(specs[key]) for key in specs):
        # Not by way of spec_leaves: jax sorts the keys of a dictionary, and the first glob is to count.
        for glob, nearest in unmatched_globs(specs, paths).items():
            raise ValueError(f"{what}: {nothing_matches(glob, nearest)}")
        picked = {path: select_glob(specs, path) for path in paths}
        return {path: P() if found is None else P.make_spec(found[1]) for path, found in picked.items()}
    flat = spec_leaves(specs)
    chosen: dict[str, P] = {}
    for path in paths:
        above = [prefix for prefix in flat if _is_prefix(prefix, path)]
        if not above:
            raise ValueError(f"{what}: the tree of specs has no spec for {path!r}")
        chosen[path] = P.make_spec(flat[max(above, key=len)])
    return chosen


def _is_prefix(prefix: str, path: str) -> bool:
    return not prefix or path.startswith(prefix + "/") or glob_matches(prefix, path)


def fill_arguments(host_arguments: list[HostArgument]) -> list[Any]:
    """The arguments as trees of host copies; arrays described only by their shape get their numbers here."""
    hosts = []
    for one in host_arguments:

        def to_host(leaf: Any, below: int = one.below, seed: int = one.seed) -> Any:
            return tree.to_host(tree.materialise_leaf(leaf, below, seed))

        hosts.append(tree.map_arrays(to_host, one.tree))
    return hosts


def place_arrays(hosts: list[Any], host_arguments: list[HostArgument], mesh: Any) -> list[Any]:
    """Host copies placed on a mesh by their specs."""
    placed = []
    for host, one in zip(hosts, host_arguments, strict=True):
        leaves, treedef = jax.tree_util.tree_flatten_with_path(host)
        put = []
        for (keys, leaf), original in zip(leaves, jax.tree_util.tree_leaves(one.tree), strict=True):
            path = path_text(keys)
            if path not in one.specs:
                put.append(leaf)
                continue
            spec = one.specs[path]
            put.append(
                tree.from_host(leaf, original.sharding if spec is None else named_sharding(mesh, spec))
            )
        placed.append(jax.tree_util.tree_unflatten(treedef, put))
    return placed


def describe_arguments(host_arguments: list[HostArgument], mesh: Any) -> list[Any]:
    """The arguments with every array described by shape, dtype and sharding only, to compile without
    memory.
    """
    described = []
    for one in host_arguments:
        leaves, treedef = jax.tree_util.tree_flatten_with_path(one.tree)
        out = []
        for keys, leaf in leaves:
            path = path_text(keys)
            if path in one.specs:
                spec = one.specs[path]
                sharding = leaf.sharding if spec is None else named_sharding(mesh, spec)
                leaf = jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=sharding)
            out.append(leaf)
        described.append(jax.tree_util.tree_unflatten(treedef, out))
    return described
