import jax
import numpy as np
import optax
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P

from engine import Engine
from settings import Settings


def make_batch(rng, s):
    return {
        "x": rng.normal(size=(s.batch, s.dim)).astype(np.float32),
        "y": rng.normal(size=(s.batch, s.out)).astype(np.float32),
    }


def fit(s: Settings):
    mesh = Mesh(np.array(jax.devices()), ("data",))
    by_row = NamedSharding(mesh, P("data"))
    everywhere = NamedSharding(mesh, P())
    rng = np.random.default_rng(0)
    params = {
        "w1": rng.normal(size=(s.dim, 64)).astype(np.float32) * 0.1,
        "w2": rng.normal(size=(64, s.out)).astype(np.float32) * 0.1,
    }
    engine = Engine(optax.adam(s.lr), mesh)
    state = engine.create(jax.device_put(params, everywhere))
    valid = jax.device_put(make_batch(rng, s), by_row)

    best_loss, best_params, bad = float("inf"), jax.device_get(state.params), 0
    for epoch in range(s.epochs):
        for _ in range(s.steps_per_epoch):
            batch = jax.device_put(make_batch(rng, s), by_row)
            state, loss = engine.update(state=state, batch=batch)
        valid_loss = float(engine.evaluate(state.params, valid))
        if valid_loss < best_loss:
            best_loss, best_params, bad = valid_loss, jax.device_get(state.params), 0
        else:
            bad += 1
        if bad > s.patience:
            break
    print("best", best_loss)
    return best_params


if __name__ == "__main__":
    weights = fit(Settings())
    print({k: v.shape for k, v in weights.items()})
