import jax
import jax.numpy as jnp


def init(key, vocab, width):
    a, b = jax.random.split(key)
    return {"embed": jax.random.normal(a, (vocab, width)) * 0.1, "head": jax.random.normal(b, (width, vocab)) * 0.1}


def logits_of(params, tokens):
    return params["embed"][tokens] @ params["head"]
