import jax
import jax.numpy as jnp
from flax import nnx

nnx.use_eager_sharding(False)  # placed under jit in train.init_model


class Block(nnx.Module):
    def __init__(self, dim: int, rngs: nnx.Rngs):
        part = lambda *spec: nnx.with_partitioning(nnx.initializers.lecun_normal(), spec)
        self.norm = nnx.RMSNorm(dim, rngs=rngs)
        self.mix = nnx.Linear(dim, dim, use_bias=False, kernel_init=part(None, "model"), rngs=rngs)
        self.up = nnx.Linear(dim, 4 * dim, use_bias=False, kernel_init=part(None, "model"), rngs=rngs)
        self.down = nnx.Linear(4 * dim, dim, use_bias=False, kernel_init=part("model", None), rngs=rngs)

    def __call__(self, x):
        h = self.norm(x)
        past = jnp.cumsum(self.mix(h), 1) / jnp.arange(1, x.shape[1] + 1)[:, None]
        return x + self.down(nnx.gelu(self.up(h + past)))


class Stack(nnx.Module):
    def __init__(self, dim: int, layers: int, rngs: nnx.Rngs):
        @nnx.split_rngs(splits=layers)
        @nnx.vmap(in_axes=(0,), out_axes=0, transform_metadata={nnx.PARTITION_NAME: None})
        def create(rngs):
            return Block(dim, rngs)

        self.blocks = create(rngs)

    def __call__(self, x):
        graphdef, stacked = nnx.split(self.blocks)

        @jax.checkpoint
        def forward(x, layer):
            return nnx.merge(graphdef, layer)(x), None

        return jax.lax.scan(forward, x, stacked)[0]


class LM(nnx.Module):
    def __init__(self, vocab: int, dim: int, layers: int, rngs: nnx.Rngs):
        init = nnx.with_partitioning(nnx.initializers.normal(0.02), ("model", None))
        self.embed = nnx.Embed(vocab, dim, embedding_init=init, rngs=rngs)
        self.stack = Stack(dim, layers, rngs)
        self.norm = nnx.RMSNorm(dim, rngs=rngs)

    def __call__(self, tokens):
        return self.embed.attend(self.norm(self.stack(self.embed(tokens))))
