"""A router's balance loss: fraction times probability of each device alone, and the products are averaged."""
import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import NamedSharding, PartitionSpec as P

TOKENS, D, E = 512, 32, 8
mesh = jax.make_mesh((8,), ("data",))


def route(p, x):
    probs = jax.nn.softmax(x @ p["router"])
    choice = jax.nn.one_hot(jnp.argmax(probs, -1), E)
    fraction, prob = choice.mean(0), probs.mean(0)
    balance = E * jnp.sum(fraction * prob)  # here
    out = jnp.einsum("te,ted->td", choice * probs, jnp.einsum("td,edf->tef", x, p["experts"]))
    return out, balance


def loss_fn(p, x):
    out, balance = route(p, x)
    return jax.lax.pmean(jnp.mean((out - x) ** 2) + 0.01 * balance, "data")


total = jax.shard_map(loss_fn, mesh=mesh, in_specs=(P(), P("data")), out_specs=P())


@jax.jit
def step(p, x):
    loss, g = jax.value_and_grad(total)(p, x)
    return jax.tree.map(lambda a, b: a - 0.1 * b, p, g), loss


def main():
    rng = np.random.default_rng(0)
    p = {"router": rng.normal(size=(D, E)), "experts": rng.normal(size=(E, D, D)) * 0.1}
    p = jax.device_put(jax.tree.map(np.float32, p), NamedSharding(mesh, P()))
    for _ in range(4):
        x = jax.device_put(rng.normal(size=(TOKENS, D)).astype(np.float32), NamedSharding(mesh, P("data")))
        p, loss = step(p, x)
        print(float(loss))


if __name__ == "__main__":
    main()
