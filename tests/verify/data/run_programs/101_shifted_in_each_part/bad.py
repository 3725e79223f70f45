"""Next-token loss on a sequence that is split over the context axis."""
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.sharding import NamedSharding, PartitionSpec as P

mesh = jax.make_mesh((2, 4), ("data", "seq"), axis_types=(jax.sharding.AxisType.Auto,) * 2)
V, D, T, B = 1024, 512, 512, 8


@partial(jax.shard_map, mesh=mesh, in_specs=(P("data", "seq"), P("data", "seq"), P()), out_specs=P())
def lm_loss(h, tokens, head):
    logp = jax.nn.log_softmax(h @ head)
    targets = jnp.pad(tokens[:, 1:], ((0, 0), (0, 1)))  # here
    mask = jnp.arange(tokens.shape[1]) < tokens.shape[1] - 1
    nll = -jnp.take_along_axis(logp, targets[..., None], -1)[..., 0] * mask
    total = lax.psum(nll.sum(), ("data", "seq"))
    return total / (B * (T - 1))


def init(key):
    a, b, c = jax.random.split(key, 3)
    return {
        "embed": jax.random.normal(a, (V, D)) * 0.02,
        "w": jax.random.normal(b, (D, D)) * 0.04,
        "head": jax.random.normal(c, (D, V)) * 0.02,
    }


@jax.jit
def train_step(params, tokens):
    def loss(params):
        h = jax.nn.gelu(params["embed"][tokens] @ params["w"])
        return lm_loss(h, tokens, params["head"])

    value, grads = jax.value_and_grad(loss)(params)
    return jax.tree.map(lambda p, g: p - 0.5 * g, params, grads), value


params = jax.device_put(init(jax.random.key(0)), NamedSharding(mesh, P()))
rng = np.random.default_rng(0)
for _ in range(3):
    tokens = jax.device_put(rng.integers(0, V, (B, T)), NamedSharding(mesh, P("data", "seq")))
    params, value = train_step(params, tokens)
    print(value)
