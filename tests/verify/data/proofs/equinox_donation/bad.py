import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

mesh = Mesh(np.array(jax.devices()), ("data",))


class Net(eqx.Module):
    w: jax.Array
    activation: object = jax.nn.relu


def arguments():
    sharded = NamedSharding(mesh, P("data"))
    return Net(jax.device_put(jnp.ones((8, 4)), sharded)), jax.device_put(jnp.ones((8, 4)), sharded)


@eqx.filter_jit(donate="all-except-first")
def main(net, x):
    return Net(net.activation(net.w + x)), x.sum()
