import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

mesh = Mesh(np.array(jax.devices()).reshape(2, 4), ("data", "stage"))
STAGES, MICRO, WIDTH = 4, 6, 256


def shift(x):
    count = mesh.shape["data"]
    return jax.lax.ppermute(x, "stage", [(i, i + 1) for i in range(count - 1)])  # here


def pipeline(w, inputs):
    stage = jax.lax.axis_index("stage")

    def tick(carry, at):
        incoming, outputs = carry
        x = jnp.where(stage == 0, inputs[jnp.minimum(at, MICRO - 1)], incoming)
        x = jax.nn.relu(x @ w[0])
        slot = jnp.maximum(at - STAGES + 1, 0)
        outputs = jax.lax.dynamic_update_index_in_dim(outputs, x, slot, 0)
        return (shift(x), outputs), None

    start = (jnp.zeros_like(inputs[0]), jnp.zeros_like(inputs))
    (_, outputs), _ = jax.lax.scan(tick, start, jnp.arange(MICRO + STAGES - 1))
    return jax.lax.psum(jnp.where(stage == STAGES - 1, outputs, 0.0), "stage")


run = jax.jit(
    jax.shard_map(
        pipeline, mesh=mesh, in_specs=(P("stage"), P(None, "data")), out_specs=P(None, "data"), check_vma=False
    )
)
w = jax.device_put(np.ones((STAGES, WIDTH, WIDTH), np.float32) / WIDTH, NamedSharding(mesh, P("stage")))
x = jax.device_put(np.ones((MICRO, 32, WIDTH), np.float32), NamedSharding(mesh, P(None, "data")))
print(run(w, x).sum())
