"""Resume training: weights and optimizer come from a msgpack checkpoint."""
import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax import serialization
from jax.sharding import AxisType, NamedSharding, PartitionSpec as P

mesh = jax.make_mesh((8,), ("fsdp",), axis_types=(AxisType.Auto,) * 1)
tx = optax.adam(1e-3)


def init_params(key):
    keys = jax.random.split(key, 3)
    return {
        "embed": jax.random.normal(keys[0], (1024, 512)) * 0.02,
        "w1": jax.random.normal(keys[1], (512, 2048)) * 0.02,
        "w2": jax.random.normal(keys[2], (2048, 512)) * 0.02,
    }


def forward(params, tokens):
    h = params["embed"][tokens]
    h = h + jax.nn.relu(h @ params["w1"]) @ params["w2"]
    return h @ params["embed"].T


def loss_fn(params, tokens):
    logits = forward(params, tokens[:, :-1])
    return optax.softmax_cross_entropy_with_integer_labels(logits, tokens[:, 1:]).mean()


@jax.jit
def train_step(state, tokens):
    loss, grads = jax.value_and_grad(loss_fn)(state["params"], tokens)
    updates, opt = tx.update(grads, state["opt"], state["params"])
    return {"params": optax.apply_updates(state["params"], updates), "opt": opt}, loss


def save():
    params = init_params(jax.random.key(0))
    return serialization.to_bytes({"params": params, "opt": tx.init(params)})


def shard(tree):
    return jax.tree.map(
        lambda x: jax.device_put(x, NamedSharding(mesh, P("fsdp") if np.ndim(x) else P())), tree)


def restore(blob):
    params = init_params(jax.random.key(0))
    state = serialization.from_bytes({"params": params, "opt": tx.init(params)}, blob)
    state["params"] = shard(state["params"])
    return state


def batches(n):
    rng = np.random.default_rng(0)
    for _ in range(n):
        tokens = rng.integers(0, 1024, (64, 33)).astype(np.int32)
        yield jax.device_put(tokens, NamedSharding(mesh, P("fsdp")))


def main():
    state = restore(save())
    for i, tokens in enumerate(batches(4)):
        state, loss = train_step(state, tokens)  # here SL205
        print(i, float(loss))


if __name__ == "__main__":
    main()
