import equinox as eqx
import jax
import jax.numpy as jnp
import optax

from ode.compile import compiled, place

optimizer = optax.adam(1e-2)


@compiled
def step(model, opt_state, batch):
    model, opt_state, batch = place(model, opt_state, batch)

    @eqx.filter_value_and_grad
    def loss_fn(model):
        return jnp.mean((jax.vmap(model)(batch) - 2 * batch) ** 2)

    loss, grads = loss_fn(model)
    updates, opt_state = optimizer.update(grads, opt_state, eqx.filter(model, eqx.is_array))
    return eqx.apply_updates(model, updates), opt_state, loss
