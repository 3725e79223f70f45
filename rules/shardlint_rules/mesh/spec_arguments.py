"""Specs where they are given to something that reads them against a mesh. Shared by rules."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from shardlint.model.mesh.meshes import Spec, SpecEntry
from shardlint.model.signatures import JITS, SHARDING_SETTINGS
from shardlint.model.values import Constant, Items, Table, Value, options
from shardlint.rules_api.rule import Calls
from shardlint.rules_api.site import Site
from shardlint.source.lazy import dataclass

TAKERS: dict[str, tuple[str, ...]] = {
    "jax.sharding.NamedSharding": ("spec",),
    "jax.lax.with_sharding_constraint": ("shardings",),
    "equinox.filter_shard": ("device_or_shardings",),
    "jax.device_put": ("device",),
    **dict.fromkeys(JITS, SHARDING_SETTINGS),
    "jax.shard_map": ("in_specs", "out_specs"),
}
"""What takes a spec, and in which arguments."""
LOGICAL_NAMES = (
    *(
        rf"(?:){word}(?i:(?:ly)?_?(?:ax[ei]s|names?|specs?|shard|rules?|part|constraint|to))"
        for word in ("logical", "Logical", "LOGICAL")
    ),
    "axis_rules",
)
"""What projects say that have names for the dimensions of arrays, and rules which turn these into mesh axes."""
# Most jits are given no sharding at all.
SHARDED_JITS = Calls(*JITS, file_says=("_shardings", "PartitionSpec", "Sharding"))
WAKES = (Calls(*(name for name in TAKERS if name not in JITS)), SHARDED_JITS)


@dataclass(frozen=True)
class SpecArgument:
    """A spec in an argument. `node` is the part of the argument that stands for it: `P("data")`, or a name.

    `certain` is False where the spec is one of several, depending on the way taken.
    """

    spec: Spec
    node: ast.expr
    certain: bool


def given_specs(site: Site) -> Iterator[SpecArgument]:
    """The specs given by the site's call."""
    for name in TAKERS[site.api]:
        argument = site.argument(name)
        if argument is not None:
            yield from _specs_in_tree(site, argument)


def _specs_in_tree(site: Site, node: ast.expr) -> Iterator[SpecArgument]:
    """The specs in a literal pytree, each with its own part of the text."""
    if isinstance(node, ast.Tuple | ast.List):
        for element in node.elts:
            yield from _specs_in_tree(site, element)
    elif isinstance(node, ast.Dict):
        for value in node.values:
            yield from _specs_in_tree(site, value)
    elif not isinstance(node, ast.Starred):
        yield from _specs_of_value(site, site.value(node), node, True)


def _specs_of_value(site: Site, value: Value, node: ast.expr, certain: bool) -> Iterator[SpecArgument]:
    found = options(value)
    for option in found:
        spec = site.spec_of(option)
        if spec is not None:
            yield SpecArgument(spec, node, certain and len(found) == 1)
        elif isinstance(option, Items | Table):
            parts = option.items if isinstance(option, Items) else tuple(part for _, part in option.entries)
            for part in parts:
                yield from _specs_of_value(site, part, node, certain and len(found) == 1)


def named_axes(spec: Spec) -> Iterator[tuple[SpecEntry, str]]:
    """The axes a spec names for certain, in order, each with its entry."""
    for entry in spec.entries:
        if entry.known:
            for axis in entry.axes:
                yield entry, axis


def node_of_axis(site: Site, argument: SpecArgument, entry: SpecEntry, axis: str, nth: int = 0) -> ast.AST:
    """The node of an axis in the spec's own call if that is in this file, else the part of the argument.

    `nth` says which of several mentions in one entry is meant.
    """
    if entry.place is None or entry.place.file is not site.file:
        return argument.node
    node = entry.place.node
    if isinstance(node, ast.Tuple | ast.List):
        same = [element for element in node.elts if site.value(element) == Constant(axis)]
        if len(same) > nth:
            return same[nth]
    return node


def may_axis_be_bound(site: Site, axis: str, maps: str = "[pv]map") -> bool:
    """Return whether one of some maps in the files that run together may bind an axis of this name that is of no mesh.
    """
    quoted = rf"""(?:){maps}\b(?:[^\n]*\n){{0,6}}?[^\n]*["']{re.escape(axis)}["']"""
    return site.program.project.is_text_in_files(site.file.path, quoted)


def is_written_axis(node: ast.AST, axis: str) -> bool:
    """Return whether a node is the axis written out."""
    return isinstance(node, ast.Constant) and node.value == axis


def jitted_node(site: Site) -> ast.AST:
    """Return the node of the jitted function: the definition that the site's call decorates, or the call itself."""
    return site.decorated or site.call
