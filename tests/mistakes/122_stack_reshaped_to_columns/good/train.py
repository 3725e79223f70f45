"""FSDP-style training: parameters live sharded and are gathered for use."""
import jax
import numpy as np
import optax
from jax import lax
from jax.sharding import Mesh, PartitionSpec as P

import model
from sharding import AXIS, materialise, place, specs


def dataset(n, features, classes, seed=0):
    rng = np.random.default_rng(seed)
    centres = rng.normal(size=(classes, features))
    y = rng.integers(0, classes, n)
    return (centres[y] + 0.7 * rng.normal(size=(n, features))).astype(np.float32), y


def build_step(mesh, tx, param_specs, state_specs):
    def step(params, opt_state, x, y):
        def objective(shards):
            logits = model.apply(materialise(shards), x)
            nll = optax.softmax_cross_entropy_with_integer_labels(logits, y)
            return lax.pmean(nll.mean(), AXIS)

        loss, grads = jax.value_and_grad(objective)(params)
        updates, opt_state = tx.update(grads, opt_state, params)
        return optax.apply_updates(params, updates), opt_state, loss

    return jax.jit(
        jax.shard_map(
            step,
            mesh=mesh,
            in_specs=(param_specs, state_specs, P(AXIS), P(AXIS)),
            out_specs=(param_specs, state_specs, P()),
        )
    )


def main(batch=64, steps=15):
    mesh = Mesh(np.array(jax.devices()), (AXIS,))
    params = place(mesh, model.init(jax.random.key(3), 16, 32, 2, 8))
    tx = optax.trace(decay=0.9)
    tx = optax.chain(tx, optax.scale(-0.02))
    opt_state = tx.init(params)
    step = build_step(mesh, tx, specs(params), specs(opt_state))

    x, y = dataset(batch * steps, 16, 8)
    for i in range(steps):
        rows = slice(i * batch, (i + 1) * batch)
        params, opt_state, loss = step(params, opt_state, x[rows], y[rows])
        if i % 5 == 0:
            print(f"step {i} loss {float(loss):.5f}")
    full = jax.device_get(params)
    accuracy = (np.argmax(model.apply(full, x), -1) == y).mean()
    print(f"final loss {float(loss):.5f} accuracy of saved weights {accuracy:.4f}")


if __name__ == "__main__":
    main()
