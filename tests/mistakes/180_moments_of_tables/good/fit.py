import argparse
from functools import partial

import jax
import numpy as np
import optax
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P

import optim
from tables import Tables, loss


def synthetic(users, items, n, seed=0):
    rng = np.random.default_rng(seed)
    a, b = rng.normal(size=(users, 4)), rng.normal(size=(items, 4))
    u, i = rng.integers(0, users, n), rng.integers(0, items, n)
    r = 3 + 0.7 * (a[u] * b[i]).sum(-1) + 0.2 * rng.normal(size=n)
    return {"u": u.astype(np.int32), "i": i.astype(np.int32), "r": np.clip(r, 1, 5).astype(np.float32)}


def epochs(data, batch, n_epochs, seed):
    rng = np.random.default_rng(seed)
    n = len(data["r"])
    for e in range(n_epochs):
        order = rng.permutation(n)[: n // batch * batch]
        for idx in order.reshape(-1, batch):
            yield e, {k: v[idx] for k, v in data.items()}


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--users", type=int, default=20_000_000)
    ap.add_argument("--items", type=int, default=5_000_000)
    ap.add_argument("--ratings", type=int, default=8192)
    ap.add_argument("--dim", type=int, default=64)
    ap.add_argument("--batch", type=int, default=1024)
    ap.add_argument("--epochs", type=int, default=5)
    args = ap.parse_args()

    mesh = Mesh(np.array(jax.devices()), ("rows",))
    tables = Tables(args.users, args.items, args.dim, mesh)
    params = tables.init(seed=0)
    tx = optim.build(0.02, args.epochs * (args.ratings // args.batch))
    state = optim.init_state(tx, params)

    @partial(jax.jit, donate_argnums=(0, 1))
    def step(params, state, batch):
        (_, mse), grads = jax.value_and_grad(loss, has_aux=True)(params, batch)
        updates, state = tx.update(grads, state, params)
        return optax.apply_updates(params, updates), state, mse

    data = synthetic(args.users, args.items, args.ratings)
    rows = NamedSharding(mesh, P("rows"))
    for e, batch in epochs(data, args.batch, args.epochs, seed=1):
        params, state, mse = step(params, state, jax.device_put(batch, rows))
    print(f"epoch {e} mse {float(mse):.4f}")


if __name__ == "__main__":
    main()
