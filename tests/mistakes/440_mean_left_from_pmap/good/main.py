import jax
import jax.numpy as jnp
import steps
from jax.sharding import NamedSharding
from jax.sharding import PartitionSpec as P
from updater import Updater


class Task:
    loss = staticmethod(steps.loss_of)


def main():
    mesh = jax.make_mesh((jax.device_count(),), ("data",))
    key = jax.random.key(0)
    x = jax.random.normal(key, (64, 8))
    batch = {"x": x, "y": x.sum(axis=1)}
    batch = jax.device_put(batch, NamedSharding(mesh, P("data")))
    params = {"w": jnp.zeros(8), "b": jnp.zeros(())}
    params = jax.device_put(params, NamedSharding(mesh, P()))
    update = Updater(Task(), mesh)
    for _ in range(20):
        params, loss = update(params, batch)
    print("trained" if loss < 1 else f"loss is {loss}")


if __name__ == "__main__":
    main()
