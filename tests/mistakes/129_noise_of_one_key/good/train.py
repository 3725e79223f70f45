"""Train a small denoising model, batch split over all devices."""
import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax.training.train_state import TrainState
from jax.sharding import Mesh, PartitionSpec as P

from diffusion import Schedule, corrupt
from network import Denoiser


def swiss_roll(n, seed):
    rng = np.random.default_rng(seed)
    t = 1.5 * np.pi * (1 + 2 * rng.random(n))
    xy = np.stack([t * np.cos(t), t * np.sin(t)], axis=1) / 10.0
    return xy.astype(np.float32)


def make_train_step(mesh, schedule):
    def body(state, x0, key):
        key = jax.random.fold_in(key, jax.lax.axis_index("batch"))
        noisy, noise, t = corrupt(schedule, key, x0)

        def objective(params):
            pred = state.apply_fn({"params": params}, noisy, t)
            return jax.lax.pmean(jnp.mean((pred - noise) ** 2), "batch")

        loss, grads = jax.value_and_grad(objective)(state.params)
        distinct = jax.lax.pmean(noise, "batch")
        return state.apply_gradients(grads=grads), loss, jnp.std(distinct)

    return jax.jit(
        jax.shard_map(body, mesh=mesh, in_specs=(P(), P("batch"), P()), out_specs=(P(), P(), P()))
    )


def main(steps=40, batch=128):
    mesh = Mesh(np.array(jax.devices()), ("batch",))
    schedule = Schedule()
    model = Denoiser(width=64, max_steps=schedule.steps)
    init_key, loop_key = jax.random.split(jax.random.key(0))
    params = model.init(init_key, jnp.zeros((1, 2)), jnp.zeros((1,), jnp.int32))["params"]
    state = TrainState.create(apply_fn=model.apply, params=params, tx=optax.adam(2e-3))
    train_step = make_train_step(mesh, schedule)

    for i in range(steps):
        x0 = swiss_roll(batch, seed=i)
        state, loss, spread = train_step(state, x0, jax.random.fold_in(loop_key, i))
        if i % 10 == 0:
            print(f"step {i} loss {float(loss):.5f} std of shard-averaged noise {float(spread):.4f}")
    print(f"done at step {int(state.step)} loss {float(loss):.5f}")


if __name__ == "__main__":
    main()
