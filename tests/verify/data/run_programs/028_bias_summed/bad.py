import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

mesh = Mesh(np.array(jax.devices()).reshape(4, 2), ("data", "model"))


def project(x, w, b):
    out = x @ w + b  # here SL421
    return jax.lax.psum(out, "model")


f = jax.jit(
    jax.shard_map(
        project,
        mesh=mesh,
        in_specs=(P("data", "model"), P("model"), P()),
        out_specs=P("data"),
        check_vma=False,
    )
)
rng = np.random.default_rng(0)
w = jax.device_put(rng.normal(size=(2048, 512)).astype(np.float32), NamedSharding(mesh, P("model")))
b = jax.device_put(rng.normal(size=(512,)).astype(np.float32), NamedSharding(mesh, P()))
x = jax.device_put(rng.normal(size=(64, 2048)).astype(np.float32), NamedSharding(mesh, P("data", "model")))
for _ in range(3):
    y = f(x, w, b)
print(y.sum())
