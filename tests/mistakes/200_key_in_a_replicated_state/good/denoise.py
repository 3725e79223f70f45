"""A denoiser and its pmapped training step."""
import flax.struct
import jax
import jax.numpy as jnp


class Trainer(flax.struct.PyTreeNode):
    weights: dict
    noise_key: jax.Array
    rate: float = flax.struct.field(pytree_node=False, default=0.05)
    """Of plain gradient descent."""


def predict(weights, x):
    return jnp.tanh(x @ weights["in"]) @ weights["out"]


def step(trainer, images):
    key, noise_key = jax.random.split(trainer.noise_key)
    noise_key = jax.random.fold_in(noise_key, jax.lax.axis_index("devices"))
    noise = jax.random.normal(noise_key, images.shape)

    def loss_fn(weights):
        return jnp.mean((predict(weights, images + noise) - noise) ** 2)

    loss, grads = jax.value_and_grad(loss_fn)(trainer.weights)
    grads = jax.lax.pmean(grads, "devices")
    weights = jax.tree.map(lambda w, g: w - trainer.rate * g, trainer.weights, grads)
    return trainer.replace(weights=weights, noise_key=key), jax.lax.pmean(loss, "devices"), noise
