import argparse
from functools import partial

import jax
import numpy as np
from jax.experimental import mesh_utils
from jax.sharding import Mesh, NamedSharding, PartitionSpec

import net
from steps import sgd_step


def parse(argv=None):
    parser = argparse.ArgumentParser()
    parser.add_argument("--lr", type=float, default=0.1)
    parser.add_argument("--l2", type=float, default=1e-4)
    parser.add_argument("--epochs", type=int, default=2)
    return parser.parse_args(argv)


def load(mesh, n=4, size=32):
    rng = np.random.default_rng(0)
    sharding = NamedSharding(mesh, PartitionSpec("batch"))
    for _ in range(n):
        x = rng.normal(size=(size, 20)).astype(np.float32)
        y = rng.integers(0, 5, size=size)
        yield jax.device_put((x, y), sharding)


def main(argv=None):
    args = parse(argv)
    mesh = Mesh(mesh_utils.create_device_mesh((jax.device_count(),)), ("batch",))
    params = net.init(jax.random.key(1), [20, 64, 5])
    params = jax.device_put(params, NamedSharding(mesh, PartitionSpec()))
    # the whole set fits on the devices
    data = list(load(mesh))
    step = jax.jit(partial(sgd_step, args), donate_argnums=(0,))
    donated = step.lower(params, data[0]).args_info[0]
    print("params donated", all(one.donated for one in jax.tree.leaves(donated[0])))
    for epoch in range(args.epochs):
        for batch in data:
            params, loss = step(params, batch)
        print(f"epoch {epoch}: {loss:.4f}")


if __name__ == "__main__":
    main()
