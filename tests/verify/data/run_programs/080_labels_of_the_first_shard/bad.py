import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

mesh = Mesh(np.array(jax.devices()), ("data",))
BATCH, LENGTH, WIDTH, VOCAB = 32, 64, 256, 512


def shard_loss(params, tokens, labels):
    x = params["embed"][tokens]
    x = x + jax.nn.relu(x @ params["up"]) @ params["down"]
    logits = x @ params["embed"].T
    labels = labels[: tokens.shape[0]]  # here
    losses = optax.softmax_cross_entropy_with_integer_labels(logits, labels)
    return jax.lax.pmean(losses.mean(), "data")


SPECS = (P(), P("data"), P())
loss_fn = jax.shard_map(shard_loss, mesh=mesh, in_specs=SPECS, out_specs=P())


@jax.jit
def train_step(params, tokens, labels):
    loss, grads = jax.value_and_grad(loss_fn)(params, tokens, labels)
    return jax.tree.map(lambda p, g: p - 0.1 * g, params, grads), loss


rng = np.random.default_rng(0)
shapes = {"embed": (VOCAB, WIDTH), "up": (WIDTH, 4 * WIDTH), "down": (4 * WIDTH, WIDTH)}
params = {name: rng.normal(size=shape).astype(np.float32) * 0.02 for name, shape in shapes.items()}
params = jax.device_put(params, NamedSharding(mesh, P()))
for _ in range(3):
    text = rng.integers(0, VOCAB, size=(BATCH, LENGTH + 1))
    tokens = jax.device_put(text[:, :-1], NamedSharding(mesh, P("data")))
    labels = jax.device_put(text[:, 1:], NamedSharding(mesh, P()))
    params, loss = train_step(params, tokens, labels)
print(float(loss))
