"""Full-batch fit with the portfolio split over devices."""
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax import lax
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P

import claims
import poisson


def make_objective(mesh, x, counts, exposure):
    rows = NamedSharding(mesh, P("rows"))
    x, counts = jax.device_put((x, counts), rows)
    exposure = jax.device_put(jnp.asarray(exposure), rows)

    def local(params, x, counts, exposure):
        total = poisson.deviance(params, x, counts, exposure)
        return lax.psum(total, "rows") / lax.psum(x.shape[0], "rows")

    specs = (P(), P("rows"), P("rows"), P("rows"))
    mapped = jax.shard_map(local, mesh=mesh, in_specs=specs, out_specs=P())
    return lambda params: mapped(params, x, counts, exposure)


def fit(objective, params, steps):
    tx = optax.adam(0.05)

    @jax.jit
    def step(params, state):
        value, grads = jax.value_and_grad(objective)(params)
        updates, state = tx.update(grads, state)
        return optax.apply_updates(params, updates), state, value

    state = tx.init(params)
    for i in range(steps):
        params, state, value = step(params, state)
        if i % 50 == 0:
            print(f"iteration {i} deviance {float(value):.5f}")
    return params, float(value)


def main(rows=4096, factors=5):
    mesh = Mesh(np.array(jax.devices()), ("rows",))
    x, counts, exposure = claims.load(rows, factors)
    objective = make_objective(mesh, x, counts, exposure)
    params, value = fit(objective, poisson.init(factors), 150)
    print("beta", np.asarray(params["beta"]).round(4))
    print(f"intercept {float(params['intercept']):.4f} deviance {value:.5f}")


if __name__ == "__main__":
    main()
