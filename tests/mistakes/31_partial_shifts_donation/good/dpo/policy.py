"""A policy that scores one token after another."""

import jax
import jax.numpy as jnp


def init(key, cfg):
    k1, k2 = jax.random.split(key)
    return {
        "embed": jax.random.normal(k1, (cfg.vocab, cfg.dim)),
        "head": jax.random.normal(k2, (cfg.dim, cfg.vocab)) * 0.1,
    }


def log_prob(params, tokens):
    logits = params["embed"][tokens[:, :-1]] @ params["head"]
    picked = jnp.take_along_axis(jax.nn.log_softmax(logits), tokens[:, 1:, None], axis=-1)
    return picked[..., 0].sum(-1)
