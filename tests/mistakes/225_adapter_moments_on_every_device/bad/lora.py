from dataclasses import dataclass

import jax
import jax.numpy as jnp
from jax.sharding import NamedSharding, PartitionSpec as P

from base import SPEC


@dataclass(frozen=True)
class LoraConfig:
    rank: int = 16
    alpha: float = 16.0
    targets: tuple = ("wq", "wv")


def init(cfg, base, mesh, key):
    """a: [in, rank] follows the input axis, b: [rank, out] the output axis."""
    out = {}
    for name, k in zip(cfg.targets, jax.random.split(key, len(cfg.targets))):
        n_in, n_out = base[name].shape
        ax_in, ax_out = SPEC[name]
        a = jax.random.normal(k, (n_in, cfg.rank)) * n_in**-0.5
        b = jnp.zeros((cfg.rank, n_out))
        out[name] = {
            "a": jax.device_put(a, NamedSharding(mesh, P(ax_in, None))),
            "b": jax.device_put(b, NamedSharding(mesh, P(None, ax_out))),
        }
    return out


def merge(cfg, base, adapters):
    scale = cfg.alpha / cfg.rank
    delta = {n: scale * ab["a"] @ ab["b"] for n, ab in adapters.items()}
    return {n: w + delta[n] if n in delta else w for n, w in base.items()}
