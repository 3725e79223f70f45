import functools

import jax
import jax.numpy as jnp

import moments
import world

AXIS = "devices"


class Learner:
    def __init__(self, devices):
        self.devices = devices
        self.advance = jax.pmap(self._advance, axis_name=AXIS)

    def initial(self):
        copies = functools.partial(jnp.repeat, repeats=self.devices, axis=0)
        shared = (jnp.zeros(world.SIZE), moments.none(world.SIZE))
        shared = jax.tree.map(lambda x: copies(x[None]), shared)
        keys = jax.random.split(jax.random.key(0), self.devices)
        return (*shared, jax.vmap(world.start)(keys), keys)

    def _advance(self, state):
        def update(state, _):
            w, seen, place, key = state
            key, own = jax.random.split(key)
            place = world.move(place, own)
            inputs = moments.scaled(seen, place)
            grads = jax.grad(lambda w: jnp.mean((inputs @ w - world.reward(place)) ** 2))(w)
            w = w - 0.01 * jax.lax.pmean(grads, AXIS)
            return (w, moments.add(seen, place, AXIS), place, key), None  # mistake: wrong-reducer

        return jax.lax.scan(update, state, None, length=5)[0]


def main():
    learner = Learner(jax.local_device_count())
    state = learner.advance(learner.initial())
    mean = jax.device_get(state[1].mean)
    print("means alike on all devices:", bool((abs(mean - mean[0]) < 1e-5).all()), mean[0].round(2).tolist())


if __name__ == "__main__":
    main()
