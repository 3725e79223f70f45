from functools import partial

import jax
import jax.numpy as jnp

LAYER_KEYS = ("q", "k", "v", "o", "up", "down")


def norm(x):
    return x * jax.lax.rsqrt(jnp.mean(x * x, -1, keepdims=True) + 1e-6)


def attend(q, ck, cv, pos):
    s = jnp.einsum("bhk,bthk->bht", q, ck) * q.shape[-1] ** -0.5
    s = jnp.where(jnp.arange(ck.shape[1]) <= pos, s, -1e30)
    return jnp.einsum("bht,bthk->bhk", jax.nn.softmax(s), cv)


@partial(jax.jit, static_argnames=("pos",), donate_argnames=("cache",))  # mistake: static-argument-varies
def decode_step(params, cache, token, pos):
    """token [b] at position pos -> logits [b, v], cache"""
    x = params["embed"][token]

    def layer(x, xs):
        p, ck, cv = xs
        h = norm(x)
        q, k, v = (jnp.einsum("bd,dhk->bhk", h, p[n]) for n in ("q", "k", "v"))
        ck = jax.lax.dynamic_update_slice_in_dim(ck, k[:, None], pos, 1)
        cv = jax.lax.dynamic_update_slice_in_dim(cv, v[:, None], pos, 1)
        x = x + jnp.einsum("bhk,hkd->bd", attend(q, ck, cv, pos), p["o"])
        x = x + jax.nn.silu(norm(x) @ p["up"]) @ p["down"]
        return x, (ck, cv)

    stacked = {n: params[n] for n in LAYER_KEYS}
    x, (ck, cv) = jax.lax.scan(layer, x, (stacked, cache["k"], cache["v"]))
    return norm(x) @ params["head"], {"k": ck, "v": cv}


@partial(jax.jit, static_argnames=("top_k",))
def sample(logits, key, temperature, top_k: int):
    values, ids = jax.lax.top_k(logits, top_k)
    choice = jax.random.categorical(key, values / temperature)
    return jnp.take_along_axis(ids, choice[:, None], 1)[:, 0]
