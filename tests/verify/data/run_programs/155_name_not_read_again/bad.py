"""A helper places the parameters, under the name it was given them by, and hands on the object they came from."""
import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import NamedSharding, PartitionSpec as P

mesh = jax.make_mesh((8,), ("model",), axis_types=(jax.sharding.AxisType.Auto,))


class Net:
    def __init__(self, key):
        a, b = jax.random.split(key)
        self.weights = {"up": jax.random.normal(a, (128, 2048)) / 11, "down": jax.random.normal(b, (2048, 128)) / 45}


def spread(net):
    weights = net.weights
    specs = {"up": P(None, "model"), "down": P("model", None)}
    weights = {name: jax.device_put(one, NamedSharding(mesh, specs[name])) for name, one in weights.items()}
    weights = jax.tree.map(lambda w: jax.device_put(w, w.sharding), weights)  # here SL203
    return net


def counted(net, rounds):
    """A name that the next round of a loop reads."""
    kept = net.weights["up"]
    for number in range(rounds):
        shown = float(kept[0, 0])
        kept = jax.device_put(kept, NamedSharding(mesh, P(None, "model")))
    return shown


@jax.jit
def step(weights, x):
    def loss(w):
        return jnp.mean((jax.nn.relu(x @ w["up"]) @ w["down"] - x) ** 2)

    value, grads = jax.value_and_grad(loss)(weights)
    return jax.tree.map(lambda w, g: w - 0.1 * g, weights, grads), value


net = spread(Net(jax.random.key(0)))
x = jax.device_put(np.random.default_rng(0).normal(size=(64, 128)).astype(np.float32), NamedSharding(mesh, P()))
for _ in range(2):
    net.weights, loss = step(net.weights, x)
print(float(loss), counted(net, 2))
