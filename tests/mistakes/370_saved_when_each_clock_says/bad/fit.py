import tempfile
import time

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P

import saving
import start


def loss_fn(w, x, y):
    return jnp.mean((x @ w - y) ** 2)


@jax.jit
def update(w, x, y):
    loss, grad = jax.value_and_grad(loss_fn)(w, x, y)
    return w - 0.1 * grad, loss


def rows(number, rng):
    x = rng.normal(size=(16, 6)).astype(np.float32)
    if jax.process_index() == 1 and number == 3:
        time.sleep(1.5)  # a slow read
    return x, x.sum(1)


def main():
    start.connect()
    mesh = Mesh(np.array(jax.devices()), ("rows",))
    split, whole = NamedSharding(mesh, P("rows")), NamedSharding(mesh, P())
    w = jax.jit(lambda: jnp.zeros(6), out_shardings=whole)()
    snapshots = saving.Snapshots(tempfile.mkdtemp(), saving.Schedule(every=5, seconds=1.0))
    rng = np.random.default_rng(jax.process_index())
    for number in range(8):
        x, y = (jax.make_array_from_process_local_data(split, v) for v in rows(number, rng))
        snapshots.offer(number, w)
        w, loss = update(w, x, y)
    if jax.process_index() == 0:
        print(f"finished, loss {float(loss):.3f}", flush=True)


if __name__ == "__main__":
    main()
