"""Layer-stacked decoder run with lax.scan: every leaf has a leading `layers` dimension."""
import jax
import jax.numpy as jnp

LAYERS, DIM, FF = 8, 64, 256


def init_layer(key):
    a, b, c = jax.random.split(key, 3)
    return {
        "mix": jax.random.normal(a, (DIM, DIM)) * DIM**-0.5,
        "up": jax.random.normal(b, (DIM, FF)) * DIM**-0.5,
        "down": jax.random.normal(c, (FF, DIM)) * FF**-0.5,
    }


def init(key):
    kl, ke = jax.random.split(key)
    return {
        "layers": jax.vmap(init_layer)(jax.random.split(kl, LAYERS)),
        "emb": jax.random.normal(ke, (256, DIM)) * 0.02,
    }


def norm(x):
    return x * jax.lax.rsqrt((x**2).mean(-1, keepdims=True) + 1e-6)


def layer(x, w):
    prev = jnp.pad(x, ((0, 0), (1, 0), (0, 0)))[:, :-1]
    x = x + norm(prev) @ w["mix"]
    return x + jax.nn.gelu(norm(x) @ w["up"]) @ w["down"]


def forward(params, ids):
    x = params["emb"][ids]
    x, _ = jax.lax.scan(lambda h, w: (jax.checkpoint(layer)(h, w), None), x, params["layers"])
    return norm(x) @ params["emb"].T
