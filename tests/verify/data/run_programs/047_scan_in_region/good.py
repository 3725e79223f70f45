import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

mesh = Mesh(np.array(jax.devices()).reshape(4, 2), ("data", "model"))
SPECS = (P(None, None, "model"), P(None, "model", None))


def stack(weights, x):
    def layer(h, w):
        up, down = w
        partial = jax.nn.relu(h @ up) @ down
        return h + jax.lax.psum(partial, "model") * 0.1, None

    return jax.lax.scan(layer, x, weights)[0]


mapped = jax.shard_map(stack, mesh=mesh, in_specs=(SPECS, P("data")), out_specs=P("data"), check_vma=False)


@jax.jit
def train(weights, x, y):
    def loss(weights):
        return jnp.mean((mapped(weights, x) - y) ** 2)

    value, grads = jax.value_and_grad(loss)(weights)
    return jax.tree.map(lambda w, g: w - 1e-4 * g, weights, grads), value


rng = np.random.default_rng(0)
shapes = ((4, 128, 512), (4, 512, 128))
weights = tuple(
    jax.device_put(rng.normal(size=shape).astype(np.float32) * 0.02, NamedSharding(mesh, spec))
    for shape, spec in zip(shapes, SPECS, strict=True)
)
x, y = (jax.device_put(jnp.ones((64, 128)), NamedSharding(mesh, P("data"))) for _ in range(2))
for _ in range(2):
    weights, value = train(weights, x, y)
print(value)
