import jax
import jax.numpy as jnp
from flax import nnx


class Tower(nnx.Module):
    def __init__(self, d_in: int, d_out: int, rngs: nnx.Rngs):
        self.proj = nnx.Linear(d_in, d_out, use_bias=False, rngs=rngs)

    def __call__(self, x):
        z = self.proj(x)
        return z / jnp.linalg.norm(z, axis=-1, keepdims=True)


class Clip(nnx.Module):
    def __init__(self, image_dim=12, text_dim=20, dim=16, *, rngs: nnx.Rngs):
        self.image = Tower(image_dim, dim, rngs)
        self.text = Tower(text_dim, dim, rngs)
        self.log_scale = nnx.Param(jnp.log(jnp.array(10.0)))

    def __call__(self, images, texts):
        return self.image(images), self.text(texts), jnp.exp(self.log_scale[...])
