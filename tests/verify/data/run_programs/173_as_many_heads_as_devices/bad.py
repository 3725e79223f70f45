"""Row-parallel product: the sum is scattered over features though the rest expects rows; all_to_all axes swapped."""
import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import NamedSharding, PartitionSpec as P

N, H, T, D = 8, 8, 64, 16
mesh = jax.make_mesh((N,), ("sp",))


def ulysses(q, k, v):
    """q, k, v: [time/N, heads, d] -> all time of heads/N."""
    gather = lambda a: jax.lax.all_to_all(a, "sp", split_axis=1, concat_axis=0, tiled=True)
    q, k, v = gather(q), gather(k), gather(v)
    s = jnp.einsum("thd,shd->hts", q, k) / D**0.5
    s = jnp.where(jnp.tril(jnp.ones((T, T), bool)), s, -1e30)
    out = jnp.einsum("hts,shd->thd", jax.nn.softmax(s), v)
    out = out.reshape(T // N, N, H // N, D).transpose(1, 0, 2, 3).reshape(T, H // N, D)  # here
    return jax.lax.all_to_all(out, "sp", split_axis=0, concat_axis=1, tiled=True)


attend = jax.jit(jax.shard_map(ulysses, mesh=mesh, in_specs=P("sp"), out_specs=P("sp"), check_vma=False))


def main():
    rng = np.random.default_rng(0)
    put = lambda a: jax.device_put(a.astype(np.float32), NamedSharding(mesh, P("sp")))
    x = put(rng.normal(size=(T, H, D)))
    for _ in range(3):
        x = x + attend(x, x, x)
    print(float(jnp.abs(x).mean()))


if __name__ == "__main__":
    main()
