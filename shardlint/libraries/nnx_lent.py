"""flax NNX: what a jit does with the objects that it is given."""

from __future__ import annotations

from collections.abc import Callable

from shardlint.layouts.layout import Layout
from shardlint.layouts.values import (
    Call,
    DictValue,
    Instance,
    ListValue,
    Unknown,
    Value,
    join_values,
    map_tree,
)
from shardlint.libraries.nnx_objects import Object, Variable, inner_parts, is_object, reachable_objects


class Lent:
    """Objects given to a jit of NNX: the function sees their arrays traced; afterwards they hold what it left in them.

    All arrays come back as results of the jit. Those that the function does not write stay where they are committed.
    """

    def __init__(self, call: Call, trees: tuple[Value, ...], tracer: Callable[[Value], Value]) -> None:
        self.run, self.trees = call.interpreter, trees
        self.held: dict[tuple[int, str], tuple[Instance, Value, Value]] = {}
        self.free: Callable[[Value], Value] = lambda leaf: leaf
        self.active = not self.run.traced
        if not self.active:
            return
        for one in list(reachable_objects(self.run, trees)):
            own = self.run.changeable_copy(one)
            for name in _array_attributes(own):
                before = own.attributes[name]
                own.attributes[name] = shown = map_tree(tracer, before)
                self.held[id(own), name] = own, before, shown

    def restore_arrays(self, free: Callable[[Value], Value]) -> None:
        """Give the objects their arrays back, or what the function wrote into them."""
        self.free = free

        def restore_leaf(leaf: Value) -> Value:
            if not isinstance(leaf, Layout) or leaf.committed:
                return leaf
            return Layout(leaf.shape, leaf.dtype, varying=leaf.varying)

        for (_, name), (holder, before, shown) in self.held.items():
            now = holder.attributes.get(name, Unknown("an attribute"))
            if now is shown:
                holder.attributes[name] = map_tree(restore_leaf, before)
                continue
            left = map_tree(free, now)
            self.run.forget_changed(holder.others)
            sure = holder.region is self.run.region
            holder.attributes[name] = left if sure else join_values(before, left)
            self.run.changes += 1

    def finish_created(self, found: Value) -> None:
        """The same for what the function made."""
        for one in list(reachable_objects(self.run, (found, self.trees))) if self.active else ():
            own = self.run.changeable_copy(one)
            for name in _array_attributes(own):
                if (id(own), name) not in self.held:
                    own.attributes[name] = map_tree(self.free, own.attributes[name])
            for name, value in own.attributes.items():
                if isinstance(own, Object) and isinstance(value, ListValue | DictValue | tuple) and _has_array(value):
                    own.attributes[name] = Unknown("what a jit may have changed")


def _array_attributes(holder: Instance) -> list[str]:
    """The attributes of an object that are arrays themselves."""
    if isinstance(holder, Variable):
        return ["value"]
    return [name for name, one in holder.attributes.items() if isinstance(one, Layout) and not one.literal]


def _has_array(tree: Value) -> bool:
    """Return whether a list or dict holds an array outside of Variables."""
    return isinstance(tree, Layout) or any(
        _has_array(one) for _, one in inner_parts(tree) or () if not is_object(tree)
    )
