
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.sharding import NamedSharding, PartitionSpec as P

AUTO = jax.sharding.AxisType.Auto
mesh = jax.make_mesh((4, 2), ("data", "model"), axis_types=(AUTO, AUTO))
HEADS, WIDTH = 4, 64


def rotated(x, positions):
    half = x.shape[-1] // 2
    angles = positions[:, None] / (10_000 ** (jnp.arange(half) / half))
    cos, sin = jnp.cos(angles)[None, :, None, :], jnp.sin(angles)[None, :, None, :]
    first, second = jnp.split(x, 2, axis=-1)
    return jnp.concatenate([first * cos - second * sin, second * cos + first * sin], axis=-1)


def turn(q, k):
    positions = jnp.arange(q.shape[1])
    return rotated(q, positions), rotated(k, positions)  # here


turned = jax.jit(jax.shard_map(turn, mesh=mesh, in_specs=(P("data", None, None, "model"),) * 2, out_specs=(P("data", None, None, "model"),) * 2))


@jax.jit
def scores_of(q, k):
    q, k = turned(q, k)
    return jax.nn.softmax(jnp.einsum("bqhd,bkhd->bhqk", q, k) * WIDTH**-0.5, axis=-1).mean()


def main():
    rng = np.random.default_rng(0)
    placed = NamedSharding(mesh, P("data", None, None, "model"))
    wq, wk = (jax.device_put(rng.normal(size=(256, HEADS, WIDTH)).astype(np.float32) * 0.06, NamedSharding(mesh, P(None, None, "model"))) for _ in range(2))
    project = jax.jit(lambda x, w: jnp.einsum("btd,dhe->bthe", x, w), out_shardings=placed)
    for i in range(3):
        x = jax.device_put(rng.normal(size=(8, 64, 256)).astype(np.float32), NamedSharding(mesh, P("data")))
        print(i, float(scores_of(project(x, wq), project(x, wk))))


if __name__ == "__main__":
    main()
