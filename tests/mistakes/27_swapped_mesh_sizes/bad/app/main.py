"""Trains an autoencoder with data and model parallelism."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

import jax  # noqa: E402
from config import Flags  # noqa: E402
from jax.sharding import NamedSharding, PartitionSpec as P  # noqa: E402
from mesh import make_mesh_2d  # noqa: E402
from network import create, step  # noqa: E402


def main():
    flags = Flags.parse()
    mesh = make_mesh_2d(flags.data_parallel, flags.model_parallel)  # mistake: positional-arg-order
    params = create(jax.random.key(0), mesh)
    x = jax.random.normal(jax.random.key(1), (flags.batch_size, 16))
    x = jax.device_put(x, NamedSharding(mesh, P("data")))
    print("batch shard", x.addressable_shards[0].data.shape)
    for _ in range(2):
        params, loss = step(params, x)
    print("loss", float(loss))


if __name__ == "__main__":
    main()
