"""PPO epochs: one permutation over all rows shuffles a batch that is split; every row goes to another device."""
import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import NamedSharding, PartitionSpec as P

ROWS, D, MINI = 2048, 64, 4
mesh = jax.make_mesh((8,), ("env",), axis_types=(jax.sharding.AxisType.Auto,))
data = NamedSharding(mesh, P("env"))


def loss_fn(p, batch):
    return jnp.mean((jnp.tanh(batch["obs"] @ p["w"]) @ p["v"] - batch["ret"]) ** 2)


@jax.jit
def epoch(p, batch, key):
    keys = jax.random.split(key, 8)
    def own(a):
        parts = a.reshape(8, ROWS // 8, *a.shape[1:])
        parts = jax.vmap(lambda k, r: jax.random.permutation(k, r))(keys, parts)
        return parts.reshape(8, MINI, -1, *a.shape[1:]).swapaxes(0, 1).reshape(MINI, -1, *a.shape[1:])
    minis = jax.tree.map(own, batch)

    def body(p, mini):
        loss, g = jax.value_and_grad(loss_fn)(p, mini)
        return jax.tree.map(lambda a, b: a - 0.1 * b, p, g), loss

    return jax.lax.scan(body, p, minis)


def main():
    rng = np.random.default_rng(0)
    p = {"w": rng.normal(size=(D, 64)).astype(np.float32) * 0.1, "v": rng.normal(size=(64,)).astype(np.float32)}
    p = jax.device_put(p, NamedSharding(mesh, P()))
    for i in range(3):
        batch = {"obs": rng.normal(size=(ROWS, D)).astype(np.float32), "ret": rng.normal(size=ROWS).astype(np.float32)}
        p, loss = epoch(p, jax.device_put(batch, data), jax.random.key(i))
        print(float(loss.mean()))


if __name__ == "__main__":
    main()
