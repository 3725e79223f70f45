import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P

import spmd
from layers import Dense, Sequential


def network():
    return Sequential(
        Dense(32, 256, ("data", "model")),
        jax.nn.gelu,
        Dense(256, 256, ("data", "model")),
        jax.nn.gelu,
        Dense(256, 4, ("data",)),
    )


def main(steps=3):
    mesh = Mesh(np.array(jax.devices()).reshape(4, 2), ("data", "model"))
    net = network()
    tx = optax.adam(1e-3)
    params = jax.device_put(net.init(jax.random.key(0)), NamedSharding(mesh, P()))
    opt = tx.init(params)

    @jax.jit
    def step(params, opt, x, y):
        def loss(p):
            return jnp.mean(jnp.square(net(p, x) - y))

        v, g = jax.value_and_grad(loss)(params)
        u, opt = tx.update(g, opt)
        return optax.apply_updates(params, u), opt, v

    rng = np.random.default_rng(3)
    on_data = NamedSharding(mesh, P("data"))
    with spmd.use(mesh):
        for i in range(steps):
            x = rng.normal(size=(16, 32)).astype(np.float32)
            x, y = jax.device_put((x, x[:, :4] ** 2), on_data)
            params, opt, v = step(params, opt, x, y)
            print(i, float(v))
    return step, (params, opt, x, y)


if __name__ == "__main__":
    main()
