"""An optimizer whose state is shared out over the devices."""
import jax
import jax.numpy as jnp
import optax


class SharedOut:
    """Plain SGD on the part of the parameters that a device owns."""

    def __init__(self, rate, limit, axis):
        self.rate, self.limit, self.axis = rate, limit, axis

    def own_part(self, grads):
        count = jax.lax.axis_size(self.axis)
        return jax.tree.map(lambda g: jax.lax.psum_scatter(g, self.axis, tiled=True) / count, grads)

    def clip(self, grads):
        norm = jnp.sqrt(jax.lax.psum(optax.global_norm(grads) ** 2, self.axis))
        scale = jnp.minimum(1.0, self.limit / (norm + 1e-6))
        return jax.tree.map(lambda g: g * scale, grads)

    def update(self, params, grads):
        mine = self.clip(self.own_part(grads))
        step = jax.tree.map(lambda g: jax.lax.all_gather(-self.rate * g, self.axis, tiled=True), mine)
        return optax.apply_updates(params, step)
