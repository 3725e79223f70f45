"""Boxes of flax linen, which name axes for variables, and what reads them: constraints, specs, shardings, rules.

Facts of flax, each tried: a box is metadata alone until it is unboxed. `unbox` constrains the array where a mesh is in
context or in the box, and gives it as it lies elsewhere. Since flax 0.12.2 the mesh of `with mesh:` does not count.
Logical names are translated by rules, those of the box or those in context; without any rules nothing is constrained.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from shardlint.layouts.layout import Layout, Mesh
from shardlint.layouts.values import (
    AnyTree,
    Call,
    DictValue,
    Instance,
    Library,
    ListValue,
    Native,
    PartitionSpec,
    Sharding,
    Unknown,
    Value,
    known_items,
    map_spread,
    rebuild_tree,
    tree_children,
)
from shardlint.libraries.contexts import Entered, set_context
from shardlint.libraries.jax_sharding import check_axes
from shardlint.libraries.registry import register_function
from shardlint.model.values import Place
from shardlint.source.lazy import dataclass

# `unbox` and constraints read only the mesh of `jax.set_mesh` since then.
ONLY_SET_MESH = (0, 12, 2)
RULES = "logical axis rules of flax"
# Where functions of boxes are: canonical names keep the module that a program names.
_HOMES = ("flax.linen", "flax.core.meta", "flax.linen.meta", "flax.core")
_NO_RULE = object()


@dataclass(eq=False)
class Box(Instance):
    """A variable with its names: `nn.Partitioned`, or `nn.LogicallyPartitioned` where they are logical."""

    names: Value = None
    mesh: Value = None
    logical: bool = False
    rules: Value = None
    place: Place | None = None
    """Where it was asked for."""

    def with_parts(self, attributes: dict[str, Value]) -> Instance:
        """The same box around something else."""
        names = attributes.pop("names", self.names)
        return Box(
            None,
            attributes,
            names=names,
            mesh=self.mesh,
            logical=self.logical,
            rules=self.rules,
            place=self.place,
        )

    def is_like(self, other: Instance) -> bool:
        """Return whether both name the same axes."""
        return isinstance(other, Box) and (self.names, self.mesh, self.logical, self.rules) == (
            other.names,
            other.mesh,
            other.logical,
            other.rules,
        )

    def library_classes(self) -> frozenset[str]:
        """The classes that it is of."""
        kinds = ["Partitioned", "meta.Partitioned", "meta.AxisMetadata"]
        kinds += ["LogicallyPartitioned"] if self.logical else []
        return frozenset(f"{home}.{kind}" for home in ("flax.linen", "flax.core") for kind in kinds)

    @property
    def boxed_value(self) -> Value:
        """Return the value in the box."""
        return self.attributes["value"]

    @property
    def names_as_spec(self) -> PartitionSpec:
        """Its names as a spec."""
        items = known_items(self.names)
        return PartitionSpec((), True) if items is None else PartitionSpec(items)


def map_boxes(
    change: Callable[[Box], Value], tree: Value, other: Callable[[Value], Value] = lambda leaf: leaf
) -> Value:
    """A tree with functions applied to its boxes, and to the leaves that are in none."""
    if isinstance(tree, Box):
        return change(tree)
    parts = tree_children(tree)
    if parts is not None:
        return rebuild_tree(tree, [map_boxes(change, part, other) for _, part in parts])
    if isinstance(tree, AnyTree | Unknown):
        return AnyTree(Unknown())
    return None if tree is None else other(tree)


def _make_box(call: Call, value: Value, logical: bool, first: int) -> Box:
    names, mesh, rules = (
        call.argument_at(first, "names"),
        call.argument_at(first + 1, "mesh", None),
        call.argument_at(first + 2, "rules", None),
    )
    given = rules if logical else None
    return Box(None, {"value": value}, names=names, mesh=mesh, logical=logical, rules=given, place=call.place)


@register_function(*(f"{home} Partitioned LogicallyPartitioned" for home in _HOMES))
def make_box(call: Call) -> Value:
    """A box as a program makes it."""
    return _make_box(call, call.argument_at(0, "value"), "Logically" in call.name, 1)


@register_function(*(f"{home} with_partitioning with_logical_partitioning" for home in _HOMES))
def with_partitioning(call: Call) -> Value:
    """An initializer whose results are in boxes."""
    given, logical = call.argument_at(0, "fn"), "logical" in call.name

    def initialize_boxed(again: Call) -> Value:
        made = again.interpreter.call_value(given, again.args, again.keywords, again.place, again.open)
        return _make_box(call, made, logical, 1)

    return Native(call.name, initialize_boxed)


# the mesh and the rules in context


def find_mesh_of_flax(call: Call) -> Mesh | Unknown | None:
    """The mesh that flax finds; None where there surely is none."""
    run = call.interpreter
    if run.axes:
        return Unknown("a mesh with manual axes")
    if run.mesh_known:
        return run.mesh
    old = run.releases.get("flax", (99,)) < ONLY_SET_MESH
    return None if run.legacy is not None and not old else Unknown("the mesh in context")


@register_function(
    "flax.linen logical_axis_rules axis_rules set_logical_axis_rules",
    *(f"{home} logical_axis_rules set_logical_axis_rules" for home in ("flax.nnx", "flax.core.spmd")),
)
def logical_axis_rules(call: Call) -> Value:
    """Rules in context, for a block or for all that follows."""
    sets = {RULES: call.argument_at(0, "rules")}
    if call.function_name.startswith("set"):
        set_context(call.interpreter, sets)
        return None
    return Entered(call.name, sets=sets)


@register_function("flax.linen get_logical_axis_rules", "flax.nnx get_logical_axis_rules")
def get_logical_axis_rules(call: Call) -> Value:
    """The rules in context."""
    return call.interpreter.contexts.get(RULES, () if call.interpreter.rooted else Unknown("rules"))


def _rules_in_force(call: Call, value: Value) -> list[tuple[Value, Value]] | None:
    """The pairs of the rules that hold; None where they are not known."""
    given = get_logical_axis_rules(call) if value is None else value
    items = known_items(given)
    pairs = [known_items(one) for one in items] if items is not None else [None]
    if any(one is None or len(one) != 2 or isinstance(one[0], Unknown) for one in pairs):
        return None
    return [(one[0], one[1]) for one in pairs if one is not None]


def _translate_names(names: PartitionSpec, rules: list[tuple[Value, Value]]) -> PartitionSpec | None:
    """A spec of logical names as one of mesh axes; None where flax raises, or it is not known.

    A rule takes the first dimension of its name if that is free, and all its mesh axes are.
    """
    if names.open or any(isinstance(one, Unknown) for one in names.entries):
        return None
    texts = [one for one in names.entries if isinstance(one, str)]
    if len(texts) != len(set(texts)):
        return None
    found: list[Value] = [_NO_RULE if isinstance(one, str) else one for one in names.entries]
    for name, target in rules:
        axes = PartitionSpec((_plain_target(target),)).axes_of_entries()[0]
        if name not in texts:
            continue
        place = names.entries.index(name)
        if axes is None:
            return None
        taken = {
            axis
            for one in found
            if one is not _NO_RULE
            for axis in PartitionSpec((_plain_target(one),)).axes_of_entries()[0] or ()
        }
        if found[place] is _NO_RULE and not taken & set(axes):
            found[place] = _plain_target(target)
    return PartitionSpec(tuple(None if one is _NO_RULE else one for one in found))


def _plain_target(target: Value) -> Value:
    items = known_items(target) if isinstance(target, ListValue) else None
    return target if items is None else items


@register_function("flax.linen logical_to_mesh_axes")
def logical_to_mesh_axes(call: Call) -> Value:
    """The spec of mesh axes of logical names."""
    names, rules = call.argument_at(0, "array_dim_names"), _rules_in_force(call, call.argument_at(1, "rules", None))
    if names is None:
        return None
    items = names.entries if isinstance(names, PartitionSpec) else known_items(names)
    found = _translate_names(PartitionSpec(items), rules) if items is not None and rules is not None else None
    return PartitionSpec((), True) if found is None else found


@register_function("flax.linen logical_to_mesh logical_to_mesh_sharding")
def logical_to_mesh(call: Call) -> Value:
    """The specs of a tree as specs of mesh axes, or as shardings of a mesh."""
    sharded = call.name.endswith("sharding")
    mesh, rules = (
        call.argument_at(1, "mesh", None),
        _rules_in_force(call, call.argument_at(2 if sharded else 1, "rules", None)),
    )

    def change_spec(spec: Value) -> Value:
        if not isinstance(spec, PartitionSpec):
            return Unknown("a spec")
        found = (_translate_names(spec, rules) if rules is not None else None) or PartitionSpec((), True)
        return _make_sharding(call, mesh, found) if sharded else found

    return map_boxes(lambda one: Unknown("a spec"), call.argument_at(0, "tree"), change_spec)


# specs and shardings of boxes


def _make_sharding(call: Call, mesh: Value, spec: PartitionSpec) -> Value:
    if isinstance(mesh, Mesh) and not check_axes(call, mesh, spec):
        return Unknown("what raises")
    return Sharding(mesh if isinstance(mesh, Mesh) else Unknown("a mesh"), spec)


def _spec_without_box(leaf: Value) -> PartitionSpec:
    """The spec of what is in no box: replicated, if it is an array."""
    return PartitionSpec(()) if isinstance(leaf, Layout) else PartitionSpec((), True)


@register_function(*(f"{home} get_partition_spec" for home in _HOMES))
def get_partition_spec(call: Call) -> Value:
    """The names of boxes as specs; what is in none is replicated."""
    return map_boxes(lambda one: one.names_as_spec, call.argument_at(0, "tree"), _spec_without_box)


@register_function(*(f"{home} get_sharding" for home in _HOMES))
def get_sharding(call: Call) -> Value:
    """The names of boxes as shardings of a mesh."""
    mesh = call.argument_at(1, "mesh")
    return map_boxes(
        lambda one: _make_sharding(call, mesh, one.names_as_spec),
        call.argument_at(0, "tree"),
        lambda leaf: _make_sharding(call, mesh, _spec_without_box(leaf)),
    )


@register_function(*(f"flax.{home}.Partitioned get_partition_spec get_sharding unbox" for home in ("linen", "core")))
def call_box_method(call: Call) -> Value:
    """Methods of a box."""
    held = call.args[0]
    if not isinstance(held, Box):
        return Unknown("of a box")
    if call.name.endswith("get_partition_spec"):
        return held.names_as_spec
    if call.name.endswith("get_sharding"):
        return _make_sharding(call, call.argument_at(1, "mesh"), held.names_as_spec)
    return unbox_value(call, held) if call.argument_at(1, "apply_constraint", True) is True else held.boxed_value


# what takes arrays out of boxes, and constraints


@register_function(*(f"{home} unbox" for home in _HOMES))
def unbox_tree(call: Call) -> Value:
    """The arrays of a tree without their boxes."""
    return map_boxes(lambda one: unbox_value(call, one), call.argument_at(0, "tree"))


def unbox_value(call: Call, box: Box) -> Value:
    """Return the value in a box, constrained to its names if flax finds a mesh."""
    value = (
        unbox_tree(replace(call, args=(box.boxed_value,), keywords={}))
        if isinstance(box.boxed_value, Box)
        else box.boxed_value
    )
    if not isinstance(value, Layout):
        return value
    mesh = find_mesh_of_flax(call) if box.mesh is None else box.mesh
    if mesh is None:
        return _note_whole(call, box, value)
    spec: PartitionSpec | None = box.names_as_spec
    if box.logical and spec is not None:
        rules = _rules_in_force(call, box.rules)
        if rules == []:
            return value
        spec = _translate_names(spec, rules) if rules is not None else None
    return _constrain_array(call, value, mesh, spec, box.place)


def _constrain_array(
    call: Call, value: Value, mesh: Value, spec: PartitionSpec | None, where: Place | None = None
) -> Value:
    """An array constrained to a spec over a mesh; of one that is not known, what the array has without placement."""
    if not isinstance(mesh, Mesh) or spec is None or spec.open:
        return _without_placement(value)
    place = call.function_place if where is None else where
    return call.interpreter.call_value(
        Library("jax.lax.with_sharding_constraint"), (value, Sharding(mesh, spec)), {}, place
    )


def _without_placement(value: Value) -> Value:
    if not isinstance(value, Layout):
        return value
    keeps = value.is_explicit
    return replace(
        value,
        mesh=value.mesh if keeps else None,
        spec=value.spec if keeps else None,
        device=None,
        committed=None,
        built=None,
    )


def _note_whole(call: Call, box: Box, value: Layout) -> Value:
    """An array that leaves its box unconstrained; noted where it lies whole, though the box names axes for it."""
    run = call.interpreter
    axes = tuple(axis for one in box.names_as_spec.axes_of_entries() for axis in one or ())
    copied = value.mesh is not None and value.spec is not None and not any(value.spec)
    alone = value.mesh is None and value.committed is False and not value.host and value.device is None
    whole = alone or copied
    if call.function_name != "unbox" or not run.rooted or run.traced or box.logical or not axes or not whole:
        return value
    where = "replicated" if copied else "on one device"
    run.note_unplaced(call.place, axes, array=str(value), named=", ".join(axes), where=where)
    return replace(value, unplaced=call.place)


@register_function("flax.linen with_logical_constraint with_sharding_constraint")
def with_logical_constraint(call: Call) -> Value:
    """Constraints by logical names: nothing without rules, or without a mesh."""
    tree, names = call.argument_at(0, "x"), call.argument_at(1, "logical_axis_resources")
    rules, mesh = _rules_in_force(call, call.argument_at(2, "rules", None)), call.argument_at(3, "mesh", None)
    mesh = find_mesh_of_flax(call) if mesh is None else mesh
    if rules == [] or names is None or mesh is None:
        return tree
    items = names.entries if isinstance(names, PartitionSpec) else known_items(names)
    if not isinstance(tree, Layout) or items is None or rules is None:
        return map_spread(lambda path, leaf, said: _without_placement(leaf), None, tree)
    spec = _translate_names(PartitionSpec(items), rules)
    fallback = call.keywords.get("fallback")
    ruled = {name for name, _ in rules}
    if fallback is not None and any(isinstance(one, str) and one not in ruled for one in items):
        return _without_placement(tree)
    return _constrain_array(call, tree, mesh, spec, call.place)


@register_function(*(f"flax.core{home} freeze unfreeze FrozenDict copy" for home in ("", ".frozen_dict")))
def freeze_tree(call: Call) -> Value:
    """The same tree."""
    return call.argument_at(0, "xs", DictValue())
