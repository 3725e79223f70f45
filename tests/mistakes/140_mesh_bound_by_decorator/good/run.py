import jax
import numpy as np
from jax.sharding import NamedSharding, PartitionSpec as P

import gnn
from parallel import init_parallel


def graph(nodes=64, edges=512, dim=16, seed=0):
    rng = np.random.default_rng(seed)
    h = rng.normal(size=(nodes, dim)).astype(np.float32)
    return h, rng.integers(0, nodes, edges), rng.integers(0, nodes, edges)


def main():
    mesh = init_parallel(edge=8)
    repl = NamedSharding(mesh, P())
    params, inputs = jax.device_put((gnn.init(jax.random.key(0), 16, 64, 2), graph()), repl)
    out = jax.jit(gnn.propagate)(params, *inputs)
    print(out.shape, float(out.std()))
    return params, inputs


if __name__ == "__main__":
    main()
