import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

mesh = Mesh(np.array(jax.devices()).reshape(4, 2), ("data", "model"))


def block(w1, w2, x):
    h = jax.nn.gelu(x @ w1)
    return jax.lax.psum(h @ w2, "model")


f = jax.jit(
    jax.shard_map(
        block,
        mesh=mesh,
        in_specs=(P(None, "model"), P("model", None), P("data")),
        out_specs=P("data"),
        check_vma=False,
    )
)
rng = np.random.default_rng(0)
w1 = jax.device_put(rng.normal(size=(512, 2048)).astype(np.float32), NamedSharding(mesh, P(None, "model")))
w2 = jax.device_put(rng.normal(size=(2048, 512)).astype(np.float32), NamedSharding(mesh, P("model", None)))
x = jax.device_put(rng.normal(size=(64, 512)).astype(np.float32), NamedSharding(mesh, P("data")))
for _ in range(3):
    y = f(w1, w2, x)
print(y.sum())
