"""An NNX transformer MLP, its state constrained to the specs of its metadata."""
import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax import nnx
from jax.sharding import NamedSharding, PartitionSpec as P

mesh = jax.make_mesh((2, 4), ("data", "model"), axis_types=(jax.sharding.AxisType.Auto,) * 2)


class Block(nnx.Module):
    def __init__(self, d, f, rngs):
        self.norm = nnx.LayerNorm(d, rngs=rngs)
        self.up = nnx.Linear(d, f, rngs=rngs)
        self.down = nnx.Linear(f, d, rngs=rngs)

    def __call__(self, x):
        return x + self.down(nnx.gelu(self.up(self.norm(x))))


class Model(nnx.Module):
    def __init__(self, rngs):
        self.embed = nnx.Embed(4096, 512, rngs=rngs)
        self.blocks = nnx.List([Block(512, 2048, rngs) for _ in range(2)])

    def __call__(self, tokens):
        x = self.embed(tokens)
        for block in self.blocks:
            x = block(x)
        return self.embed.attend(x)


def spec_of(path, leaf):
    names = [getattr(k, "key", getattr(k, "name", None)) for k in path]
    if "up" in names and leaf.ndim == 2:
        return P(None, "model")
    if "down" in names and leaf.ndim == 2:
        return P("model", None)
    if "embedding" in names:
        return P("model", None)
    return P()


def create():
    model = Model(nnx.Rngs(0))
    state = nnx.state(model)
    sharded = jax.tree_util.tree_map_with_path(lambda p, x: jax.device_put(x, NamedSharding(mesh, spec_of(p, x))), state)  # here SL203
    del state  # the whole arrays are not needed any longer
    return model


model = create()
optimizer = nnx.Optimizer(model, optax.adamw(1e-3), wrt=nnx.Param)


@nnx.jit
def train_step(model, optimizer, tokens, labels):
    def loss_fn(model):
        return optax.softmax_cross_entropy_with_integer_labels(model(tokens), labels).mean()

    loss, grads = nnx.value_and_grad(loss_fn)(model)
    optimizer.update(model, grads)
    return loss


rng = np.random.default_rng(0)
for i in range(3):
    tokens = rng.integers(0, 4096, (32, 64))
    x, y = jax.device_put((tokens[:, :-1], tokens[:, 1:]), NamedSharding(mesh, P("data")))
    print(i, train_step(model, optimizer, x, y))
