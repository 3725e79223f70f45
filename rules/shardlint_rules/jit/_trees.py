"""Trees of shardings: which values are containers."""

from __future__ import annotations

from shardlint.model import Program
from shardlint.model.evaluator.trees import MAPS
from shardlint.model.values import (
    CallArguments,
    CallResult,
    ClassValue,
    Leaves,
    Parameter,
    Table,
    Unknown,
    Value,
    options,
)
from shardlint.source.lazy import dataclass
from shardlint.source.patterns import compile_lazily

_DICTS = ("builtins.dict", "collections.OrderedDict", "collections.defaultdict")
# They give a tree of the shape of the variables or state they are asked about.
_OF_A_STATE = (
    "flax.linen.get_sharding",
    "flax.linen.get_partition_spec",
    "flax.linen.logical_to_mesh",
    "flax.linen.logical_to_mesh_sharding",
    "flax.nnx.get_named_sharding",
    "flax.nnx.get_partition_spec",
)
# So people call the tuple of all arguments.
_ALL_ARGUMENTS = compile_lazily(r"^(in|inputs?|args?|arguments)(_|$)|^(shardings|specs)$|_(args|inputs)$")


@dataclass(frozen=True)
class Container:
    """A tree of shardings: what it is, in words, and whether it surely is not a tuple, list or single sharding."""

    what: str
    surely: bool


def container_kind(program: Program, value: Value) -> Container | None:
    """Return the kind of container of a value; None for a tuple, a list, or a possible single sharding."""
    found = [_container_of_value(program, option) for option in options(value)]
    known = [one for one in found if one is not None]
    if not known or len(known) < len(found):
        return None
    return Container(known[0].what, all(one.surely for one in known))


def _container_of_value(program: Program, value: Value) -> Container | None:
    if isinstance(value, Table) or (isinstance(value, Leaves) and value.kind == "dict"):
        return Container("a dict", True)
    if not isinstance(value, CallResult):
        return None
    if value.api in _DICTS:
        return Container("a dict", True)
    if value.api in _OF_A_STATE:
        return Container(f"a tree from {value.api.rpartition('.')[2]}", False)
    if value.api in MAPS and value.call is not None:
        return _container_of_tree_map(program, value.call)
    return None


def _container_of_tree_map(program: Program, call: CallArguments) -> Container | None:
    """Return the container that `jax.tree.map(f, tree)` makes, which is like the tree; None if it is unknown."""
    place = call.keywords.get("tree") or (call.positional[1] if len(call.positional) > 1 else None)
    if place is None or call.open_positional:
        return None
    tree = program.evaluator.value(place, call.environment)
    inside = container_kind(program, tree)
    if inside is not None:
        return Container(f"{inside.what} from jax.tree.map", inside.surely and "is_leaf" not in call.keywords)
    unknown = all(isinstance(one, Unknown | Parameter) or _is_instance(one) for one in options(tree))
    name = place.source_text().rpartition(".")[2].lower()
    if not unknown or not name.isidentifier() or _ALL_ARGUMENTS.search(name):
        return None
    return Container("a tree from jax.tree.map", False)


def _is_instance(value: Value) -> bool:
    return isinstance(value, CallResult) and isinstance(value.by, ClassValue)
