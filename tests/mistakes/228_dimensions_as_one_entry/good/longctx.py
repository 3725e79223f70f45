import jax
import jax.numpy as jnp


def init(key: jax.Array, vocab: int, width: int) -> dict:
    a, b, c = jax.random.split(key, 3)
    return {
        "table": jax.random.normal(a, (vocab, width)) * 0.02,
        "gate": jax.random.normal(b, (width, width)) * width**-0.5,
        "value": jax.random.normal(c, (width, width)) * width**-0.5,
    }


def score(params: dict, tokens: jax.Array, hidden_sharding) -> jax.Array:
    h = jax.lax.with_sharding_constraint(params["table"][tokens], hidden_sharding)
    h = h + jax.nn.sigmoid(h @ params["gate"]) * (h @ params["value"])
    h = jax.lax.with_sharding_constraint(h, hidden_sharding)
    logits = h @ params["table"].T
    picked = jnp.take_along_axis(jax.nn.log_softmax(logits), tokens[..., None], -1)
    return picked.sum(axis=(1, 2))
