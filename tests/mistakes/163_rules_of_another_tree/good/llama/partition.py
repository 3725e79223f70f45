import re

import jax
from jax.sharding import NamedSharding, PartitionSpec as PS
from jax.tree_util import tree_map_with_path


def _name(path):
    return "/".join(str(getattr(k, "key", getattr(k, "idx", k))) for k in path)


def match_partition_rules(rules, params):
    """first rule whose regex is found in the parameter's path"""

    def get(path, leaf):
        if leaf.ndim == 0:
            return PS()
        for rule, ps in rules:
            if re.search(rule, _name(path)) is not None:
                return ps
        raise ValueError(f"Partition rule not found for param: {_name(path)}")

    return tree_map_with_path(get, params)


def named(mesh, specs):
    return jax.tree.map(lambda s: NamedSharding(mesh, s), specs, is_leaf=lambda s: isinstance(s, PS))
