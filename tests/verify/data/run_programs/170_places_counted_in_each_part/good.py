"""Tokens take places in experts by a running count of the rows of each device: slots of the global buffer clash."""
import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import NamedSharding, PartitionSpec as P

TOKENS, D, E, CAP = 256, 32, 4, 128
mesh = jax.make_mesh((8,), ("data",))


def dispatch(router, x):
    choice = jnp.argmax(x @ router, -1)
    hot = jax.nn.one_hot(choice, E, dtype=jnp.int32)
    counts = jax.lax.all_gather(hot.sum(0), "data")
    before = jnp.where(jnp.arange(8)[:, None] < jax.lax.axis_index("data"), counts, 0).sum(0)
    place = jnp.cumsum(hot, 0) - hot + before
    slot = (place * hot).sum(-1)
    buffer = jnp.zeros((E, CAP, D)).at[choice, slot].add(jnp.where((slot < CAP)[:, None], x, 0))
    return jax.lax.psum(buffer, "data"), choice, slot


def moe(p, x):
    buffer, choice, slot = dispatch(p["router"], x)
    out = jax.nn.relu(jnp.einsum("ecd,edf->ecf", buffer, p["w"]))
    return out[choice, slot]


apply = jax.shard_map(moe, mesh=mesh, in_specs=(P(), P("data")), out_specs=P("data"), check_vma=False)


@jax.jit
def step(p, x):
    loss, g = jax.value_and_grad(lambda p: jnp.mean((apply(p, x) - x) ** 2))(p)
    return jax.tree.map(lambda a, b: a - 0.1 * b, p, g), loss


def main():
    rng = np.random.default_rng(0)
    p = {"router": rng.normal(size=(D, E)), "w": rng.normal(size=(E, D, D)) * 0.1}
    p = jax.device_put(jax.tree.map(np.float32, p), NamedSharding(mesh, P()))
    for _ in range(4):
        x = jax.device_put(rng.normal(size=(TOKENS, D)).astype(np.float32), NamedSharding(mesh, P("data")))
        p, loss = step(p, x)
        print(float(loss))


if __name__ == "__main__":
    main()
