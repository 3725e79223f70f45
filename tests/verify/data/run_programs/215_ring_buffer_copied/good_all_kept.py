"""Readings of many sensors in a ring of the last ones, of which every state is looked at again in the end."""
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import AxisType, NamedSharding
from jax.sharding import PartitionSpec as P

SENSORS, CHANNELS, KEPT = 64, 16, 256
mesh = jax.make_mesh((8,), ("sensor",), axis_types=(AxisType.Auto,))
BY_SENSOR = NamedSharding(mesh, P("sensor"))


class Ring(NamedTuple):
    rows: jax.Array
    count: jax.Array

    def write(self, reading):
        at = self.count % KEPT
        return Ring(self.rows.at[:, at].set(reading), self.count + 1)


def observe(weights, ring, reading):
    ring = ring.write(reading)
    mean = ring.rows.mean(axis=1)
    return ring, jnp.tanh((reading - mean) @ weights).mean(axis=-1)


observe = jax.jit(observe)


def readings(steps):
    rng = np.random.default_rng(0)
    for _ in range(steps):
        yield jax.device_put(rng.normal(size=(SENSORS, CHANNELS)).astype(np.float32), BY_SENSOR)


def main():
    weights = jax.device_put(np.eye(CHANNELS, dtype=np.float32), NamedSharding(mesh, P()))
    rows = jax.device_put(np.zeros((SENSORS, KEPT, CHANNELS), np.float32), BY_SENSOR)
    ring = Ring(rows, jax.device_put(np.int32(0), NamedSharding(mesh, P())))
    kept = [ring]
    for reading in readings(6):
        ring, score = observe(weights, ring, reading)
        kept.append(ring)
    print("score", float(score.mean()), [int(one.rows[0].argmax()) for one in kept])


main()
