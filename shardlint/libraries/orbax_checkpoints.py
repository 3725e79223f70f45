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
from shardlint.layouts.values import MISSING, AnyTree, Call, Instance, Native, Unknown, Value, map_tree
from shardlint.libraries.registry import function
from shardlint.source.lazy import dataclass


@dataclass(eq=False)
class Request(Instance):
    """Arguments that say what to restore. `exact`: to what the arrays of its tree are, not as they were saved."""

    transparent = False
    target: Value = None
    exact: bool = True


@dataclass(eq=False)
class Checkpointer(Instance):
    """What saves and restores. `exact` as of `Request`."""

    transparent = False
    exact: bool = True

    def named(self, name: str) -> Value:
        """A method."""
        return Native(name, partial(_METHODS[name], self)) if name in _METHODS else MISSING


@function("orbax.checkpoint.args StandardRestore PyTreeRestore")
def request(call: Call) -> Value:
    """What a checkpoint is restored to."""
    exact = call.function_name == "StandardRestore"
    return Request(None, target=call.get(0, "item", None), exact=exact)


@function(
    "orbax.checkpoint StandardCheckpointer PyTreeCheckpointer CheckpointManager",
    "orbax.checkpoint AsyncCheckpointer Checkpointer",
)
def checkpointer(call: Call) -> Value:
    """An object that saves and restores; of handlers given to it nothing is known."""
    return Checkpointer(None, exact=call.function_name == "StandardCheckpointer")


def _restore(owner: Checkpointer, call: Call) -> Value:
    given = call.get(-1, "args", None)
    if isinstance(given, Request):
        return _restored(given.target, given.exact, call.place.line)
    if given is not None or call.open:
        return AnyTree(Unknown())
    target = call.get(1, "target", call.get(-1, "item", call.get(-1, "items", None)))
    return _restored(target, owner.exact, call.place.line)


def _restored(target: Value, exact: bool, line: int) -> Value:
    if target is None or isinstance(target, Unknown):
        return AnyTree(Layout(committed=True, host=False, memory="device", varying=frozenset()))
    return map_tree(lambda leaf: _placed(leaf, exact, line), target)


def _placed(leaf: Value, exact: bool, line: int) -> Value:
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
    "restore": _restore,
    **dict.fromkeys(("save", "wait_until_finished", "close"), lambda owner, call: None),
}
