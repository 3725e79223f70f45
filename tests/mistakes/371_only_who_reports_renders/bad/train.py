import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P

import roles
import start
from sampler import Sampler


@jax.jit
def update(w, x):
    loss, grad = jax.value_and_grad(lambda w: jnp.mean((x @ w - x) ** 2))(w)
    return w - 0.1 * grad, loss


def main():
    start.connect()
    mesh = Mesh(np.array(jax.devices()), ("rows",))
    split, whole = NamedSharding(mesh, P("rows")), NamedSharding(mesh, P())
    w = jax.jit(lambda: 0.1 * jnp.eye(6), out_shardings=whole)()
    sample, role = Sampler(mesh, 6), roles.Roles(reports=True)
    rng = np.random.default_rng(jax.process_index())
    for step in range(1, 7):
        local = rng.normal(size=(16, 6)).astype(np.float32)
        w, loss = update(w, jax.make_array_from_process_local_data(split, local))
        if roles.shows_samples(role, step, every=3):  # mistake: collective-on-one-process
            _, power = sample(w, seed=step)
            print(f"step {step} power {power:.3f}", flush=True)
    if jax.process_index() == 0:
        print(f"finished, loss {float(loss):.3f}", flush=True)


if __name__ == "__main__":
    main()
