"""Meshes, specs and shardings as far as the text tells them."""

from __future__ import annotations

from typing import Literal

from shardlint.model import api
from shardlint.model.evaluator import sequence_parts
from shardlint.model.shapes import shape_of
from shardlint.model.values import (
    Api,
    CallArguments,
    CallResult,
    Constant,
    Items,
    Place,
    Unknown,
    Value,
    Values,
)
from shardlint.source.lazy import dataclass

MESH_MAKERS = ("jax.sharding.Mesh", "jax.make_mesh", "jax.sharding.AbstractMesh", api.USER_MESH)
AxisTypes = Literal["auto", "explicit", "manual", "mixed", "default", "unknown"]


@dataclass(frozen=True)
class Mesh:
    """A mesh: its axis names in order, sizes where known, and the type of its axes.

    `axis_names` is None when the text does not tell them all. `axis_types` is "default" when the call names none.
    """

    api: str
    axis_names: tuple[str, ...] | None
    sizes: tuple[int | None, ...]
    axis_types: AxisTypes
    place: Place


@dataclass(frozen=True)
class SpecEntry:
    """One entry of a PartitionSpec: the mesh axes that shard a dimension.

    `axes` is empty for None; `known` is False where the entry is computed; `unconstrained` for P.UNCONSTRAINED.
    """

    axes: tuple[str, ...]
    known: bool
    unconstrained: bool
    value: Value
    place: Place | None


@dataclass(frozen=True)
class Spec:
    """A PartitionSpec: entries, and whether there may be more than are written (`P(*axes)`)."""

    entries: tuple[SpecEntry, ...]
    open: bool
    place: Place

    @property
    def splits_nothing(self) -> bool:
        """True if it is known to be `P()`, or to hold None alone."""
        return not self.open and not any(one.axes or not one.known for one in self.entries)


def mesh_of(value: Value, evaluator: Values) -> Mesh | None:
    """The mesh a value is, or None where it is not known to be one."""
    if not isinstance(value, CallResult) or value.api not in MESH_MAKERS or value.call is None:
        return None
    call = value.call
    if value.api == api.USER_MESH:
        axes = evaluator.own.meshes[value.by.written] if isinstance(value.by, Api) else ()
        return Mesh(value.api, axes, (None,) * len(axes), "unknown", call.place)
    signature = api.SIGNATURES[value.api]
    names_at = call.argument_for("axis_names", signature)
    names = _axis_names(evaluator.value(names_at, call.environment)) if names_at else None
    sizes: tuple[int | None, ...] = (None,) * len(names or ())
    if value.api != "jax.sharding.Mesh":
        sizes_at = call.argument_for(signature[0], signature) or call.keywords.get("axis_sizes")
        shape_value = evaluator.value(sizes_at, call.environment) if sizes_at else Unknown()
        if (
            isinstance(shape_value, Items)
            and not shape_value.open
            and len(shape_value.items) == len(names or ())
        ):
            sizes = tuple(_integer_value(item) for item in shape_value.items)
    else:
        devices = call.argument_for("devices", signature)
        shape = shape_of(evaluator, devices, call.environment) if devices else None
        if names is not None and shape is not None and len(shape) == len(names):
            sizes = shape
    return Mesh(value.api, names, sizes, _axis_types(call, signature, evaluator), call.place)


def _integer_value(value: Value) -> int | None:
    if isinstance(value, Constant) and isinstance(value.value, int) and not isinstance(value.value, bool):
        return value.value
    return None


def _axis_names(value: Value) -> tuple[str, ...] | None:
    if isinstance(value, Constant) and isinstance(value.value, str):
        return (value.value,)  # Mesh(devices, "data") names one axis
    if isinstance(value, Items) and not value.open:
        names = [
            item.value for item in value.items if isinstance(item, Constant) and isinstance(item.value, str)
        ]
        if len(names) == len(value.items):
            return tuple(names)
    return None


def _axis_types(call: CallArguments, signature: tuple[str, ...], evaluator: Values) -> AxisTypes:
    place = call.argument_for("axis_types", signature)
    if place is None:
        return "unknown" if call.open_keywords else "default"
    value = evaluator.value(place, call.environment)
    if value == Constant(None):
        return "default"
    if not isinstance(value, Items) or (value.open and (value.items or not value.repeated)):
        return "unknown"
    kinds = {
        item.name.rpartition(".")[2].lower() if isinstance(item, Api) else "unknown"
        for item in value.items or value.repeated
    }
    if kinds <= {"auto"} and kinds:
        return "auto"
    if kinds <= {"explicit"} and kinds:
        return "explicit"
    if kinds <= {"manual"} and kinds:
        return "manual"
    return "unknown" if "unknown" in kinds else "mixed"


def spec_of(value: Value, evaluator: Values) -> Spec | None:
    """The PartitionSpec a value is, or None where it is not known to be one."""
    if not isinstance(value, CallResult) or value.api != "jax.sharding.PartitionSpec" or value.call is None:
        return None
    call = value.call
    entries = tuple(spec_entry(evaluator.value(place, call.environment), place) for place in call.positional)
    more = sequence_parts.evaluate_star_arguments(evaluator, call) if call.open_positional else ()
    entries += tuple(spec_entry(one) for one in more or ())
    return Spec(entries, more is None or call.open_keywords, call.place)


def spec_entry(value: Value, place: Place | None = None) -> SpecEntry:
    """One entry of a spec, from its value."""
    if isinstance(value, Constant):
        if value.value is None:
            return SpecEntry((), True, False, value, place)
        if isinstance(value.value, str):
            return SpecEntry((value.value,), True, False, value, place)
    if isinstance(value, Api) and value.name.endswith(".UNCONSTRAINED"):
        return SpecEntry((), True, True, value, place)
    if isinstance(value, Items) and value.kind in ("tuple", "list"):
        axes = tuple(
            item.value for item in value.items if isinstance(item, Constant) and isinstance(item.value, str)
        )
        # A spec entry may also hold None or nothing inside a tuple; only names matter.
        whole = not value.open and all(isinstance(item, Constant) for item in value.items)
        return SpecEntry(axes, whole, False, value, place)
    return SpecEntry((), False, False, value, place)


def sharding_parts(value: Value, evaluator: Values) -> tuple[Value, Value] | None:
    """Mesh and spec of a NamedSharding value."""
    if not isinstance(value, CallResult) or value.api != "jax.sharding.NamedSharding" or value.call is None:
        return None
    signature = api.SIGNATURES[value.api]
    mesh, spec = value.call.argument_for("mesh", signature), value.call.argument_for("spec", signature)
    if mesh is None or spec is None:
        return None
    return evaluator.value(mesh, value.call.environment), evaluator.value(spec, value.call.environment)
