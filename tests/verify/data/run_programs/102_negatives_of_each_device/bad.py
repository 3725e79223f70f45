"""Contrastive training of two towers with pmap."""
import functools

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax import jax_utils
from flax.training import train_state


class Tower(nn.Module):
    width: int = 1024
    out: int = 256

    @nn.compact
    def __call__(self, x):
        x = nn.gelu(nn.Dense(self.width)(x))
        x = nn.gelu(nn.Dense(self.width)(x))
        x = nn.Dense(self.out)(x)
        return x / jnp.linalg.norm(x, axis=-1, keepdims=True)


class Clip(nn.Module):
    def setup(self):
        self.image, self.text = Tower(), Tower()
        self.scale = self.param("scale", lambda _: jnp.log(10.0))

    def __call__(self, image, text):
        return self.image(image), self.text(text), jnp.exp(self.scale)


def clip_loss(params, apply_fn, image, text):
    zi, zt, scale = apply_fn({"params": params}, image, text)
    logits = scale * zi @ zt.T  # here
    labels = jnp.arange(logits.shape[0])
    return optax.softmax_cross_entropy_with_integer_labels(logits, labels).mean()


@functools.partial(jax.pmap, axis_name="batch", donate_argnums=0)
def train_step(state, image, text):
    loss, grads = jax.value_and_grad(clip_loss)(state.params, state.apply_fn, image, text)
    grads = jax.lax.pmean(grads, "batch")
    return state.apply_gradients(grads=grads), jax.lax.pmean(loss, "batch")


def main():
    model = Clip()
    rng = np.random.default_rng(0)
    params = model.init(jax.random.key(0), jnp.zeros((1, 768)), jnp.zeros((1, 512)))["params"]
    state = train_state.TrainState.create(apply_fn=model.apply, params=params, tx=optax.adamw(1e-3))
    state = jax_utils.replicate(state)
    n = jax.local_device_count()
    for _ in range(3):
        image = rng.standard_normal((n, 32, 768), dtype=np.float32)
        text = rng.standard_normal((n, 32, 512), dtype=np.float32)
        state, loss = train_step(state, image, text)
        print(loss[0])


main()
