import jax
import optax


def build(lr, total):
    schedule = optax.cosine_onecycle_schedule(total + 2, lr)
    return optax.chain(optax.clip_by_global_norm(5.0), optax.adam(schedule))


def init_state(tx, params):
    return jax.jit(tx.init)(params)  # mistake: optimizer-state-unsharded
