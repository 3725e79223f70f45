"""Where arrays are: what a placement says, which shardings split, and which values are spread over a mesh.

The one place that decides it. Rules ask it through `Location.shardings`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Literal

from shardlint.config.targets import Targets
from shardlint.model import api, signatures
from shardlint.model.evaluator.assumed_values import Assuming
from shardlint.model.evaluator.trees import MAPS
from shardlint.model.mesh.meshes import Mesh, Spec, mesh_of, sharding_parts, spec_of
from shardlint.model.values import (
    Api,
    CallArguments,
    CallResult,
    Choice,
    ClassValue,
    Function,
    Items,
    Leaves,
    Place,
    Table,
    Transformed,
    Unknown,
    Value,
    options,
)

if TYPE_CHECKING:
    from shardlint.model import Program

SHARDINGS = (
    "jax.sharding.NamedSharding",
    "jax.sharding.PositionalSharding",
    "jax.sharding.GSPMDSharding",
    "jax.sharding.SingleDeviceSharding",
    "jax.sharding.PmapSharding",
)
PLACING = {
    "jax.device_put": "device",
    "jax.lax.with_sharding_constraint": "shardings",
    "jax.reshard": "out_shardings",
    "equinox.filter_shard": "device_or_shardings",
}
"""Functions that place what they are given, and the parameter that says where."""
CONSTRAINTS = {
    "jax.lax.with_sharding_constraint": "shardings",
    "equinox.filter_shard": "device_or_shardings",
}
"""Constraints, and the parameter that holds their shardings."""
JITS = (*signatures.JITS, "equinox.filter_jit")
EXPLICIT_SINCE = {"jax.make_mesh": ">=0.9", "jax.sharding.AbstractMesh": ">=0.12"}
"""Since which jax a mesh made without axis_types has Explicit axes."""
_MADE_ON = {"jax.make_array_from_callback": 1, "jax.make_array_from_process_local_data": 0}
_PARTS = ("flax.nnx.state", "equinox.filter", "flax.core.freeze", "flax.core.unfreeze")
"""What gives the arrays of a model or state as they are."""
_ANNOTATING = ("with_partitioning", "with_metadata", "sharding_names", "out_sharding")
_DEPTH = 6


class Shardings:
    """Questions about shardings and placed values, for one program on the releases of its project."""

    def __init__(self, program: Program, targets: Targets) -> None:
        self._program = program
        self._evaluator = program.evaluator
        self._targets = targets
        # On one way to a place, of several values one that fits is enough.
        self._assuming = isinstance(program.evaluator, Assuming)

    def placement_argument(self, value: CallResult) -> Value:
        """Return the placement argument of the call that made a value."""
        if value.call is None:
            return Unknown()
        place: Place | None = None
        if value.api in PLACING:
            place = value.call.argument_for(PLACING[value.api], api.SIGNATURES.get(value.api, ()))
        elif value.api in _MADE_ON:
            index = _MADE_ON[value.api]
            place = value.call.keywords.get("sharding")
            if place is None and index < len(value.call.positional):
                place = value.call.positional[index]
        elif isinstance(value.by, Transformed) and value.by.api.name in JITS and value.by.call is not None:
            place = value.by.call.keywords.get("out_shardings")
            if place is not None:
                return self._evaluator.value(place, value.by.call.environment)
        if place is None:
            return Unknown()
        return self._evaluator.value(place, value.call.environment)

    def mesh_and_spec(self, value: Value) -> tuple[Mesh | None, Spec] | None:
        """Mesh and spec of a NamedSharding of which the spec is known; the mesh may not be."""
        parts = sharding_parts(value, self._evaluator)
        spec = spec_of(parts[1], self._evaluator) if parts is not None else None
        if parts is None or spec is None:
            return None
        return mesh_of(parts[0], self._evaluator), spec

    def meshes(self, value: Value) -> list[Mesh] | None:
        """All meshes a value can be, if the text tells them and the names of their axes."""
        found = [mesh_of(option, self._evaluator) for option in options(self._program.followed(value))]
        known = [mesh for mesh in found if mesh is not None and mesh.axis_names is not None]
        return known if len(known) == len(found) else None

    def is_explicit_by_default(self, maker: str) -> bool:
        """Return whether a mesh that `maker` makes without axis_types has Explicit axes on the project's release."""
        since = EXPLICIT_SINCE.get(maker)
        return since is not None and self._targets.is_release_in("jax", since)

    def axis_types(self, mesh: Mesh) -> Literal["auto", "explicit", "other"]:
        """The type all axes of a mesh have on the project's release, if it is one and known."""
        if mesh.axis_types == "default":
            return "explicit" if self.is_explicit_by_default(mesh.api) else "auto"
        return mesh.axis_types if mesh.axis_types in ("auto", "explicit") else "other"

    def is_on_auto_mesh(self, value: Value) -> bool:
        """Return whether a value is surely a NamedSharding over a mesh whose axes are Auto."""
        for option in options(value):
            parts = sharding_parts(option, self._evaluator)
            mesh = mesh_of(parts[0], self._evaluator) if parts is not None else None
            if mesh is None or self.axis_types(mesh) != "auto":
                return False
        return True

    def shards(self, value: Value, auto: bool = False) -> bool:
        """Return whether a sharding, or every one of a tree of shardings, surely splits over an axis of a mesh.

        `auto` asks for a mesh whose axes are surely Auto too.
        """
        found = literal_leaves(self._evaluator.trees.expand_tree_map(value))
        enough = any if self._assuming else all
        return bool(found) and enough(self._is_splitting(leaf, auto) for leaf in found)

    def _is_splitting(self, value: Value, auto: bool) -> bool:
        parts = sharding_parts(value, self._evaluator)
        if parts is None:
            return False
        specs = [spec_of(option, self._evaluator) for option in options(parts[1])]
        enough = any if self._assuming else all
        if not enough(self._names_an_axis(spec) for spec in specs):
            return False
        mesh = mesh_of(parts[0], self._evaluator)
        return not auto or (mesh is not None and self.axis_types(mesh) == "auto")

    def _names_an_axis(self, spec: Spec | None) -> bool:
        if spec is None:
            return False
        computed = self._assuming and spec.open  # `P(*axes)`
        return computed or any(entry.axes for entry in spec.entries)

    def spread(self, value: Value, auto: bool = False, depth: int = 0) -> bool:
        """Return whether a value is surely placed over a mesh: an array, or all arrays of a tree."""
        if depth > _DEPTH:
            return False
        match value:
            case Items(items=items, open=False):
                return bool(items) and all(self.spread(item, auto, depth + 1) for item in items)
            case Table(entries=entries, open=False):
                return bool(entries) and all(self.spread(item, auto, depth + 1) for _, item in entries)
        found = options(value)
        if len(found) > 1:
            enough = any if self._assuming else all  # what a loop makes of it stays where it is
            return enough(self.spread(option, auto, depth + 1) for option in found)
        if isinstance(value, Leaves):
            return self.spread(value.of, auto, depth + 1)
        if not isinstance(value, CallResult) or value.call is None:
            return False
        if value.api == "jax.tree.map" and value.call.positional:
            return self.spread(self.evaluate_mapped_leaf(value.call), auto, depth + 1)
        return self.shards(self.placement_argument(value), auto)

    def may_be_spread(self, value: Value, depth: int = 0) -> bool:
        """Return whether some array of a tree is placed by a sharding that may shard it. That is weaker than
        `spread`.
        """
        return _is_any_leaf(value, self._is_made_spread, depth)

    def _is_made_spread(self, value: Value, depth: int) -> bool:
        call = value.call if isinstance(value, CallResult) else None
        if not isinstance(value, CallResult) or call is None:
            return False
        if isinstance(value.by, ClassValue):
            return self._is_nnx(value.by) and self._is_placed_at_creation(value.by)
        if value.api in MAPS:
            return self.may_be_spread(self._evaluator.trees.expand_tree_map(value), depth + 1)
        if value.api in _PARTS and call.positional:
            whole = self._program.followed(self._evaluator.value(call.positional[0], call.environment))
            made = [one.by for one in options(whole) if isinstance(one, CallResult) and isinstance(one.by, ClassValue)]
            return any(map(self._is_placed_at_creation, made)) or self.may_be_spread(whole, depth + 1)
        return self.may_be_split(self.placement_argument(value))

    def _is_nnx(self, cls: ClassValue) -> bool:
        """Return whether a class is one of NNX modules."""
        return any(
            isinstance(one, Api) and one.name == "flax.nnx.Module"
            for base in self._evaluator.list_bases(cls)
            for one in options(base)
        )

    def _is_placed_at_creation(self, cls: ClassValue) -> bool:
        """Return whether variables of an NNX module are placed when they are made. flax does it if a mesh is set."""
        file = cls.place.file
        annotated = file.contains_text("nnx") and any(file.contains_text(text) for text in _ANNOTATING)
        return (
            annotated
            and self._targets.is_release_in("flax", ">=0.12")
            and self._program.project.is_named_anywhere(file.path, "set_mesh")
        )

    def may_be_split(self, value: Value, depth: int = 0) -> bool:
        """Return whether some sharding of a tree is a NamedSharding that is not surely replicated."""
        return _is_any_leaf(value, self._may_split_value, depth)

    def _may_split_value(self, value: Value, depth: int) -> bool:
        if isinstance(value, CallResult) and value.api in MAPS:
            return self.may_be_split(self._evaluator.trees.expand_tree_map(value), depth + 1)
        parts = sharding_parts(value, self._evaluator)
        if parts is None:
            return False
        specs = [spec_of(one, self._evaluator) for one in options(parts[1])]
        return any(spec is None or not spec.splits_nothing for spec in specs)

    def evaluate_mapped_leaf(self, call: CallArguments) -> Value:
        """Return the result of the function of a `tree.map` for a leaf."""
        function = self._evaluator.value(call.positional[0], call.environment)
        if isinstance(function, Function):
            return self._evaluator.apply_callee(function, CallArguments(call.place, (), {}, open_positional=True))
        return Unknown()


