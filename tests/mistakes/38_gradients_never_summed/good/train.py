import argparse

import jax
import numpy as np
import optax
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P

import model
from step import make_train_step


def agree(tree):
    """Whether every device holds the same numbers."""
    for leaf in jax.tree.leaves(tree):
        shards = [np.asarray(s.data) for s in leaf.addressable_shards]
        if any(not np.array_equal(shards[0], other) for other in shards[1:]):
            return False
    return True


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=3)
    args = parser.parse_args()
    mesh = Mesh(jax.devices(), ("batch",))
    tx = optax.sgd(0.1)
    params = jax.device_put(model.init(jax.random.key(0)), NamedSharding(mesh, P()))
    opt_state = tx.init(params)
    step = make_train_step(mesh, tx)
    rng = np.random.default_rng(0)
    for _ in range(args.steps):
        x = rng.normal(size=(32, 8)).astype(np.float32)
        batch = jax.device_put({"x": x, "y": x.sum(axis=1)}, NamedSharding(mesh, P("batch")))
        params, opt_state, value = step(params, opt_state, batch)
        print(f"loss {float(value):.4f}")
    print("replicas agree:", agree(params))


if __name__ == "__main__":
    main()
