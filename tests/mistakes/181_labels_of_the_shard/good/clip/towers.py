import equinox as eqx
import jax
import jax.numpy as jnp


class ImageTower(eqx.Module):
    patch: eqx.nn.Linear
    mlp: eqx.nn.MLP

    def __init__(self, patch_dim, dim, key):
        a, b = jax.random.split(key)
        self.patch = eqx.nn.Linear(patch_dim, dim, key=a)
        self.mlp = eqx.nn.MLP(dim, dim, 2 * dim, 2, activation=jax.nn.gelu, key=b)

    def __call__(self, patches):
        return self.mlp(jax.nn.gelu(jax.vmap(self.patch)(patches)).mean(0))


class TextTower(eqx.Module):
    embed: eqx.nn.Embedding
    mlp: eqx.nn.MLP

    def __init__(self, vocab, dim, key):
        a, b = jax.random.split(key)
        self.embed = eqx.nn.Embedding(vocab, dim, key=a)
        self.mlp = eqx.nn.MLP(dim, dim, 2 * dim, 2, activation=jax.nn.gelu, key=b)

    def __call__(self, tokens):
        return self.mlp(jax.vmap(self.embed)(tokens).mean(0))


class CLIP(eqx.Module):
    image: ImageTower
    text: TextTower
    log_scale: jax.Array

    def __init__(self, patch_dim, vocab, dim, key):
        a, b = jax.random.split(key)
        self.image, self.text = ImageTower(patch_dim, dim, a), TextTower(vocab, dim, b)
        self.log_scale = jnp.log(jnp.float32(1 / 0.07))

    def __call__(self, patches, tokens):
        unit = lambda z: z / jnp.linalg.norm(z, axis=-1, keepdims=True)
        return unit(jax.vmap(self.image)(patches)), unit(jax.vmap(self.text)(tokens))
