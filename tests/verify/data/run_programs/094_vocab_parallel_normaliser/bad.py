"""Cross entropy with the vocabulary split over the model axis."""
import functools

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P

D, V, B = 512, 4096, 64
mesh = Mesh(np.array(jax.devices()).reshape(2, 4), ("dp", "tp"))


@functools.partial(jax.shard_map, mesh=mesh, in_specs=(P("dp"), P(None, "tp"), P("dp")), out_specs=P("dp"), check_vma=False)
def token_loss(h, head, labels):
    logits = h @ head
    width = logits.shape[-1]
    offset = jax.lax.axis_index("tp") * width
    top = jax.lax.pmax(jax.lax.stop_gradient(logits.max(-1)), "tp")
    shifted = logits - top[:, None]
    log_z = jnp.log(jnp.exp(shifted).sum(-1))  # here
    local = labels - offset
    mine = (local >= 0) & (local < width)
    picked = jnp.take_along_axis(shifted, jnp.clip(local, 0, width - 1)[:, None], -1)[:, 0]
    picked = jax.lax.psum(jnp.where(mine, picked, 0.0), "tp")
    return log_z - picked


def forward(params, tokens, labels):
    h = jax.nn.relu(params["embed"][tokens] @ params["w"])
    return token_loss(h, params["head"], labels).mean()


keys = jax.random.split(jax.random.key(0), 3)
params = {
    "embed": jax.device_put(jax.random.normal(keys[0], (V, D)) * 0.02, NamedSharding(mesh, P("tp"))),
    "w": jax.device_put(jax.random.normal(keys[1], (D, D)) * 0.04, NamedSharding(mesh, P(None, "tp"))),
    "head": jax.device_put(jax.random.normal(keys[2], (D, V)) * 0.02, NamedSharding(mesh, P(None, "tp"))),
}
opt = optax.sgd(0.1)
opt_state = opt.init(params)


@functools.partial(jax.jit, donate_argnums=(0, 1))
def step(params, opt_state, tokens, labels):
    loss, grads = jax.value_and_grad(forward)(params, tokens, labels)
    updates, opt_state = opt.update(grads, opt_state)
    return optax.apply_updates(params, updates), opt_state, loss


rng = np.random.default_rng(0)
for i in range(3):
    tokens, labels = (jax.device_put(rng.integers(0, V, B), NamedSharding(mesh, P("dp"))) for _ in range(2))
    params, opt_state, loss = step(params, opt_state, tokens, labels)
    print(i, loss)
