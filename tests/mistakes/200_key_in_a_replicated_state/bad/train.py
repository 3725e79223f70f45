"""Trains the denoiser on all devices."""
import jax
import jax.numpy as jnp
import numpy as np
from flax import jax_utils

from denoise import Trainer, step

pmapped_step = jax.pmap(step, axis_name="devices")


def batches(count, size, width):
    rng = np.random.default_rng(3)
    for _ in range(count):
        yield rng.normal(size=(jax.device_count(), size, width)).astype(np.float32)


def main():
    first, second, noise_key = jax.random.split(jax.random.key(0), 3)
    weights = {
        "in": 0.1 * jax.random.normal(first, (6, 32)),
        "out": 0.1 * jax.random.normal(second, (32, 6)),
    }
    trainer = jax_utils.replicate(Trainer(weights, noise_key))
    for images in batches(8, 4, 6):
        trainer, loss, noise = pmapped_step(trainer, images)
    rows = {row.tobytes() for row in np.asarray(noise).reshape(-1, 6)}
    print(f"loss {float(jnp.mean(loss)):.4f}, different rows of noise: {len(rows)} of {noise[..., 0].size}")


if __name__ == "__main__":
    main()
