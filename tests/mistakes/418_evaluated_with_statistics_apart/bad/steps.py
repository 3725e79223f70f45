import jax
import jax.numpy as jnp


def train_step(state, x, y):
    def loss_fn(params):
        variables = {"params": params, "batch_stats": state.batch_stats}
        guess, new = state.apply_fn(variables, x, True, mutable=["batch_stats"])
        return jnp.mean((guess - y) ** 2), new["batch_stats"]

    (loss, stats), grads = jax.value_and_grad(loss_fn, has_aux=True)(state.params)
    grads = jax.lax.pmean(grads, "devices")
    return state.apply_gradients(grads=grads, batch_stats=stats), jax.lax.pmean(loss, "devices")


def eval_step(state, x):
    return state.apply_fn({"params": state.params, "batch_stats": state.batch_stats}, x, False)
