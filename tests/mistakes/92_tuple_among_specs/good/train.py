import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P

from place import place
from ssm import DiagonalSSM


def build(mesh, length=32):
    return place(DiagonalSSM(16, 64, length, key=jax.random.key(0)), mesh)


@eqx.filter_jit
def step(model, state, x, opt):
    def loss(m):
        return jnp.mean((jax.vmap(m)(x)[:, :-1] - x[:, 1:]) ** 2)

    value, grads = eqx.filter_value_and_grad(loss)(model)
    updates, state = opt.update(grads, state, model)
    return eqx.apply_updates(model, updates), state, value


def main(steps=3):
    mesh = Mesh(np.array(jax.devices()).reshape(2, 4), ("replica", "shard"))
    model = build(mesh)
    opt = optax.adam(1e-3)
    state = opt.init(eqx.filter(model, eqx.is_array))
    rng = np.random.default_rng(0)
    for _ in range(steps):
        x = np.cumsum(rng.normal(size=(8, 32, 16)), 1).astype(np.float32)
        x = eqx.filter_shard(x, NamedSharding(mesh, P("replica")))
        model, state, value = step(model, state, x, opt)
    print("loss", float(value))
    return model


if __name__ == "__main__":
    main()
