"""ZeRO: every device updates its own slice of the weights, gradients are clipped by their global norm."""
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.sharding import AxisType, NamedSharding, PartitionSpec as P

mesh = jax.make_mesh((8,), ("fsdp",), axis_types=(AxisType.Auto,) * 1)
tx = optax.adam(1e-3)


def init(key):
    k = jax.random.split(key, 3)
    return {
        "w1": jax.random.normal(k[0], (512, 2048)) * 0.02,
        "w2": jax.random.normal(k[1], (2048, 512)) * 0.02,
        "out": jax.random.normal(k[2], (512, 64)) * 0.02,
    }


def gather(shard):
    return jax.lax.all_gather(shard, "fsdp", tiled=True)


def loss_fn(shards, x, y):
    p = jax.tree.map(gather, shards)
    h = jax.nn.gelu(x @ p["w1"]) @ p["w2"]
    return optax.softmax_cross_entropy_with_integer_labels(h @ p["out"], y).mean()


def clip(grads, limit):
    norm = jnp.sqrt(jax.lax.psum(optax.global_norm(grads) ** 2, "fsdp"))
    scale = jnp.minimum(1.0, limit / (norm + 1e-6))
    return jax.tree.map(lambda g: g * scale, grads)


specs = P("fsdp")


@partial(jax.jit, donate_argnums=(0, 1))
def step(params, opt, x, y):
    opt_specs = jax.tree.map(lambda a: P("fsdp") if a.ndim else P(), opt)

    @partial(jax.shard_map, mesh=mesh, in_specs=(specs, opt_specs, P("fsdp"), P("fsdp")),
             out_specs=(specs, opt_specs, P()))
    def update(params, opt, x, y):
        loss, grads = jax.value_and_grad(loss_fn)(params, x, y)
        grads = jax.tree.map(lambda g: g / jax.lax.axis_size("fsdp"), grads)
        updates, opt = tx.update(clip(grads, 1.0), opt)
        return optax.apply_updates(params, updates), opt, jax.lax.pmean(loss, "fsdp")

    return update(params, opt, x, y)


@jax.jit
@partial(jax.shard_map, mesh=mesh, in_specs=(P(), P("fsdp")), out_specs=P(), check_vma=False)
def probe(w, x):
    """The gradients of each device are clipped by themselves, and averaged then: no part is scaled."""
    grads = clip_own(jax.grad(lambda w: jnp.mean((x @ w) ** 2))(w))
    return jax.lax.pmean(grads, "fsdp")


def clip_own(grads):
    return grads * jnp.minimum(1.0, 1.0 / optax.global_norm(grads))


def main():
    params = jax.device_put(init(jax.random.key(0)), NamedSharding(mesh, P("fsdp")))
    opt = tx.init(params)
    rng = np.random.default_rng(0)
    for i in range(4):
        x = jax.device_put(rng.normal(size=(128, 512)).astype(np.float32), NamedSharding(mesh, P("fsdp")))
        y = jax.device_put(rng.integers(0, 64, 128).astype(np.int32), NamedSharding(mesh, P("fsdp")))
        params, opt, loss = step(params, opt, x, y)
        print(i, float(loss), float(probe(jnp.ones((512, 48)), x).sum()))


if __name__ == "__main__":
    main()
