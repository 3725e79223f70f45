"""A block of attention and a gated layer, and its weights."""

import jax
import jax.numpy as jnp

WIDTH, HIDDEN = 128, 256


def init(key):
    names = {
        "attention/q_proj": (WIDTH, WIDTH),
        "attention/k_proj": (WIDTH, WIDTH),
        "attention/v_proj": (WIDTH, WIDTH),
        "attention/o_proj": (WIDTH, WIDTH),
        "mlp/gate_proj": (WIDTH, HIDDEN),
        "mlp/up_proj": (WIDTH, HIDDEN),
        "mlp/down_proj": (HIDDEN, WIDTH),
    }
    params = {}
    for number, (name, shape) in enumerate(names.items()):
        block, layer = name.split("/")
        weights = jax.random.normal(jax.random.fold_in(key, number), shape) * 0.02
        params.setdefault(block, {})[layer] = {"kernel": weights}
    return params


def block(params, x):
    one, two = params["attention"], params["mlp"]
    q, k, v = (x @ one[name]["kernel"] for name in ("q_proj", "k_proj", "v_proj"))
    mixed = jax.nn.sigmoid(q * k) * v
    x = x + mixed @ one["o_proj"]["kernel"]
    hidden = jax.nn.silu(x @ two["gate_proj"]["kernel"]) * (x @ two["up_proj"]["kernel"])
    return x + hidden @ two["down_proj"]["kernel"]


def loss(params, x):
    return jnp.mean(block(params, x) ** 2)
