"""Samples of a Gaussian, and how many proposals were accepted."""
import jax.numpy as jnp
import numpy as np

from chain import Chains


def log_density(x):
    return -0.5 * jnp.sum(x**2, axis=-1)


def moments(samples):
    """Mean and variance of each coordinate."""
    return samples.mean(axis=0), samples.var(axis=0)


def report(chains, accepted):
    mean, variance = moments(chains.samples)
    print(f"accepted {np.mean(accepted):.2f}, variance {variance.mean():.2f}")
    print("means", " ".join(f"{one:.2f}" for one in mean))


def main():
    chains = Chains(log_density, count=256, width=4)
    accepted = [chains.sweep(step=1.5) for _ in range(50)]
    report(chains, accepted)


if __name__ == "__main__":
    main()
