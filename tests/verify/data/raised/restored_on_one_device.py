import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

mesh = Mesh(np.array(jax.devices()).reshape(4, 2), ("data", "model"))


def put(x, *spec):
    return jax.device_put(x, NamedSharding(mesh, P(*spec)))


# says: different devices.*state\['momentum'\]\['w'\].*on device 3
def restore(shape):
    return jax.device_put(jnp.zeros(shape), jax.devices()[3])  # ok: return put(jnp.zeros(shape), "data")


@jax.jit
def step(state, batch):
    grads = batch.T @ (batch @ state["params"]["w"])
    return jax.tree.map(lambda p, m: p - m, state["params"], state["momentum"]), grads, state["count"] + 1


def main():
    state = {
        "params": {"w": put(jnp.ones((64, 32)), "data", "model")},
        "momentum": {"w": restore((64, 32))},
        "count": jnp.zeros(()),
    }
    for _ in range(2):
        step(state, put(jnp.ones((8, 64)), "data"))  # at


main()
