import flax.linen as nn
import jax
import jax.numpy as jnp

init = nn.initializers.variance_scaling(1.0, "fan_in", "normal")


class RMSNorm(nn.Module):
    @nn.compact
    def __call__(self, x):
        scale = self.param(
            "scale",
            nn.with_logical_partitioning(nn.initializers.ones, ("norm",)),
            (x.shape[-1],),
        )
        return x * jax.lax.rsqrt(jnp.mean(x * x, -1, keepdims=True) + 1e-6) * scale


class Attention(nn.Module):
    heads: int
    head_dim: int

    @nn.compact
    def __call__(self, x):
        def proj(name):
            return nn.DenseGeneral(
                (self.heads, self.head_dim),
                use_bias=False,
                kernel_init=nn.with_logical_partitioning(init, ("embed", "head", "kv")),  # mistake: axis-name-without-rule
                name=name,
            )(x)

        q, k, v = proj("query"), proj("key"), proj("value")
        s = jnp.einsum("bqhd,bkhd->bhqk", q, k) / self.head_dim**0.5
        mask = jnp.tril(jnp.ones((x.shape[1], x.shape[1]), bool))
        p = jax.nn.softmax(jnp.where(mask, s, -1e9), axis=-1)
        o = jnp.einsum("bhqk,bkhd->bqhd", p, v)
        return nn.DenseGeneral(
            x.shape[-1],
            axis=(-2, -1),
            use_bias=False,
            kernel_init=nn.with_logical_partitioning(init, ("heads", "kv", "embed")),
            name="out",
        )(o)


class Mlp(nn.Module):
    width: int

    @nn.compact
    def __call__(self, x):
        dense = lambda n, axes, name: nn.Dense(
            n, use_bias=False, kernel_init=nn.with_logical_partitioning(init, axes), name=name
        )
        h = jax.nn.silu(dense(self.width, ("embed", "mlp"), "gate")(x))
        h = h * dense(self.width, ("embed", "mlp"), "up")(x)
        return dense(x.shape[-1], ("mlp", "embed"), "down")(h)


class Decoder(nn.Module):
    vocab: int
    emb: int
    heads: int
    head_dim: int
    mlp: int
    layers: int

    @nn.compact
    def __call__(self, tokens):
        table = self.param(
            "embedding",
            nn.with_logical_partitioning(nn.initializers.normal(0.02), ("vocab", "embed")),
            (self.vocab, self.emb),
        )
        x = jnp.take(table, tokens, axis=0)
        for i in range(self.layers):
            x = x + Attention(self.heads, self.head_dim, name=f"attn_{i}")(RMSNorm()(x))
            x = x + Mlp(self.mlp, name=f"mlp_{i}")(RMSNorm()(x))
        return RMSNorm()(x) @ table.T
