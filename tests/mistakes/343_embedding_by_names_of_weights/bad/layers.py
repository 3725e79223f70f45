"""Layers whose activations are constrained by logical names."""

import flax.linen as nn
import jax.numpy as jnp


class Embed(nn.Module):
    vocab: int
    width: int

    @nn.compact
    def __call__(self, tokens):
        init = nn.with_logical_partitioning(nn.initializers.normal(1.0), ("vocab", "embed"))
        table = self.param("table", init, (self.vocab, self.width))
        x = jnp.take(table, tokens, axis=0)
        return nn.with_logical_constraint(x, ("batch", "length", None))  # mistake: logical-name-without-rule


class Mlp(nn.Module):
    hidden: int

    @nn.compact
    def __call__(self, x):
        init = nn.with_logical_partitioning(nn.initializers.lecun_normal(), ("embed", "mlp"))
        h = nn.relu(nn.Dense(self.hidden, kernel_init=init, name="up")(x))
        h = nn.with_logical_constraint(h, ("activation_batch", "activation_length", "activation_mlp"))
        init = nn.with_logical_partitioning(nn.initializers.lecun_normal(), ("mlp", "embed"))
        return nn.Dense(x.shape[-1], kernel_init=init, name="down")(h)
