"""Train a small transformer MLP with flax.nnx, sharded with nnx.update."""
import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax import nnx
from jax.sharding import AxisType, NamedSharding, PartitionSpec as P

mesh = jax.make_mesh((1, 8), ("data", "fsdp"), axis_types=(AxisType.Auto,) * 2)


class Mlp(nnx.Module):
    def __init__(self, width, hidden, rngs):
        self.up = nnx.Linear(width, hidden, use_bias=False, rngs=rngs)
        self.down = nnx.Linear(hidden, width, use_bias=False, rngs=rngs)

    def __call__(self, x):
        return x + self.down(nnx.gelu(self.up(x)))


class Net(nnx.Module):
    def __init__(self, width, hidden, classes, rngs):
        self.first = Mlp(width, hidden, rngs)
        self.second = Mlp(width, hidden, rngs)
        self.head = nnx.Linear(width, classes, use_bias=False, rngs=rngs)

    def __call__(self, x):
        return self.head(self.second(self.first(x)))


def fsdp(x):
    if x.ndim == 2:
        return jax.device_put(x, NamedSharding(mesh, P("fsdp", None)))
    return jax.device_put(x, NamedSharding(mesh, P()))


@nnx.jit
def train_step(model, optimizer, x, y):
    def loss_fn(model):
        return optax.softmax_cross_entropy_with_integer_labels(model(x), y).mean()

    loss, grads = nnx.value_and_grad(loss_fn)(model)
    optimizer.update(model, grads)
    return loss


def main():
    model = Net(512, 2048, 128, nnx.Rngs(0))
    state = nnx.state(model)
    nnx.update(model, jax.tree.map(fsdp, state))
    optimizer = nnx.Optimizer(model, optax.adamw(1e-3), wrt=nnx.Param)

    rng = np.random.default_rng(0)
    sharding = NamedSharding(mesh, P(("data", "fsdp")))
    for i in range(4):
        x = jax.device_put(rng.normal(size=(128, 512)).astype(np.float32), sharding)
        y = jax.device_put(rng.integers(0, 128, 128).astype(np.int32), sharding)
        loss = train_step(model, optimizer, x, y)
        print(i, float(loss))


if __name__ == "__main__":
    main()
