"""Matches parameter names with partition specs."""

import re
from typing import Any

import jax
from jax.sharding import PartitionSpec as PS


def match_partition_rules(rules: list[tuple[str, PS]], params: Any) -> Any:
    """A tree of specs with the structure of `params`."""

    def find(path, leaf):
        if leaf.ndim == 0:
            return PS()
        name = jax.tree_util.keystr(path, simple=True, separator="/")
        for rule, spec in rules:
            if re.search(rule, name) is not None:
                return spec
        raise ValueError(f"Partition rule not found for param: {name}")

    return jax.tree_util.tree_map_with_path(find, params)
