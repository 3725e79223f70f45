"""A small convolutional net with BatchNorm, data parallel by shard_map."""
from functools import partial

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.sharding import AxisType, NamedSharding, PartitionSpec as P

mesh = jax.make_mesh((8,), ("batch",), axis_types=(AxisType.Auto,) * 1)


class Net(nn.Module):
    width: int = 64

    @nn.compact
    def __call__(self, x, train):
        for mult in (1, 2):
            x = nn.Conv(self.width * mult, (3, 3), strides=2)(x)
            x = nn.BatchNorm(use_running_average=not train, momentum=0.9)(x)  # here SL402
            x = nn.relu(x)
        x = x.mean(axis=(1, 2))
        return nn.Dense(10)(x)


model = Net()
tx = optax.sgd(0.05, momentum=0.9)


def loss_fn(params, stats, x, y):
    logits, new = model.apply(
        {"params": params, "batch_stats": stats}, x, True, mutable=["batch_stats"])
    return optax.softmax_cross_entropy_with_integer_labels(logits, y).mean(), new["batch_stats"]


@jax.jit
@partial(
    jax.shard_map, mesh=mesh,
    in_specs=(P(), P(), P(), P("batch"), P("batch")), out_specs=P(), check_vma=False)
def train_step(params, stats, opt, x, y):
    (loss, stats), grads = jax.value_and_grad(loss_fn, has_aux=True)(params, stats, x, y)
    grads, loss = jax.lax.pmean((grads, loss), "batch")
    updates, opt = tx.update(grads, opt, params)
    return optax.apply_updates(params, updates), stats, opt, loss


def main():
    variables = model.init(jax.random.key(0), jnp.zeros((1, 32, 32, 3)), False)
    params, stats, opt = jax.device_put(
        (variables["params"], variables["batch_stats"], tx.init(variables["params"])),
        NamedSharding(mesh, P()))
    rng = np.random.default_rng(0)
    for i in range(4):
        x = rng.normal(size=(64, 32, 32, 3)).astype(np.float32)
        y = rng.integers(0, 10, 64).astype(np.int32)
        x, y = jax.device_put((x, y), NamedSharding(mesh, P("batch")))
        params, stats, opt, loss = train_step(params, stats, opt, x, y)
        print(i, float(loss))


if __name__ == "__main__":
    main()
