import jax
import jax.numpy as jnp

import files
import layout


def init(key):
    one, two = jax.random.split(key)
    return {"in": jax.random.normal(one, (64, 32)), "out": jax.random.normal(two, (32, 64))}


def loss_fn(params, x):
    return jnp.mean((jnp.tanh(x @ params["in"]) @ params["out"] - x) ** 2)


class Trainer:
    def __init__(self, mesh, path):
        like = jax.eval_shape(init, jax.random.key(0))
        places = layout.where(mesh, like)
        if path.exists():
            params, moments = files.read(path, like, like)
            self.params = layout.laid_out(params, places)
            self.moments = layout.laid_out(moments, places)
        else:
            self.params = jax.jit(init, out_shardings=places)(jax.random.key(0))
            zeros = jax.jit(lambda p: jax.tree.map(jnp.zeros_like, p), out_shardings=places)
            self.moments = zeros(self.params)
        self.update = jax.jit(self._update, out_shardings=(places, places))

    def _update(self, params, moments, x):
        grads = jax.grad(loss_fn)(params, x)
        moments = jax.tree.map(lambda m, g: 0.9 * m + g, moments, grads)
        return jax.tree.map(lambda p, m: p - 0.1 * m, params, moments), moments

    def step(self, x):
        self.params, self.moments = self.update(self.params, self.moments, x)
