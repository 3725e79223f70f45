"""A policy is held near a reference by the log-probabilities that both give.

The reference never changes; what it says of a row anchors the policy there.
"""

import jax
import jax.numpy as jnp
import numpy as np

from rows import everywhere, to_devices


@jax.jit
def log_probability(weights, chosen):
    return jax.nn.log_softmax(chosen @ weights).max(-1)


@jax.jit
def improve(weights, chosen, anchor):
    def gap(w):
        return jnp.mean((jax.nn.log_softmax(chosen @ w).max(-1) - anchor) ** 2)

    return weights - 0.1 * jax.grad(gap)(weights)


def train(policy, reference, examples):
    for example in examples:
        placed = to_devices(example)
        anchor = log_probability(reference, placed["chosen"])
        policy = improve(policy, placed["chosen"], anchor)
        print("reference rows on one device", anchor.addressable_shards[0].data.shape)
    return policy


def main():
    rng = np.random.default_rng(0)
    policy, reference = everywhere([rng.normal(size=(32, 8)).astype(np.float32) for _ in range(2)])
    examples = [{"chosen": rng.normal(size=(64, 32)).astype(np.float32)} for _ in range(2)]
    train(policy, reference, examples)


if __name__ == "__main__":
    main()
