"""A denoising experiment: each example is shown at a noise level that is drawn for it."""

import jax
import jax.numpy as jnp
import numpy as np

from experiment import Experiment

WIDTH, ROWS = 8, 4


class Denoise(Experiment):
    def init_params(self):
        return jnp.eye(WIDTH) * 0.5

    def loss_fn(self, params, batch, rng):
        time_rng, noise_rng = jax.random.split(rng)
        times = jax.random.uniform(time_rng, (batch.shape[0], 1))
        noisy = jnp.sqrt(1 - times) * batch + jnp.sqrt(times) * jax.random.normal(noise_rng, batch.shape)
        loss = jnp.mean((noisy @ params - batch) ** 2)
        return loss, {"loss": loss, "times": times[:, 0]}


def batches(seed, count):
    rng = np.random.default_rng(seed)
    for _ in range(count):
        yield rng.normal(size=(jax.local_device_count(), ROWS, WIDTH)).astype(np.float32)


def main():
    experiment = Denoise(seed=0, learning_rate=0.1)
    experiment.train(batches(1, 3))
    drawn = np.asarray(experiment.evaluate(batches(2, 1))[0])
    distinct = {tuple(one) for one in drawn.round(6).tolist()}
    print("noise of its own on each device:", len(distinct) == jax.local_device_count())


if __name__ == "__main__":
    main()
