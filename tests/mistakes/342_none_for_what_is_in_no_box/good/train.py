import flax.linen as nn
import jax
import jax.numpy as jnp
from specs import place


class Net(nn.Module):
    width: int = 32

    @nn.compact
    def __call__(self, x):
        init = nn.with_partitioning(nn.initializers.lecun_normal(), (None, "model"))
        x = nn.relu(nn.Dense(self.width, kernel_init=init, name="up")(x))
        x = nn.LayerNorm(name="norm")(x)
        init = nn.with_partitioning(nn.initializers.lecun_normal(), ("model", None))
        return nn.Dense(8, kernel_init=init, name="down")(x)


def main(steps=3):
    mesh = jax.make_mesh((2, 4), ("data", "model"), axis_types=(jax.sharding.AxisType.Auto,) * 2)
    net = Net()
    x = jax.random.normal(jax.random.key(1), (16, 8))
    params = place(net.init(jax.random.key(0), x), mesh)

    @jax.jit
    def step(params, x):
        loss, grads = jax.value_and_grad(lambda p: jnp.mean((net.apply(p, x) - x) ** 2))(params)
        return jax.tree.map(lambda p, g: p - 0.1 * g, params, grads), loss

    for _ in range(steps):
        params, loss = step(params, x)
    print("trained for", steps, "steps")
    return loss


if __name__ == "__main__":
    main()
