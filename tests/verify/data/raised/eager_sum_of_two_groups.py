import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

mesh = Mesh(np.array(jax.devices()).reshape(4, 2), ("data", "model"))


def put(x, *spec):
    return jax.device_put(x, NamedSharding(mesh, P(*spec)))


# says: different devices.*baseline f32\[8,4\] on devices 4-7.*logits f32\[8,4\] on devices 0-3
def group(first):
    return Mesh(np.array(jax.devices()[first : first + 4]), ("data",))


actor, critic = group(0), group(4)
logits = jax.device_put(jnp.ones((8, 4)), NamedSharding(actor, P("data")))
baseline = jax.device_put(jnp.ones((8, 4)), NamedSharding(critic, P("data")))
baseline = baseline  # ok: baseline = jax.device_put(baseline, logits.sharding)
advantage = logits - baseline  # at
