import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax

import model as M
from early_stop import EarlyStopping


@eqx.filter_jit
def evaluate(model, s, y):
    return jnp.mean((jax.vmap(model)(s) - y) ** 2)


@eqx.filter_jit
def step(model, opt, tx, s, y):
    v, g = eqx.filter_value_and_grad(lambda m: jnp.mean((jax.vmap(m)(s) - y) ** 2))(model)
    u, opt = tx.update(g, opt, eqx.filter(model, eqx.is_array))
    return eqx.apply_updates(model, u), opt, v


def main(epochs=4, polish=1):
    rng = np.random.default_rng(0)
    model = M.create(jax.random.key(0))
    tx = optax.adam(1e-3)
    opt = tx.init(eqx.filter(model, eqx.is_array))
    stop = EarlyStopping(patience=2)
    held_out = M.data(np.random.default_rng(1), 16)
    for _ in range(epochs):
        model, opt, _ = step(model, opt, tx, *M.data(rng, 32))
        if stop.observe(float(evaluate(model, *held_out)), model):
            break
    # short low learning-rate phase from the best point
    model = rolled_back = stop.best()
    tx = optax.sgd(1e-4)
    opt = tx.init(eqx.filter(model, eqx.is_array))
    for _ in range(polish):
        model, opt, v = step(model, opt, tx, *M.data(rng, 32))
    print("best", stop.value, "final", float(v))
    return rolled_back


if __name__ == "__main__":
    main()
