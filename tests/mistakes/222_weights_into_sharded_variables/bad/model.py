from dataclasses import dataclass

import jax
import jax.numpy as jnp
from flax import nnx

normal = nnx.initializers.normal(0.02)


@dataclass(frozen=True)
class ModelConfig:
    vocab: int = 32_000
    dim: int = 4096
    heads: int = 32
    ffn: int = 14_336
    layers: int = 32


def linear(i, o, spec, rngs):
    return nnx.Linear(i, o, use_bias=False, kernel_init=nnx.with_partitioning(normal, spec), rngs=rngs)


class Layer(nnx.Module):
    def __init__(self, c: ModelConfig, rngs: nnx.Rngs):
        self.heads = c.heads
        self.attn_norm = nnx.RMSNorm(c.dim, rngs=rngs)
        self.mlp_norm = nnx.RMSNorm(c.dim, rngs=rngs)
        self.q_proj = linear(c.dim, c.dim, (None, "tp"), rngs)
        self.k_proj = linear(c.dim, c.dim, (None, "tp"), rngs)
        self.v_proj = linear(c.dim, c.dim, (None, "tp"), rngs)
        self.o_proj = linear(c.dim, c.dim, ("tp", None), rngs)
        self.up_proj = linear(c.dim, c.ffn, (None, "tp"), rngs)
        self.gate_proj = linear(c.dim, c.ffn, (None, "tp"), rngs)
        self.down_proj = linear(c.ffn, c.dim, ("tp", None), rngs)

    def __call__(self, x):
        b, t, d = x.shape
        h = self.attn_norm(x)
        q, k, v = (p(h).reshape(b, t, self.heads, -1) for p in (self.q_proj, self.k_proj, self.v_proj))
        y = jax.nn.dot_product_attention(q, k, v, is_causal=True).reshape(b, t, d)
        x = x + self.o_proj(y)
        h = self.mlp_norm(x)
        return x + self.down_proj(nnx.silu(self.gate_proj(h)) * self.up_proj(h))


class Llama(nnx.Module):
    def __init__(self, c: ModelConfig, rngs: nnx.Rngs):
        self.embed = nnx.Embed(c.vocab, c.dim, embedding_init=nnx.with_partitioning(normal, ("tp", None)), rngs=rngs)
        self.layers = nnx.List([Layer(c, rngs) for _ in range(c.layers)])
        self.norm = nnx.RMSNorm(c.dim, rngs=rngs)
        self.lm_head = linear(c.dim, c.vocab, (None, "tp"), rngs)

    def __call__(self, tokens):
        x = self.embed(tokens)
        for layer in self.layers:
            x = layer(x)
        return self.lm_head(self.norm(x))
