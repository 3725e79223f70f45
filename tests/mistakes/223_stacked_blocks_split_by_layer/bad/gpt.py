import equinox as eqx
import jax
import jax.numpy as jnp


class Block(eqx.Module):
    qkv: eqx.nn.Linear
    proj: eqx.nn.Linear
    fc: eqx.nn.Linear
    out: eqx.nn.Linear
    n1: eqx.nn.RMSNorm
    n2: eqx.nn.RMSNorm
    heads: int = eqx.field(static=True)

    def __init__(self, dim, heads, key):
        k = jax.random.split(key, 4)
        lin = lambda i, o, key: eqx.nn.Linear(i, o, use_bias=False, key=key)
        self.qkv, self.proj = lin(dim, 3 * dim, k[0]), lin(dim, dim, k[1])
        self.fc, self.out = lin(dim, 4 * dim, k[2]), lin(4 * dim, dim, k[3])
        self.n1, self.n2 = eqx.nn.RMSNorm(dim, use_bias=False), eqx.nn.RMSNorm(dim, use_bias=False)
        self.heads = heads

    def __call__(self, x):
        t, d = x.shape
        q, k, v = jnp.split(jax.vmap(self.qkv)(jax.vmap(self.n1)(x)), 3, -1)
        split = lambda y: y.reshape(t, self.heads, d // self.heads)
        y = jax.nn.dot_product_attention(split(q), split(k), split(v), is_causal=True)
        x = x + jax.vmap(self.proj)(y.reshape(t, d))
        h = jax.nn.gelu(jax.vmap(self.fc)(jax.vmap(self.n2)(x)))
        return x + jax.vmap(self.out)(h)


class GPT(eqx.Module):
    embed: jax.Array
    blocks: Block
    norm: eqx.nn.RMSNorm

    def __init__(self, cfg, key):
        ke, kb = jax.random.split(key)
        self.embed = 0.02 * jax.random.normal(ke, (cfg["vocab"], cfg["dim"]))
        make = lambda k: Block(cfg["dim"], cfg["heads"], k)
        self.blocks = eqx.filter_vmap(make)(jax.random.split(kb, cfg["depth"]))
        self.norm = eqx.nn.RMSNorm(cfg["dim"], use_bias=False)

    def __call__(self, tokens):
        dynamic, static = eqx.partition(self.blocks, eqx.is_array)

        @jax.checkpoint
        def body(x, layer):
            return eqx.combine(layer, static)(x), None

        x, _ = jax.lax.scan(body, self.embed[tokens], dynamic)
        return jax.vmap(self.norm)(x) @ self.embed.T
