"""A model made and trained in manual regions, as a trainer with tensor parallelism by hand does it."""
import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P

FEATURES, WIDTH, ROWS = 64, 512, 64
mesh = Mesh(np.array(jax.devices()).reshape(8, 1), ("data", "model"))


def uniform(key, shape, bound):
    return jax.random.uniform(key, shape, minval=-bound, maxval=bound)


def start(key, batch):
    scale_key, up_key, down_key = jax.random.split(key, 3)
    scale = uniform(scale_key, (1, FEATURES), 0.1)
    x = batch * (1 + jnp.broadcast_to(scale, batch.shape))
    up = uniform(up_key, (x.shape[-1], WIDTH), FEATURES**-0.5)
    down = uniform(down_key, (jax.nn.relu(x @ up).shape[-1], FEATURES), WIDTH**-0.5)
    return {"scale": scale, "up": up, "down": down}


def loss_of(params, key, x):
    hidden = jax.nn.relu(x * (1 + params["scale"]) @ params["up"])
    kept = jax.random.bernoulli(key, 0.9, hidden.shape)
    hidden = jnp.where(kept, hidden / 0.9, 0.0)
    return jnp.mean((hidden @ params["down"] - x) ** 2)


def train(params, key, x):
    key = jax.random.fold_in(key, jax.lax.axis_index("data"))
    loss, grads = jax.value_and_grad(loss_of)(params, key, x)
    grads = jax.lax.pmean(grads, ("data", "model"))
    params = jax.tree.map(lambda p, g: p - 0.1 * g, params, grads)
    shares = jax.lax.psum((loss, jnp.float32(1.0)), ("data", "model"))
    return params, shares[0] / shares[1]


make = jax.jit(jax.shard_map(start, mesh=mesh, in_specs=(P(), P("data")), out_specs=P(), check_vma=False))
step = jax.jit(
    jax.shard_map(train, mesh=mesh, in_specs=(P(), P(), P("data")), out_specs=(P(), P()), check_vma=False)
)
rows = np.random.default_rng(1).normal(size=(ROWS, FEATURES)).astype(np.float32)
batch = jax.device_put(rows, NamedSharding(mesh, P("data")))
params = make(jax.random.key(0), batch)
for number in range(3):
    params, loss = step(params, jax.random.fold_in(jax.random.key(1), number), batch)
print(float(loss))
