import dataclasses

import jax
import jax.numpy as jnp


@dataclasses.dataclass(frozen=True)
class GPTConfig:
    vocab: int = 1024
    width: int = 256
    heads: int = 8
    layers: int = 2


def init(cfg: GPTConfig, key: jax.Array) -> dict:
    keys = iter(jax.random.split(key, 8 * cfg.layers + 2))

    def kernel(n, m):
        return {"kernel": jax.random.normal(next(keys), (n, m)) * n**-0.5}

    d = cfg.width
    params = {"wte": {"embedding": jax.random.normal(next(keys), (cfg.vocab, d)) * 0.02}}
    for i in range(cfg.layers):
        params[f"h{i}"] = {
            "norm1": {"scale": jnp.ones(d)},
            "attn": {"qkv": kernel(d, 3 * d), "out": kernel(d, d)},
            "norm2": {"scale": jnp.ones(d)},
            "mlp": {"up": kernel(d, 4 * d), "down": kernel(4 * d, d)},
        }
    return params


def rms(x, scale):
    return x * jax.lax.rsqrt(jnp.mean(x * x, -1, keepdims=True) + 1e-6) * scale


def forward(cfg: GPTConfig, params: dict, ids: jax.Array) -> jax.Array:
    table = params["wte"]["embedding"]
    x = table[ids]
    b, t, d = x.shape
    for i in range(cfg.layers):
        p = params[f"h{i}"]
        qkv = rms(x, p["norm1"]["scale"]) @ p["attn"]["qkv"]["kernel"]
        q, k, v = jnp.split(qkv.reshape(b, t, cfg.heads, -1), 3, axis=-1)
        o = jax.nn.dot_product_attention(q, k, v, is_causal=True).reshape(b, t, d)
        x = x + o @ p["attn"]["out"]["kernel"]
        h = jax.nn.gelu(rms(x, p["norm2"]["scale"]) @ p["mlp"]["up"]["kernel"])
        x = x + h @ p["mlp"]["down"]["kernel"]
    return x @ table.T
