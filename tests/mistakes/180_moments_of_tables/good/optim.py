import jax
import optax


def build(lr, total):
    schedule = optax.cosine_onecycle_schedule(total + 2, lr)
    return optax.chain(optax.clip_by_global_norm(5.0), optax.adam(schedule))


def init_state(tx, params):
    shardings = optax.tree_map_params(
        tx, lambda _, p: p.sharding, jax.eval_shape(tx.init, params), params,
        transform_non_params=lambda _: params["mean"].sharding,
    )
    return jax.jit(tx.init, out_shardings=shardings)(params)
