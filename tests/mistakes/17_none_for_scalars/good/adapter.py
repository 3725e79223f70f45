"""A frozen base with a gated low-rank adapter."""

import jax
import jax.numpy as jnp
from jax.sharding import PartitionSpec as PS

RULES = [("base/kernel", PS(None, "mp")), ("lora/a", PS()), ("lora/b", PS(None, "mp"))]


def init(key, dim=16, hidden=64, rank=4):
    kb, ka = jax.random.split(key)
    return {
        "base": {"kernel": jax.random.normal(kb, (dim, hidden)) * dim**-0.5},
        "lora": {
            "a": jax.random.normal(ka, (dim, rank)) * dim**-0.5,
            "b": jnp.zeros((rank, hidden)),
            "gate": jnp.asarray(0.1),
        },
    }


def apply(params, x):
    lora = params["lora"]
    return x @ params["base"]["kernel"] + lora["gate"] * (x @ lora["a"]) @ lora["b"]
