import jax
import jax.numpy as jnp
from jax.sharding import Mesh

from lm import model
from lm.partition_rules import tree_shardings


def main():
    mesh = Mesh(jax.devices(), ("mp",))
    params = model.init(jax.random.key(0))
    params = jax.device_put(params, tree_shardings(params, mesh))
    tokens = jnp.arange(24).reshape(2, 12)

    @jax.jit
    def loss(params):
        return jnp.mean(model.apply(params, tokens) ** 2)

    print("final loss", float(loss(params)))


if __name__ == "__main__":
    main()
