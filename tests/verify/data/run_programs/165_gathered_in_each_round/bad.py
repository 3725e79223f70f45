"""Weights are gathered within the loop over refinements though they do not change in it."""
import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import NamedSharding, PartitionSpec as P

D, BATCH, ROUNDS = 256, 64, 8
mesh = jax.make_mesh((8,), ("x",))


def refine(w, h):
    """h stays the device's rows, w is a slice of the weights."""

    def body(h, _):
        full = jax.lax.all_gather(w, "x", tiled=True)  # here
        return jnp.tanh(h @ full), None

    return jax.lax.scan(body, h, None, length=ROUNDS)[0]


solver = jax.jit(jax.shard_map(refine, mesh=mesh, in_specs=(P("x"), P("x")), out_specs=P("x"), check_vma=False))


def main():
    rng = np.random.default_rng(0)
    put = lambda a: jax.device_put(a.astype(np.float32), NamedSharding(mesh, P("x")))
    w = put(rng.normal(size=(D, D)) * D**-0.5)
    for _ in range(4):
        h = solver(w, put(rng.normal(size=(BATCH, D))))
        print(float(h.sum()))


if __name__ == "__main__":
    main()
