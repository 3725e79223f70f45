"""Greedy decoding with the head split by vocabulary."""
import jax
import jax.numpy as jnp
from jax import lax
from jax.sharding import NamedSharding, PartitionSpec as P

mesh = jax.make_mesh((8,), ("tp",), axis_types=(jax.sharding.AxisType.Auto,) * 1)
V, D = 8192, 512


def shard(x, *names):
    return jax.device_put(x, NamedSharding(mesh, P(*names)))


keys = jax.random.split(jax.random.key(0), 3)
params = {
    "embed": shard(jax.random.normal(keys[0], (V, D)), None, "tp"),
    "w": shard(jax.random.normal(keys[1], (D, D)) / D**0.5, None, "tp"),
    "head": shard(jax.random.normal(keys[2], (D, V)) / D**0.5, None, "tp"),
}


def pick(h, head):
    logits = h @ head
    token = jnp.argmax(logits, axis=-1)  # here
    return lax.pmax(token, "tp")


pick = jax.shard_map(pick, mesh=mesh, in_specs=(P(), P(None, "tp")), out_specs=P())


@jax.jit
def decode_step(params, state, token):
    x = params["embed"][token]
    state = jnp.tanh(state + x @ params["w"])
    return state, pick(state, params["head"])


def generate(params, prompt, length):
    state = jnp.zeros((prompt.shape[0], D))
    token, out = prompt, []
    for _ in range(length):
        state, token = decode_step(params, state, token)
        out.append(token)
    return jnp.stack(out, 1)


print(generate(params, jnp.arange(16), 6))
