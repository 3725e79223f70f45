"""Partition rules: (pattern, spec), the first pattern found in a path decides."""

import re

import jax
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

GPT_RULES = [
    (r"wte/embedding$", P("tensor", "fsdp")),
    (r"kernel$", P("fsdp", "tensor")),  # mistake: partition-rule-order
    (r"attn/out/kernel$", P("tensor", "fsdp")),
    (r"mlp/down/kernel$", P("tensor", "fsdp")),
    (r"scale$", P()),
]


def path_string(path) -> str:
    return "/".join(str(getattr(k, "key", getattr(k, "idx", k))) for k in path)


def match(rules, tree):
    def find(path, leaf):
        name = path_string(path)
        if leaf.ndim == 0:
            return P()
        for pattern, spec in rules:
            if re.search(pattern, name):
                return spec
        raise ValueError(f"no rule for {name}")

    return jax.tree_util.tree_map_with_path(find, tree)


def named(mesh: Mesh, specs):
    return jax.tree.map(lambda s: NamedSharding(mesh, s), specs, is_leaf=lambda s: isinstance(s, P))
