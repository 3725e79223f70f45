import jax
import jax.numpy as jnp
from jax.sharding import NamedSharding, PartitionSpec as P

from model import Block
from parallel.mesh import MeshConfig
from parallel.rules import shard_tree


def main():
    mesh = MeshConfig().build()
    block = Block()
    x = jnp.ones((4, 16, 32))
    params = block.init(jax.random.PRNGKey(0), x)["params"]
    params = shard_tree(params, mesh)
    x = jax.device_put(x, NamedSharding(mesh, P("dp")))
    y = jax.jit(lambda p, x: block.apply({"params": p}, x))(params, x)
    print("out:", y.shape)


if __name__ == "__main__":
    main()
