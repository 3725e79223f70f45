import re

from flax.traverse_util import flatten_dict, unflatten_dict
from jax.sharding import NamedSharding, PartitionSpec as PS

RULES = [
    ("shared/embedding", PS("mp", None)),
    ("att/(query|key|value)/kernel", PS(None, "mp", None)),
    ("att/out/kernel", PS("mp", None, None)),
    ("ffn/wi/kernel", PS(None, "mp")),
    ("ffn/wo/kernel", PS("mp", None)),
    (".*", PS()),
]


def spec_for(name):
    for pattern, spec in RULES:
        if re.match(pattern, name):  # mistake: rule-never-matches
            return spec
    raise KeyError(name)


def shardings(params, mesh):
    flat = flatten_dict(params, sep="/")
    return unflatten_dict({k: NamedSharding(mesh, spec_for(k)) for k in flat}, sep="/")
