"""Lengths of batches differ: each is cut to its longest row and the step is compiled for every length."""
import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import NamedSharding, PartitionSpec as P

V, D, B, MAX = 128, 64, 32, 64
mesh = jax.make_mesh((8,), ("data",), axis_types=(jax.sharding.AxisType.Auto,))
data = NamedSharding(mesh, P("data"))


def loss_fn(p, tokens, mask):
    h = jnp.tanh(p["emb"][tokens] @ p["w"])
    logp = jax.nn.log_softmax(h @ p["out"])
    nll = -jnp.take_along_axis(logp[:, :-1], tokens[:, 1:, None], 2)[..., 0]
    return (nll * mask[:, 1:]).sum() / mask[:, 1:].sum()


@jax.jit
def step(p, tokens, mask):
    loss, g = jax.value_and_grad(loss_fn)(p, tokens, mask)
    return jax.tree.map(lambda a, b: a - 0.5 * b, p, g), loss


def collate(rows):
    length = max(len(r) for r in rows)
    tokens = np.zeros((len(rows), length), np.int32)
    mask = np.zeros((len(rows), length), np.float32)
    for i, r in enumerate(rows):
        tokens[i, : len(r)], mask[i, : len(r)] = r, 1
    return jax.device_put((tokens, mask), data)


def main():
    rng = np.random.default_rng(0)
    p = {"emb": rng.normal(size=(V, D)), "w": rng.normal(size=(D, D)) * 0.1, "out": rng.normal(size=(D, V)) * 0.1}
    p = jax.device_put(jax.tree.map(np.float32, p), NamedSharding(mesh, P()))
    for _ in range(10):
        top = rng.integers(10, MAX)
        rows = [rng.integers(0, V, size=rng.integers(4, top + 1)) for _ in range(B)]
        p, loss = step(p, *collate(rows))  # here
        print(float(loss))


if __name__ == "__main__":
    main()
