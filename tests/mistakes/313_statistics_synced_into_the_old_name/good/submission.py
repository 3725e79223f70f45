"""One update of the parameters, and of the statistics beside them."""

import functools

import jax


@functools.partial(jax.pmap, axis_name="batch", in_axes=(None, 0, 0, 0), static_broadcasted_argnums=0)
def pmapped_train_step(workload, params, stats, batch):
    (loss, new_stats), grads = jax.value_and_grad(workload.loss, has_aux=True)(params, stats, batch)
    loss, grads = jax.lax.pmean((loss, grads), "batch")
    return jax.tree.map(lambda p, g: p - 0.1 * g, params, grads), new_stats, loss


def update_params(workload, params, model_state, batch, global_step):
    """The parameters and the state of the model after one more batch, and its loss."""
    new_params, new_model_state, loss = pmapped_train_step(workload, params, model_state, batch)

    if global_step % workload.steps_per_epoch == 0:
        new_model_state = workload.sync_batch_stats(new_model_state)

    return new_params, new_model_state, loss
