import functools

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh
from jax.sharding import PartitionSpec as P

mesh = Mesh(np.array(jax.devices()).reshape(2, 2, 2), ("data", "expert", "model"))
rows = P(("data", "expert"))


@jax.jit
@functools.partial(jax.shard_map, mesh=mesh, in_specs=(rows, rows, P("expert")), out_specs=rows)
def layer(x, gate, weights):
    slots = jnp.einsum("te,td->etd", gate, x)
    sent = jax.lax.all_to_all(slots, "expert", split_axis=0, concat_axis=1, tiled=True)
    done = jnp.einsum("etd,edh->eth", sent, weights)
    return jax.lax.all_to_all(done, "expert", split_axis=1, concat_axis=0, tiled=True).sum(0)


x = jax.random.normal(jax.random.key(2), (64, 16))
gate = jax.nn.softmax(jax.random.normal(jax.random.key(0), (64, 8)))
weights = jax.random.normal(jax.random.key(1), (8, 16, 16))
print(layer(x, gate, weights).shape)
