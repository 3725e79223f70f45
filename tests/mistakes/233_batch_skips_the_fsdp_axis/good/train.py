from functools import partial

import jax
import numpy as np
import optax

import flow
from settings import Settings, batch_sharding, param_sharding


def run(s: Settings):
    mesh = s.mesh.build()
    params = flow.init(jax.random.key(0), s.features, s.width)
    params = jax.tree.map(lambda x: jax.device_put(x, param_sharding(mesh, x)), params)
    tx = optax.chain(optax.clip(1.0), optax.adam(s.lr))
    opt = tx.init(params)

    @partial(jax.jit, donate_argnums=(0, 1))
    def step(params, opt, x):
        loss, g = jax.value_and_grad(lambda p: -flow.log_prob(p, x).mean())(params)
        u, opt = tx.update(g, opt)
        return optax.apply_updates(params, u), opt, loss

    rng = np.random.default_rng(0)
    mix = rng.normal(size=(s.features, s.features)) * 0.3
    for i in range(s.steps):
        x = (rng.normal(size=(s.batch, s.features)) @ mix).astype(np.float32)
        x = jax.device_put(x, batch_sharding(s, mesh))
        params, opt, loss = step(params, opt, x)
        print(i, float(loss))
    return x


if __name__ == "__main__":
    run(Settings())
