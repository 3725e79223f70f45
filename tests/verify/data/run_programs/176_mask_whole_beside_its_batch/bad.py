"""A mask [batch, time, time] is built by numpy and passed whole to every device beside a split batch."""
import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import NamedSharding, PartitionSpec as P

B, T, D = 32, 64, 64
mesh = jax.make_mesh((8,), ("data",), axis_types=(jax.sharding.AxisType.Auto,))
data = NamedSharding(mesh, P("data"))
whole = NamedSharding(mesh, P())


def attention(p, x, mask):
    q, k, v = x @ p["q"], x @ p["k"], x @ p["v"]
    scores = jnp.einsum("btd,bsd->bts", q, k) / D**0.5
    scores = jnp.where(mask, scores, -1e9)
    return jnp.einsum("bts,bsd->btd", jax.nn.softmax(scores), v) @ p["o"]


@jax.jit
def step(p, x, mask):
    def loss(p):
        return jnp.mean((attention(p, x, mask) - x) ** 2)

    value, grads = jax.value_and_grad(loss)(p)
    return jax.tree.map(lambda a, g: a - 0.1 * g, p, grads), value


def collate(rng):
    lengths = rng.integers(8, T, size=B)
    x = rng.normal(size=(B, T, D)).astype(np.float32)
    valid = np.arange(T)[None] < lengths[:, None]
    mask = np.tril(np.ones((T, T), bool))[None] & valid[:, None, :]
    return x, mask


def main():
    rng = np.random.default_rng(0)
    p = {n: rng.normal(size=(D, D)).astype(np.float32) * D**-0.5 for n in "qkvo"}
    p = jax.device_put(p, whole)
    for _ in range(4):
        x, mask = collate(rng)
        x = jax.device_put(x, data)
        mask = jax.device_put(mask, whole)  # here
        p, loss = step(p, x, mask)
        print(float(loss))


if __name__ == "__main__":
    main()
