"""Trains from drawn transitions, with two copies of the environments on each device."""

import jax
import jax.numpy as jnp
import numpy as np
import optax

from learner import Learner, Params, make_learner

COPIES, OBS, ACTIONS, LENGTH = 2, 4, 3, 16


def transitions(rng, devices):
    shape = (devices, COPIES, LENGTH)
    return (
        rng.normal(size=(*shape, OBS)).astype(np.float32),
        rng.integers(0, ACTIONS, size=shape),
        rng.normal(size=shape).astype(np.float32),
    )


def main():
    devices, rng = jax.local_device_count(), np.random.default_rng(0)
    tx = optax.adam(1e-2)
    params = Params(jnp.full((OBS, ACTIONS), 0.1), jnp.full((OBS, 1), 0.1))
    state = Learner(params, tx.init(params))
    state = jax.tree.map(lambda x: jnp.broadcast_to(x, (devices, COPIES, *x.shape)), state)
    learn = make_learner(tx)
    for _ in range(3):
        state, _ = learn(state, transitions(rng, devices))
    critic = np.asarray(state.params.critic)
    print("copies agree:", bool(np.allclose(critic, critic[:1, :1], atol=1e-6)))


if __name__ == "__main__":
    main()
