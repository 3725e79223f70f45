"""Actors that get the learner's parameters before each round; the learner is mapped over the devices."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np

DEVICES, OBS, HIDDEN, ACTIONS = jax.local_device_count(), 64, 512, 8


def logits(params, obs):
    return jnp.tanh(obs @ params["torso"]) @ params["head"]


@partial(jax.pmap, axis_name="devices", donate_argnums=0)
def learn(params, obs, returns):
    def loss(params):
        return -jnp.mean(jax.nn.log_softmax(logits(params, obs))[:, 0] * returns)

    grads = jax.lax.pmean(jax.grad(loss)(params), "devices")
    return jax.tree.map(lambda p, g: p - 0.01 * g, params, grads)


@jax.jit
def act(params, obs):
    return logits(params, obs).argmax(-1)


def copies(tree):
    return jax.pmap(lambda _: tree)(jnp.arange(DEVICES))


def latest(params):
    return {name: value.addressable_shards[0].data[0] for name, value in params.items()}


def main():
    random = np.random.default_rng(0)
    params = copies({
        "torso": random.normal(size=(OBS, HIDDEN)).astype(np.float32) * 0.1,
        "head": random.normal(size=(HIDDEN, ACTIONS)).astype(np.float32) * 0.1,
    })
    for round in range(4):
        obs = random.normal(size=(DEVICES * 16, OBS)).astype(np.float32)
        actions = np.asarray(act(latest(params), obs))
        params = learn(params, obs.reshape(DEVICES, 16, OBS), actions.reshape(DEVICES, 16).astype(np.float32))
        print(round, actions[:4])


main()
