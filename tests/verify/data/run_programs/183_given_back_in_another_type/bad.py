"""The donated weights are bfloat16, the update gives float32 back: nothing is reused, and the step compiles twice."""
import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import NamedSharding, PartitionSpec as P

D, B = 512, 64
mesh = jax.make_mesh((8,), ("fsdp",), axis_types=(jax.sharding.AxisType.Auto,))
split = NamedSharding(mesh, P("fsdp"))


def loss_fn(p, x):
    h = x
    for w in p:
        h = jnp.tanh(h @ w.astype(jnp.bfloat16))
    return jnp.mean((h - x).astype(jnp.float32) ** 2)


def train_step(p, x):
    loss, g = jax.value_and_grad(loss_fn)(p, x)
    new = jax.tree.map(lambda a, b: a - jnp.float32(0.1) * b.astype(jnp.float32), p, g)  # here
    return new, loss


step = jax.jit(train_step, donate_argnums=0)


def main():
    rng = np.random.default_rng(0)
    p = [jnp.asarray(rng.normal(size=(D, D)) * D**-0.5, jnp.bfloat16) for _ in range(3)]
    p = jax.device_put(p, split)
    for _ in range(4):
        x = jax.device_put(jnp.asarray(rng.normal(size=(B, D)), jnp.bfloat16), split)
        p, loss = step(p, x)
        print(float(loss))


if __name__ == "__main__":
    main()
