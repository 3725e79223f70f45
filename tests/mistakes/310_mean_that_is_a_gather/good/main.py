"""Samples a harmonic oscillator and adapts the step of the walkers to the acceptance over all devices."""

import jax
import jax.numpy as jnp
import numpy as np

from parallel import on_the_host, pmap_pmax, pmap_pmean, split_over_devices

TARGET = 0.6


def log_density(x):
    return -0.5 * jnp.sum(x**2, axis=-1)


@jax.pmap
def propose(key, walkers, width):
    moved, kept = jax.random.split(key)
    new = walkers + width * jax.random.normal(moved, walkers.shape)
    ratio = jnp.exp(log_density(new) - log_density(walkers))
    accepted = jax.random.uniform(kept, ratio.shape) < ratio
    return jnp.where(accepted[:, None], new, walkers), jnp.mean(accepted.astype(jnp.float32))


def sample(key, walkers, width, steps):
    for _ in range(steps):
        key, now = jax.random.split(key)
        keys = jax.random.split(now, jax.local_device_count())
        walkers, acceptance = propose(keys, walkers, width)
        mean = on_the_host(pmap_pmean(acceptance))
        width = width * (1.0 + 0.1 * (mean - TARGET))
    return walkers, width, mean, on_the_host(pmap_pmax(acceptance))


def main():
    walkers = split_over_devices(jax.random.normal(jax.random.key(0), (64, 3)))
    width = np.ones(jax.local_device_count(), np.float32)
    _, width, mean, _ = sample(jax.random.key(1), walkers, width, 5)
    print("numbers in the mean:", mean.size)


if __name__ == "__main__":
    main()
