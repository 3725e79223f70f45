import jax
import jax.numpy as jnp


def init(key, n_items=512, dim=32, hidden=64):
    a, b, c = jax.random.split(key, 3)
    return {
        "items": jax.random.normal(a, (n_items, dim)) * 0.05,
        "mix": jax.random.normal(b, (dim, hidden)) * dim**-0.5,
        "out": jax.random.normal(c, (hidden, dim)) * hidden**-0.5,
    }


def next_item_logits(params, history):
    x = params["items"][history].mean(axis=1)
    x = jax.nn.relu(x @ params["mix"]) @ params["out"]
    return x @ params["items"].T


def loss(params, batch):
    lp = jax.nn.log_softmax(next_item_logits(params, batch["history"]))
    return -jnp.take_along_axis(lp, batch["target"][:, None], axis=1).mean()
