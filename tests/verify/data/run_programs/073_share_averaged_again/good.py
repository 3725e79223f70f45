import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

mesh = Mesh(np.array(jax.devices()), ("data",))
BATCH, WIDTH, HIDDEN, CLASSES = 256, 512, 1024, 128
tx = optax.adam(1e-3)


def logits_of(params, x):
    return jax.nn.gelu(x @ params["up"]) @ params["down"]


def metrics(params, x, labels):
    """Runs on one shard of the batch."""
    losses = optax.softmax_cross_entropy_with_integer_labels(logits_of(params, x), labels)
    share = losses.sum() / BATCH
    return jax.lax.psum(share, "data")


@jax.jit
def train_step(params, opt, x, labels):
    def loss_fn(params):
        return optax.softmax_cross_entropy_with_integer_labels(logits_of(params, x), labels).mean()

    grads = jax.grad(loss_fn)(params)
    updates, opt = tx.update(grads, opt, params)
    return optax.apply_updates(params, updates), opt


evaluate = jax.jit(
    jax.shard_map(metrics, mesh=mesh, in_specs=(P(), P("data"), P("data")), out_specs=P())
)
rng = np.random.default_rng(0)
params = {
    "up": rng.normal(size=(WIDTH, HIDDEN)).astype(np.float32) * 0.05,
    "down": rng.normal(size=(HIDDEN, CLASSES)).astype(np.float32) * 0.05,
}
params = jax.device_put(params, NamedSharding(mesh, P()))
opt = jax.device_put(tx.init(params), NamedSharding(mesh, P()))
for _ in range(3):
    x = jax.device_put(rng.normal(size=(BATCH, WIDTH)).astype(np.float32), NamedSharding(mesh, P("data")))
    labels = jax.device_put(rng.integers(0, CLASSES, size=BATCH), NamedSharding(mesh, P("data")))
    params, opt = train_step(params, opt, x, labels)
    print(float(evaluate(params, x, labels)))
