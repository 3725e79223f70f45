import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P

from optimizer import Momentum


def model(params, x):
    return jnp.tanh(x @ params["a"]) @ params["b"]


def make_step(opt, shardings):
    def step(params, velocity, x, y):
        def loss(p):
            return jnp.mean((model(p, x) - y) ** 2)

        value, grads = jax.value_and_grad(loss)(params)
        params, velocity = opt.apply(params, grads, velocity, shardings)
        return params, velocity, value

    return jax.jit(step, donate_argnums=(0, 1))


def main():
    mesh = Mesh(np.array(jax.devices()).reshape(2, 4), ("data", "model"))
    specs = {"a": P(None, "model"), "b": P("model", None)}
    shapes = {"a": (16, 64), "b": (64, 4)}
    key = jax.random.key(0)
    params = {
        name: jax.device_put(jax.random.normal(key, shapes[name]), NamedSharding(mesh, specs[name]))
        for name in specs
    }
    opt = Momentum()
    velocity = opt.init(params)
    step = make_step(opt, {name: NamedSharding(mesh, spec) for name, spec in specs.items()})
    rows = NamedSharding(mesh, P("data"))
    for _ in range(2):
        x = jax.device_put(np.ones((8, 16), np.float32), rows)
        y = jax.device_put(np.ones((8, 4), np.float32), rows)
        params, velocity, loss = step(params, velocity, x, y)
        print(float(loss))


if __name__ == "__main__":
    main()
