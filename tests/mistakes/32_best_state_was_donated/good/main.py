"""Early stopping on a validation set."""

import argparse

import jax
import numpy as np
import optax
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P

from learner import Learner


def batch(seed, sharding):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(16, 8)).astype(np.float32)
    return jax.device_put((x, x.sum(axis=1, keepdims=True)), sharding)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=6)
    parser.add_argument("--patience", type=int, default=2)
    parser.add_argument("--lr", type=float, default=5.0)
    args = parser.parse_args()
    mesh = Mesh(jax.devices(), ("data",))
    sharding = NamedSharding(mesh, P("data"))
    learner = Learner(mesh, optax.sgd(args.lr))
    worse = 0
    for i in range(args.steps):
        before = learner.best_loss
        loss = learner.evaluate(*batch(1000, sharding))
        worse = 0 if loss < before else worse + 1
        print(f"step {i} validation {loss:.3f}")
        if worse > args.patience:
            break
        learner.update(*batch(i, sharding))
    print("exported", sorted(learner.export()))


if __name__ == "__main__":
    main()
