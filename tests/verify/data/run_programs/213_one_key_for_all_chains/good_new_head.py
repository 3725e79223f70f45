"""A new head on pretrained weights: every device draws the same one, which all train from then on."""
import jax
import jax.numpy as jnp
import numpy as np

DEVICES = jax.local_device_count()


def begin(encoder, batch, key):
    features = jnp.tanh(batch @ encoder)
    head = jax.random.normal(key, (features.shape[-1], 4)) * 0.1
    return {"encoder": encoder, "head": head, "bias": jnp.zeros(4)}


def main():
    encoder = np.random.default_rng(2).normal(size=(16, 32)).astype(np.float32)
    batch = jnp.zeros((DEVICES, 2, 16))
    keys = jnp.broadcast_to(jax.random.PRNGKey(3), (DEVICES, 2))
    weights = jax.pmap(begin)(jnp.broadcast_to(encoder, (DEVICES, 16, 32)), batch, keys)
    print(jax.tree.map(lambda one: one.shape, weights))


main()
