"""Checkpoints of orbax: where restored arrays lie.

Tried with orbax 0.12: what is restored to arrays lies where these lie, and is committed there, also to the one device
of an array that nothing placed. What is restored to descriptions without a sharding, or to nothing, lies as it was
saved. `PyTreeRestore` reads its `restore_args` alone.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

from shardlint.layouts.layout import Layout
from shardlint.layouts.values import (
    MISSING,
    AnyTree,
    Call,
    Instance,
    Native,
    Sharding,
    State,
    Unknown,
    Value,
    map_spread,
    map_tree,
)
from shardlint.libraries.jax_numpy import dtype_of, sizes_of
from shardlint.libraries.jax_sharding import place_array
from shardlint.libraries.registry import register_function
from shardlint.source.lazy import dataclass


@dataclass(eq=False)
class Request(Instance):
    """Arguments that say what to restore. `exact`: to what the arrays of its tree are, not as they were saved."""

    transparent = False
    target: Value = None
    exact: bool = True


@dataclass(eq=False)
class Checkpointer(Instance):
    """An Orbax checkpointer, which saves and restores. `exact` is that of `Request`."""

    transparent = False
    exact: bool = True

    def computed_attribute(self, name: str) -> Value:
        """A method."""
        return Native(name, partial(_METHODS[name], self)) if name in _METHODS else MISSING


@register_function("orbax.checkpoint.args StandardRestore PyTreeRestore")
def restore_request(call: Call) -> Value:
    """Return the target that a checkpoint is restored to."""
    exact = call.function_name == "StandardRestore"
    target, placements = call.argument_at(0, "item", None), call.argument_at(1, "restore_args", None)
    if not exact and placements is not None:
        return Request(None, target=_with_shapes(placements, target))
    return Request(None, target=target, exact=exact)


def _with_shapes(placements: Value, target: Value) -> Value:
    """Arrays as `restore_args` place them, with the shapes of a target where these say none."""
    if isinstance(placements, Unknown):
        return placements

    def fill_leaf(_: str, leaf: Value, like: Value) -> Value:
        if not isinstance(leaf, Layout) or not isinstance(like, Layout):
            return leaf
        filled = replace(leaf, shape=leaf.shape or like.shape, dtype=leaf.dtype or like.dtype)
        return filled if leaf.shape is not None or leaf.mesh is None else replace(filled, spec=None)

    return map_spread(fill_leaf, Unknown() if target is None else target, placements)


@register_function("orbax.checkpoint.checkpoint_utils construct_restore_args")
def restore_args(call: Call) -> Value:
    """Return a tree with a placement for each array: the given sharding, or the array's own."""
    tree, shardings = call.argument_at(0, "target"), call.argument_at(1, "sharding_tree", None)
    if isinstance(tree, Unknown) or shardings is None:
        return tree

    def place_leaf(path: str, leaf: Value, target: Value) -> Value:
        return place_array(call, leaf, target, call.place, path) if isinstance(leaf, Layout) else leaf

    return map_spread(place_leaf, shardings, tree)


@register_function(
    *(
        f"{home} ArrayRestoreArgs RestoreArgs"
        for home in ("orbax.checkpoint", "orbax.checkpoint.type_handlers")
    )
)
def restore_argument(call: Call) -> Value:
    """The same for one array."""
    shape, dtype = call.keywords.get("global_shape"), call.keywords.get("dtype")
    array = Layout(sizes_of(shape) if shape is not None else None, dtype_of(dtype) if dtype is not None else None)
    target = call.keywords.get("sharding")
    return place_array(call, array, target, call.place) if isinstance(target, Sharding) else array


@register_function("orbax.checkpoint.args StandardSave PyTreeSave ArraySave", "orbax.checkpoint SaveArgs")
def item_to_save(call: Call) -> Value:
    """Return the item to save."""
    return Instance(None, {"item": call.argument_at(0, "item", None)})


@register_function("orbax.checkpoint.args.Composite")
def composite_items(call: Call) -> Value:
    """Several items by their names."""
    return State(dict(call.keywords), call.open)


@register_function(
    "orbax.checkpoint StandardCheckpointer PyTreeCheckpointer CheckpointManager",
    "orbax.checkpoint AsyncCheckpointer Checkpointer",
)
def make_checkpointer(call: Call) -> Value:
    """An object that saves and restores; of handlers given to it nothing is known."""
    return Checkpointer(None, exact=call.function_name == "StandardCheckpointer")


def _restore_checkpoint(owner: Checkpointer, call: Call) -> Value:
    given = call.argument_at(-1, "args", None)
    if isinstance(given, Request):
        return _restore_tree(given.target, given.exact, call.place.line)
    if isinstance(given, State) and not given.open:
        asked = {name: one for name, one in given.entries.items() if isinstance(one, Request)}
        line = call.place.line
        return State({name: _restore_tree(one.target, one.exact, line) for name, one in asked.items()}, True)
    if given is not None or call.open:
        return AnyTree(Unknown())
    target = call.argument_at(1, "target", call.argument_at(-1, "item", call.argument_at(-1, "items", None)))
    placements = call.keywords.get("restore_args")
    if placements is not None:
        return _restore_tree(_with_shapes(placements, target), True, call.place.line)
    return _restore_tree(target, owner.exact, call.place.line)


def _restore_tree(target: Value, exact: bool, line: int) -> Value:
    if target is None or isinstance(target, Unknown):
        return AnyTree(Layout(committed=True, host=False, memory="device", varying=frozenset()))
    return map_tree(lambda leaf: _restore_leaf(leaf, exact, line), target)


def _restore_leaf(leaf: Value, exact: bool, line: int) -> Value:
    """A restored array, by what it is restored to."""
    if not isinstance(leaf, Layout):
        return Unknown("what was saved")
    if leaf.host:
        return leaf
    found = Layout(
        leaf.shape, leaf.dtype, committed=True, host=False, varying=frozenset(), memory=leaf.memory, made=line
    )
    if not exact or leaf.committed is None:
        return found
    if leaf.mesh is not None:
        return replace(found, mesh=leaf.mesh, spec=leaf.spec)
    if leaf.device is None and leaf.committed:
        return found
    return replace(found, device=leaf.device or "device 0")


_METHODS: dict[str, Callable[[Checkpointer, Call], Value]] = {
    "restore": _restore_checkpoint,
    **dict.fromkeys(("save", "wait_until_finished", "close"), lambda owner, call: None),
}
