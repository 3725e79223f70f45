import argparse

import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax import nnx

from model import NetConfig, Regressor
from placement import batch_sharding, build_mesh, place_model


def batches(seed: int, size: int, features: int):
    rng = np.random.default_rng(seed)
    w = rng.normal(size=(features,)).astype(np.float32)
    while True:
        x = rng.normal(size=(size, features)).astype(np.float32)
        yield x, x @ w / np.sqrt(features)


@nnx.jit
def train_step(model: Regressor, optimizer: nnx.Optimizer, x: jax.Array, y: jax.Array) -> jax.Array:
    def loss_fn(m: Regressor) -> jax.Array:
        return jnp.mean((m(x) - y) ** 2)

    loss, grads = nnx.value_and_grad(loss_fn)(model)
    optimizer.update(model, grads)
    return loss


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", type=int, default=2)
    parser.add_argument("--tensor", type=int, default=4)
    parser.add_argument("--steps", type=int, default=3)
    args = parser.parse_args()

    mesh = build_mesh(args.data, args.tensor)
    cfg = NetConfig()
    model = place_model(Regressor(cfg, rngs=nnx.Rngs(0)), mesh)
    optimizer = nnx.Optimizer(model, optax.adamw(1e-3), wrt=nnx.Param)
    where = batch_sharding(mesh)

    for step, (x, y) in zip(range(args.steps), batches(1, 64, cfg.features)):
        loss = train_step(model, optimizer, jax.device_put(x, where), jax.device_put(y, where))
        print(f"step {step} loss {float(loss):.4f}")
    kernel = model.blocks[0].up.kernel.get_value()
    print("up kernel shard", kernel.addressable_shards[0].data.shape, "of", kernel.shape)


if __name__ == "__main__":
    main()
