"""What a submission brings: how its optimizer begins, and how one step updates the parameters."""

import functools

import jax
import jax.numpy as jnp
import optax


def init_optimizer_state(workload, params, rate=1e-2):
    tx = optax.adam(rate)
    return tx.init(params), tx.update


def train_step(workload, opt_update_fn, params, opt_state, batch, label_smoothing):
    def loss_fn(params):
        logits = workload.apply(params, batch["inputs"])
        targets = optax.smooth_labels(jax.nn.one_hot(batch["targets"], workload.classes), label_smoothing)
        return optax.softmax_cross_entropy(logits, targets).mean()

    workload.traced()
    loss, grads = jax.value_and_grad(loss_fn)(params)
    updates, opt_state = opt_update_fn(grads, opt_state, params)
    return optax.apply_updates(params, updates), opt_state, loss


def update_params(workload, params, optimizer_state, batch, hyperparameters):
    """The parameters and the state of the optimizer after one more batch."""
    opt_state, opt_update_fn = optimizer_state
    smoothing = jnp.float32(hyperparameters.get("label_smoothing", 0.0))
    jitted = jax.jit(functools.partial(train_step, workload, opt_update_fn), donate_argnums=(0, 1))  # mistake: recompile
    params, opt_state, loss = jitted(params, opt_state, batch, smoothing)
    return (opt_state, opt_update_fn), params, loss
