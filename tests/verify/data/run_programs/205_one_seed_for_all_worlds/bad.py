"""A policy for a swinging pole, scored on starts that each device draws for itself."""
from functools import partial

import jax
import jax.numpy as jnp
from jax.sharding import AxisType, NamedSharding
from jax.sharding import PartitionSpec as P

mesh = jax.make_mesh((8,), ("worker",), axis_types=(AxisType.Auto,))
WORLDS, STEPS = 2, 12


def keys_of_worlds(seed):
    return jnp.stack([jax.random.key(seed) for _ in range(mesh.size)])  # here SL407


def swing(state, torque):
    angle, speed = state
    speed = 0.98 * speed - 0.2 * jnp.sin(angle) + 0.1 * torque
    return angle + 0.1 * speed, speed


def play(gains, world, key):
    start, _ = jax.random.split(world["key"][0])
    angle, speed = 0.4 * jax.random.normal(start, (2, WORLDS))

    def step(state, key):
        torque = -state[0] * gains[0] - state[1] * gains[1] + 0.3 * jax.random.normal(key, (WORLDS,))
        state = swing(state, torque)
        return state, state[0] ** 2

    _, cost = jax.lax.scan(step, (angle, speed), jax.random.split(key[0], STEPS))
    return jax.lax.pmean(cost.mean() * world["weight"].mean(), "worker")


@jax.jit
def improve(gains, best, world, key):
    score = partial(
        jax.shard_map, mesh=mesh, in_specs=(P(), {"key": P("worker"), "weight": P("worker")}, P("worker")), out_specs=P()
    )(play)
    step = 0.05 * jax.random.normal(jax.random.key(5), gains.shape)
    cost = score(gains + step, world, key)
    return jnp.where(cost < best, gains + step, gains), jnp.minimum(cost, best)


def main():
    rows = NamedSharding(mesh, P("worker"))
    world = {"key": keys_of_worlds(7), "weight": jnp.linspace(0.5, 1.5, mesh.size)}
    world = jax.tree.map(lambda one: jax.device_put(one, rows), world)
    gains, best = jnp.zeros(2), jnp.inf
    for round_ in range(3):
        keys = jax.device_put(jax.random.split(jax.random.key(round_), mesh.size), rows)
        gains, best = improve(gains, best, world, keys)
    print(gains, best)


main()
