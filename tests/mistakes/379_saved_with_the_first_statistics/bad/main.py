import pathlib
import tempfile

import jax
import jax.numpy as jnp
import numpy as np

import saving
import states


def step(state, x):
    def loss_fn(params):
        variables = {"params": params, "batch_stats": state.batch_stats}
        y, new = state.apply_fn(variables, x, train=True, mutable=["batch_stats"])
        return jnp.mean((y - x.sum(-1)) ** 2), new["batch_stats"]

    (loss, running), grads = jax.value_and_grad(loss_fn, has_aux=True)(state.params)
    loss, grads = jax.lax.pmean((loss, grads), "batch")
    return state.apply_gradients(grads=grads, batch_stats=running), loss


def held_out(state, x):
    y = state.apply_fn({"params": state.params, "batch_stats": state.batch_stats}, x, train=False)
    return jax.lax.pmean(jnp.mean((y - x.sum(-1)) ** 2), "batch")


def evaluate(run, state, x):
    state = states.average_batch_stats(state)
    return run(state, x)


def main():
    devices = jax.local_device_count()
    train, run = jax.pmap(step, axis_name="batch", donate_argnums=0), jax.pmap(held_out, axis_name="batch")
    path = pathlib.Path(tempfile.mkdtemp()) / "stats.msgpack"
    state, rng = states.create(devices), np.random.default_rng(0)
    for number in range(6):
        x = np.arange(devices)[:, None, None] + rng.normal(size=(devices, 8, 4))
        state, _ = train(state, x.astype(np.float32))
        if number % 3 == 2:
            evaluate(run, state, x.astype(np.float32))
            saving.save(path, state)
    saved = saving.load(path)["BatchNorm_0"]["mean"]
    mean = np.asarray(jax.device_get(state.batch_stats["BatchNorm_0"]["mean"])).mean(0)
    print("saved statistics are those of all:", bool(np.allclose(saved, mean, atol=1e-4)))


if __name__ == "__main__":
    main()
