import jax.numpy as jnp
from jax.nn import gelu
from jax.sharding import PartitionSpec as P

from mixer.spec import ParamSpec, dense


def specs(dim: int, hidden: int) -> dict[str, ParamSpec]:
    return {
        "wi": dense(dim, hidden, P(None, "tp")),
        "wo": dense(hidden, dim, P("tp", None)),
        "norm": ParamSpec((dim,)),
    }


def apply(params, x):
    scale = params["norm"] / jnp.sqrt(jnp.mean(x**2, axis=-1, keepdims=True) + 1e-6)
    return x + gelu((x * scale) @ params["wi"]) @ params["wo"]