def _is_any_leaf(value: Value, asked: Callable[[Value, int], bool], depth: int) -> bool:
    """Return whether a predicate holds for some leaf of a tree. The predicate gets the leaf and its depth.

    Unlike `leaves` it also looks at what a list repeats.
    """
    if depth > _DEPTH:
        return False
    match value:
        case Choice(options=inside):
            parts: Iterable[Value] = inside
        case Items(items=items, repeated=repeated):
            parts = (*items, *repeated)
        case Table(entries=entries):
            parts = (one for _, one in entries)
        case Leaves(of=of):
            parts = (of,)
        case _:
            return asked(value, depth)
    return any(_is_any_leaf(one, asked, depth + 1) for one in parts)


def is_sharding(value: Value) -> bool:
    """Return whether every possibility is a sharding object."""
    return all(isinstance(option, CallResult) and option.api in SHARDINGS for option in options(value))


def is_spec(value: Value) -> bool:
    """Return whether every possibility is a PartitionSpec."""
    return all(
        isinstance(option, CallResult) and option.api == "jax.sharding.PartitionSpec" for option in options(value)
    )


def literal_leaves(value: Value) -> list[Value]:
    """Leaves of a literal pytree of values (tuples, lists, dicts)."""
    if isinstance(value, Items):
        return [leaf for item in value.items for leaf in literal_leaves(item)]
    if isinstance(value, Table):
        return [leaf for _, item in value.entries for leaf in literal_leaves(item)]
    if isinstance(value, Leaves):
        return literal_leaves(value.of)
    return [
        leaf
        for option in options(value)
        for leaf in ([option] if not isinstance(option, Items | Table | Leaves) else literal_leaves(option))
    ]
