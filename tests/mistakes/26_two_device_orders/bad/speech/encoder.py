import jax
import jax.numpy as jnp
from jax.sharding import NamedSharding, PartitionSpec

from speech.topology import MODEL


def init(key, mesh, bins, width):
    k1, k2 = jax.random.split(key)
    up = jax.random.normal(k1, (bins, width)) * bins**-0.5
    down = jax.random.normal(k2, (width, bins)) * width**-0.5
    return {
        "up": jax.device_put(up, NamedSharding(mesh, PartitionSpec(None, MODEL))),
        "down": jax.device_put(down, NamedSharding(mesh, PartitionSpec(MODEL))),
    }


def reconstruction_loss(params, features):
    return jnp.mean((jax.nn.relu(features @ params["up"]) @ params["down"] - features) ** 2)
