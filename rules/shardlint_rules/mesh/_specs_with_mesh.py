"""A bare spec, or a tree of them behind a name, written with its mesh."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from shardlint.facts.shardings import is_spec
from shardlint.model.values import Constant, Items, Table, Value, options
from shardlint.rules_api.rule import Edit
from shardlint.rules_api.site import Site


def add_mesh_to_specs(
    site: Site, nodes: Sequence[ast.expr], mesh: str
) -> tuple[dict[ast.expr, str], list[Edit]] | None:
    """Return the new code of each of the nodes, with the imports it needs; None if a tree holds anything but specs."""
    name, imports = site.spell("jax.sharding.NamedSharding")
    edits = list(imports)
    written = {}
    for node in nodes:
        text = site.text(node)
        if not any(isinstance(one, Items | Table) for one in options(site.value(node))):
            written[node] = f"{name}({mesh}, {text})"
        elif not all(_is_applied_to_specs(one) for one in options(site.value(node))):
            return None
        else:
            tree_map, more = site.spell(
                "jax.tree.map" if site.allows("jax", ">=0.4.25") else "jax.tree_util.tree_map"
            )
            spec = "spec" if mesh != "spec" else "one"
            written[node] = f"{tree_map}(lambda {spec}: {name}({mesh}, {spec}), {text})"
            edits += more
    return written, list(dict.fromkeys(edits))


def _is_applied_to_specs(value: Value) -> bool:
    """Return whether `jax.tree.map` is applied to specs alone there. It skips only None."""
    if isinstance(value, Items):
        return not value.open and all(_is_applied_to_specs(one) for one in (*value.items, *value.repeated))
    if isinstance(value, Table):
        return not value.open and all(_is_applied_to_specs(one) for _, one in value.entries)
    return is_spec(value) or value == Constant(None)

