import jax
import jax.numpy as jnp
from jax.sharding import NamedSharding, PartitionSpec as P


def create(key, mesh, dim=16, hidden=64):
    k1, k2 = jax.random.split(key)
    params = {"w1": jax.random.normal(k1, (dim, hidden)), "w2": jax.random.normal(k2, (hidden, dim))}
    specs = {"w1": P(None, "model"), "w2": P("model", None)}
    return {name: jax.device_put(value * 0.1, NamedSharding(mesh, specs[name])) for name, value in params.items()}


@jax.jit
def step(params, x):
    def loss_fn(p):
        return jnp.mean((jax.nn.relu(x @ p["w1"]) @ p["w2"] - x) ** 2)

    loss, grads = jax.value_and_grad(loss_fn)(params)
    return jax.tree.map(lambda p, g: p - 0.05 * g, params, grads), loss
