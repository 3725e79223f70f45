import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P

import resmlp
from ema import Ema


def make_update(tx, ema):
    def loss_fn(params, x, y):
        return jnp.mean((resmlp.apply(params, x) - y).astype(jnp.float32) ** 2)

    @jax.jit
    def update(params, opt_state, ema_state, x, y):
        loss, grads = jax.value_and_grad(loss_fn)(params, x, y)
        delta, opt_state = tx.update(grads, opt_state, params)
        params = optax.apply_updates(params, delta)
        return params, opt_state, ema.update(ema_state, params), loss

    return update, jax.jit(loss_fn)


def initialise(mesh, tx, ema):
    params = resmlp.init(jax.random.key(0))
    params = jax.device_put(params, resmlp.shardings(params, mesh))
    return params, tx.init(params), ema.init(params)


def main(steps=3):
    mesh = Mesh(np.array(jax.devices()).reshape(4, 2), ("fsdp", "tp"))
    tx, ema = optax.sgd(1e-2, momentum=0.9), Ema(0.99)
    params, opt_state, ema_state = initialise(mesh, tx, ema)
    update, loss_fn = make_update(tx, ema)
    rng = np.random.default_rng(0)
    place = lambda a: jax.device_put(jnp.asarray(a, jnp.bfloat16), NamedSharding(mesh, P("fsdp")))
    for _ in range(steps):
        x, y = place(rng.normal(size=(16, 64))), place(rng.normal(size=(16, 64)))
        params, opt_state, ema_state, loss = update(params, opt_state, ema_state, x, y)
    print("train", float(loss), "ema", float(loss_fn(ema.value(ema_state, params), x, y)))


if __name__ == "__main__":
    main()
