import equinox as eqx
import jax
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P

from gnn.layers import MessagePassing
from gnn.options import Options


def main():
    options = Options.parse()
    mesh = Mesh(jax.devices(), ("nodes",))
    split = NamedSharding(mesh, P("nodes"))
    k1, k2, k3 = jax.random.split(jax.random.key(0), 3)
    layer = MessagePassing(options.dim, options.rounds, split if options.constrain else None, k1)
    edges = jax.random.randint(k2, (2, 4 * options.nodes), 0, options.nodes)
    nodes = jax.device_put(jax.random.normal(k3, (options.nodes, options.dim)), split)
    out = eqx.filter_jit(layer)(nodes, edges[0], edges[1])
    print("nodes", out.shape)


if __name__ == "__main__":
    main()
