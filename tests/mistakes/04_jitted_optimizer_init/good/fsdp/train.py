"""Entry point."""

import jax
import jax.numpy as jnp
import optax
from jax.sharding import NamedSharding, PartitionSpec as P

from fsdp.optim import build_optimizer, create_opt_state
from fsdp.sharding import AXIS, fsdp_shardings, make_mesh


def init_params(key):
    k1, k2 = jax.random.split(key)
    return {"w1": jax.random.normal(k1, (16, 64)) * 0.1, "w2": jax.random.normal(k2, (64, 16)) * 0.1}


def loss_fn(params, x):
    return jnp.mean((jnp.tanh(x @ params["w1"]) @ params["w2"] - x) ** 2)


def main(steps: int = 2):
    mesh = make_mesh()
    key = jax.random.key(0)
    shardings = fsdp_shardings(jax.eval_shape(init_params, key), mesh)
    params = jax.jit(init_params, out_shardings=shardings)(key)
    tx = build_optimizer(1e-3, warmup=1, total=10)
    opt_state = create_opt_state(tx, params, mesh)
    mu = optax.tree_utils.tree_get(opt_state, "mu")
    print(f"mu/w1: {len(mu['w1'].sharding.device_set)} device(s), {mu['w1'].sharding}")

    @jax.jit
    def step(params, opt_state, x):
        loss, grads = jax.value_and_grad(loss_fn)(params, x)
        updates, opt_state = tx.update(grads, opt_state, params)
        return optax.apply_updates(params, updates), opt_state, loss

    x = jax.device_put(jnp.ones((32, 16)), NamedSharding(mesh, P(AXIS)))
    for _ in range(steps):
        params, opt_state, loss = step(params, opt_state, x)
    print("loss", float(loss))


if __name__ == "__main__":
    main()
