"""Trains on simulated devices, to try a configuration on a laptop."""

import argparse
import os

import jax

import defaults
import model
import parallel


def parse():
    base = defaults.Defaults()
    parser = argparse.ArgumentParser()
    parser.add_argument("--simulate", type=int, default=0, help="number of CPU devices to simulate")
    parser.add_argument("--lr", type=float, default=base.learning_rate)
    parser.add_argument("--steps", type=int, default=base.steps)
    return parser.parse_args()


def main():
    args = parse()
    if args.simulate:
        flags = os.environ.get("XLA_FLAGS", "")
        os.environ["XLA_FLAGS"] = f"{flags} --xla_force_host_platform_device_count={args.simulate}"
    batch = defaults.Defaults().per_device_batch * defaults.num_devices()
    mesh = parallel.data_mesh()
    params = model.init(jax.random.key(defaults.SEED))
    x = jax.random.normal(jax.random.key(1), (batch, 8))
    params, x = parallel.place(mesh, params, x)
    step = jax.jit(jax.value_and_grad(model.loss))
    for _ in range(args.steps):
        value, grads = step(params, x)
        params = jax.tree.map(lambda p, g: p - args.lr * g, params, grads)
    print("mesh", dict(mesh.shape), "loss", float(value))


if __name__ == "__main__":
    main()
