"""Matrix factorisation with row-sharded embedding tables."""
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P


def round_up(n, k):
    return -(-n // k) * k


@dataclass
class Tables:
    users: int
    items: int
    dim: int
    mesh: Mesh

    def __post_init__(self):
        n = self.mesh.shape["rows"]
        self.shapes = {
            "user": (round_up(self.users, n), self.dim),
            "item": (round_up(self.items, n), self.dim),
            "user_bias": (round_up(self.users, n),),
            "item_bias": (round_up(self.items, n),),
            "mean": (),
        }
        self.shardings = {
            k: NamedSharding(self.mesh, P("rows") if s else P()) for k, s in self.shapes.items()
        }

    def init(self, seed):
        def create(key):
            out = {}
            for i, (name, shape) in enumerate(self.shapes.items()):
                table = name in ("user", "item")
                k = jax.random.fold_in(key, i)
                out[name] = 0.1 * jax.random.normal(k, shape) if table else jnp.zeros(shape)
            return out

        return jax.jit(create, out_shardings=self.shardings)(jax.random.key(seed))


def predict(p, u, i):
    dot = jnp.sum(p["user"][u] * p["item"][i], -1)
    return p["mean"] + p["user_bias"][u] + p["item_bias"][i] + dot


def loss(p, batch, l2=1e-4):
    err = predict(p, batch["u"], batch["i"]) - batch["r"]
    reg = jnp.square(p["user"][batch["u"]]).sum(-1) + jnp.square(p["item"][batch["i"]]).sum(-1)
    return jnp.mean(err**2 + l2 * reg), jnp.mean(err**2)
