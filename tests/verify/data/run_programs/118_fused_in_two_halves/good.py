import functools
import math

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P

mesh = jax.make_mesh((2, 4), ("data", "tp"), axis_types=(jax.sharding.AxisType.Auto,) * 2)
D, H = 512, 2048


@functools.partial(jax.shard_map, mesh=mesh, in_specs=(P("data"), P(None, None, "tp"), P("tp", None)), out_specs=P("data"))
def swiglu(x, fused, down):
    gate, up = jnp.split(jnp.einsum("td,d...->t...", x, fused).reshape(x.shape[0], -1), 2, -1)
    return jax.lax.psum((jax.nn.silu(gate) * up) @ down, "tp")


@jax.jit
def step(p, x):
    loss, g = jax.value_and_grad(lambda p: jnp.mean((x + swiglu(x, p["fused"], p["down"]) - jnp.sin(x)) ** 2))(p)
    return jax.tree.map(lambda a, b: a - 0.1 * b, p, g), loss


def main():
    ks = jax.random.split(jax.random.key(0), 2)
    fused = jax.random.normal(ks[0], (D, 2, H)) * 0.03
    fused = jax.device_put(fused, NamedSharding(mesh, P(None, None, "tp")))
    p = {"fused": fused, "down": jax.device_put(jax.random.normal(ks[1], (H, D)) * 0.03, NamedSharding(mesh, P("tp", None)))}
    rng = np.random.default_rng(0)
    for i in range(3):
        x = jax.device_put(rng.normal(size=(128, D)).astype(np.float32), NamedSharding(mesh, P("data")))
        p, loss = step(p, x)
        print(i, float(loss))

if __name__ == "__main__":
    main()
