import jax
import jax.numpy as jnp
from state import init


@jax.jit
def step(params, x):
    def loss(p):
        h = jax.nn.relu(x @ p["up"] + p["bias"])
        return jnp.mean((h @ p["down"] - x) ** 2)

    value, grads = jax.value_and_grad(loss)(params)
    return jax.tree.map(lambda p, g: p - 0.01 * g, params, grads), value


def main(steps=3):
    state = init().shard()
    params, up = state.params, state.params["up"]
    print("shards of up:", up.sharding.shard_shape(up.shape))
    for number in range(steps):
        x = jax.random.normal(jax.random.key(number), (8, 16))
        params, value = step(params, x)
    return value


if __name__ == "__main__":
    main()
