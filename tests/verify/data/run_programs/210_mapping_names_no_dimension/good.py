"""A tagger of tokens in haliax: the trainer has rules for larger models, too."""

import equinox as eqx
import haliax as hax
import jax
import jax.numpy as jnp
import numpy as np
import optax

Rows, Width, Inner, Vocab, Tags = hax.make_axes(rows=64, width=256, inner=1024, vocab=512, tags=16)
ROWS = {"rows": "shard"}
STORED = dict(width="shard", inner="tensor", heads="tensor", model_dim="shard")


class Tagger(eqx.Module):
    table: hax.NamedArray
    up: hax.NamedArray
    down: hax.NamedArray
    head: hax.NamedArray

    @classmethod
    def init(cls, key):
        keys = jax.random.split(key, 4)
        sizes = ((Vocab, Width), (Width, Inner), (Inner, Width), (Width, Tags))
        return cls(*(hax.random.normal(k, axes) * axes[0].size ** -0.5 for k, axes in zip(keys, sizes, strict=True)))

    def __call__(self, tokens):
        x = jnp.take(self.table.array, tokens.array, axis=0)
        x = x + jax.nn.gelu(x @ self.up.array) @ self.down.array
        return x @ self.head.array


def train(mesh, stored):
    optimizer = optax.adam(1e-3)

    def create(key):
        model = Tagger.init(key)
        return model, optimizer.init(model)

    @eqx.filter_jit
    def step(model, state, tokens, tags):
        tokens, tags = hax.shard((tokens, tags), ROWS)

        def loss_fn(model):
            return optax.softmax_cross_entropy_with_integer_labels(model(tokens), tags.array).mean()

        loss, grads = eqx.filter_value_and_grad(loss_fn)(model)
        updates, state = optimizer.update(grads, state)
        return hax.shard((eqx.apply_updates(model, updates), state), stored), loss

    with jax.set_mesh(mesh):
        model, state = hax.named_jit(create, out_axis_resources=stored)(jax.random.key(0))
        rng = np.random.default_rng(0)
        for _ in range(2):
            batch = [hax.named(rng.integers(0, axis.size, Rows.size), Rows) for axis in (Vocab, Tags)]
            (model, state), loss = step(model, state, *hax.shard(batch, ROWS))
        print(float(loss))


train(jax.make_mesh((4, 2), ("shard", "tensor"), axis_types=(jax.sharding.AxisType.Auto,) * 2), ROWS | STORED)
