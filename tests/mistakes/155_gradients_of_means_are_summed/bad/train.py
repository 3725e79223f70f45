"""Trains on rows that each device gets a part of."""
import argparse

import jax
import numpy as np

import learner


def rows(count, features, classes, seed):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(count, features)).astype(np.float32)
    return x, x[:, :classes].argmax(-1)


def split(array, devices):
    return array.reshape(devices, -1, *array.shape[1:])


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=30)
    parser.add_argument("--batch", type=int, default=128)
    parser.add_argument("--lr", type=float, default=0.5)
    args = parser.parse_args()
    devices = jax.local_device_count()
    params = learner.init(jax.random.key(0), 16, 4)
    params = jax.tree.map(lambda p: np.stack([p] * devices), params)
    model = learner.Learner(args.lr)
    for step in range(args.steps):
        x, y = rows(args.batch, 16, 4, seed=step)
        params, loss, norm = model.update(params, split(x, devices), split(y, devices))
        if step % 10 == 0:
            print(f"step {step} loss {float(loss.mean()):.4f} gradient norm {float(norm.mean()):.4f}")


if __name__ == "__main__":
    main()
