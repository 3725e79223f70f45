import argparse

import equinox as eqx
import jax
import numpy as np
import optax
from jax.sharding import NamedSharding, PartitionSpec as P

from .net import loss
from .state import TrainState, load_or_create, mesh, save


def collocation(n, step):
    rng = np.random.default_rng(step)
    t, x = rng.uniform(0, 1, n), rng.uniform(-1, 1, n)
    return np.stack([t, x], -1).astype(np.float32)


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--width", type=int, default=64)
    ap.add_argument("--depth", type=int, default=4)
    ap.add_argument("--points", type=int, default=512)
    ap.add_argument("--steps", type=int, default=20_000)
    ap.add_argument("--every", type=int, default=1000)
    ap.add_argument("--dir", default="runs/burgers")
    args = ap.parse_args()

    m = mesh()
    tx = optax.adam(optax.exponential_decay(1e-3, 2000, 0.9))
    start, state = load_or_create(args.dir, args.width, args.depth, tx, m, jax.random.key(0))
    by_point = NamedSharding(m, P("points"))

    @eqx.filter_jit(donate="all-except-first")
    def update(pts, state):
        value, grads = eqx.filter_value_and_grad(loss)(state.model, pts)
        delta, opt = tx.update(grads, state.opt)
        return TrainState(eqx.apply_updates(state.model, delta), opt), value

    for i in range(start, start + args.steps):
        state, value = update(jax.device_put(collocation(args.points, i), by_point), state)
        if (i + 1) % args.every == 0:
            print(f"{i + 1} residual {float(value):.3e}")
            save(args.dir, i + 1, state)


if __name__ == "__main__":
    main()
