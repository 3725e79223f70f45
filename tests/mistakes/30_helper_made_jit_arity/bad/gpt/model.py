import jax
import jax.numpy as jnp
from jax.sharding import PartitionSpec as P

SPECS = {"embed": P(None, "fsdp"), "head": P("fsdp", None)}


def init(key, vocab=32, dim=16):
    k1, k2 = jax.random.split(key)
    return {"embed": jax.random.normal(k1, (vocab, dim)), "head": jax.random.normal(k2, (dim, vocab)) * 0.1}


def loss(params, tokens, key, rate=0.1):
    x = params["embed"][tokens[:, :-1]]
    x = jnp.where(jax.random.bernoulli(key, 1 - rate, x.shape), x / (1 - rate), 0)
    picked = jax.nn.log_softmax(x @ params["head"])
    return -jnp.mean(jnp.take_along_axis(picked, tokens[:, 1:, None], axis=-1))
