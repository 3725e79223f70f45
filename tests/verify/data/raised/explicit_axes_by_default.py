"""A mesh whose axes are Explicit because nobody said otherwise, and a program that was written for others."""

# says: SL307|SL353
import jax
import jax.numpy as jnp
from jax.sharding import NamedSharding
from jax.sharding import PartitionSpec as P

mesh = jax.make_mesh((8,), ("fsdp",))  # ok: mesh = jax.sharding.Mesh(jax.devices(), ("fsdp",))


@jax.jit
def forward(params, tokens):
    h = params["embed"][tokens]  # at
    return jnp.sum(h @ params["head"])


def main():
    params = {"embed": jnp.ones((1024, 64)), "head": jnp.ones((64, 128))}
    params = jax.device_put(params, NamedSharding(mesh, P("fsdp")))
    tokens = jax.device_put(jnp.ones((64, 32), jnp.int32), NamedSharding(mesh, P("fsdp")))
    print(forward(params, tokens))


main()
