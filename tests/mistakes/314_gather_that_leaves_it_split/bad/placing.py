"""Functions that place a tree over the mesh and bring it back, one for each leaf."""

import re

import jax
from jax.sharding import NamedSharding, PartitionSpec as P


def match_rules(rules, tree):
    """The spec of the first rule that matches the path of a leaf."""

    def spec(path, leaf):
        name = "/".join(str(getattr(part, "key", part)) for part in path)
        for pattern, found in rules:
            if leaf.ndim and re.search(pattern, name):
                return found
        return P()

    return jax.tree_util.tree_map_with_path(spec, tree)


class Placer:
    def __init__(self, mesh, rules):
        self.mesh, self.rules = mesh, rules

    def shardings(self, tree):
        specs = match_rules(self.rules, tree)
        return jax.tree.map(lambda spec: NamedSharding(self.mesh, spec), specs, is_leaf=lambda x: isinstance(x, P))

    def make_shard_and_gather_fns(self, tree):
        whole = NamedSharding(self.mesh, P())

        def make_shard_fn(sharding):
            return jax.jit(lambda x: x, in_shardings=whole, out_shardings=sharding)

        def make_gather_fn(sharding):
            return jax.jit(
                lambda x: x,
                in_shardings=sharding,
                out_shardings=None,  # mistake: none-is-not-replicated
            )

        shardings = self.shardings(tree)
        return jax.tree.map(make_shard_fn, shardings), jax.tree.map(make_gather_fn, shardings)
