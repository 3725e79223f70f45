"""One transformer block as nested dictionaries."""

import jax
import jax.numpy as jnp


def dense(key, n_in, n_out, bias=False):
    layer = {"kernel": jax.random.normal(key, (n_in, n_out)) * n_in**-0.5}
    if bias:
        layer["bias"] = jnp.zeros((n_out,))
    return layer


def init(key, vocab=64, dim=32):
    keys = iter(jax.random.split(key, 7))
    return {
        "embedding": jax.random.normal(next(keys), (vocab, dim)),
        "attention": {name: dense(next(keys), dim, dim) for name in ("wq", "wk", "wv", "wo")},
        "mlp": {"up": dense(next(keys), dim, 4 * dim, bias=True), "down": dense(next(keys), 4 * dim, dim, bias=True)},
    }


def apply(params, tokens):
    x = params["embedding"][tokens]
    att = params["attention"]
    q, k, v = (x @ att[n]["kernel"] for n in ("wq", "wk", "wv"))
    weights = jax.nn.softmax(q @ jnp.swapaxes(k, -1, -2) / q.shape[-1] ** 0.5)
    x = x + weights @ v @ att["wo"]["kernel"]
    up, down = params["mlp"]["up"], params["mlp"]["down"]
    return x + jax.nn.gelu(x @ up["kernel"] + up["bias"]) @ down["kernel"] + down["bias"]
