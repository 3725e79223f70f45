"""Serves a small attention block; weights are placed by a table of rules."""
import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P

RULES = {
    "wq": P(None, "model"),
    "wk": P(None, "model"),
    "wv": P(None, "model"),
    "wo": P("model", None),
}


def init(key, dim=64):
    keys = jax.random.split(key, 4)
    return {name: jax.random.normal(k, (dim, dim)) / np.sqrt(dim) for name, k in zip(("wq", "wk", "wv", "wo"), keys)}


def attend(params, x, heads=8):
    split = lambda y: y.reshape(*y.shape[:2], heads, -1)
    q, k, v = (split(x @ params[name]) for name in ("wq", "wk", "wv"))
    scores = jnp.einsum("bshd,bthd->bhst", q, k) / np.sqrt(q.shape[-1])
    out = jnp.einsum("bhst,bthd->bshd", jax.nn.softmax(scores), v)
    return out.reshape(x.shape) @ params["wo"]


class Served:
    """A model whose weights are on a mesh; `rules` says which are split, and how."""

    def __init__(self, params, mesh, rules=None):
        self.mesh = mesh
        self.rules = rules or {}
        self.params = {name: jax.device_put(w, self.sharding(name)) for name, w in params.items()}
        self.run = jax.jit(attend)

    def sharding(self, name):
        return NamedSharding(self.mesh, self.rules.get(name, P()))

    def __call__(self, x):
        x = jax.device_put(x, NamedSharding(self.mesh, P("data")))
        return self.run(self.params, x)


def build(key):
    mesh = Mesh(np.array(jax.devices()).reshape(2, -1), ("data", "model"))
    return Served(init(key), mesh)  # mistake: option-never-given


def requests(count=3):
    rng = np.random.default_rng(0)
    for _ in range(count):
        yield rng.normal(size=(4, 16, 64)).astype(np.float32)


def main():
    model = build(jax.random.key(0))
    for x in requests():
        out = model(x)
    wq = model.params["wq"]
    print("wq", "P()" if wq.sharding.is_fully_replicated else "P(None, 'model')", out.shape)
    return wq


if __name__ == "__main__":
    main()
