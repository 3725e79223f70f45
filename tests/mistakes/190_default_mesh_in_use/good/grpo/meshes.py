import jax
import numpy as np
from jax.sharding import Mesh


def make_mesh(tp: int = 1) -> Mesh:
    n = jax.device_count()
    if n % tp:
        raise ValueError(f"tp={tp} does not divide {n} devices")
    return Mesh(np.array(jax.devices()).reshape(n // tp, tp), ("data", "tp"))
