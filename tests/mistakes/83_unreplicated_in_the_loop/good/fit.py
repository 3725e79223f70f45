import jax
import jax.numpy as jnp
import numpy as np
from flax import jax_utils
from flax.training import train_state
import optax


class Fit:
    """Trains on all devices, and tells the loss of one copy."""

    def __init__(self, width=8):
        params = {"w": jnp.zeros(width)}
        self.state = train_state.TrainState.create(apply_fn=self.apply, params=params, tx=optax.sgd(0.1))

    @staticmethod
    def apply(params, x):
        return x @ params["w"]

    def step(self, state, x, y):
        def loss(params):
            return jnp.mean((state.apply_fn(params, x) - y) ** 2)

        grads = jax.lax.pmean(jax.grad(loss)(state.params), "batch")
        return state.apply_gradients(grads=grads)

    def train(self, steps):
        p_step = jax.pmap(self.step, axis_name="batch")
        rng = np.random.default_rng(0)
        state = jax_utils.replicate(self.state)
        for i in range(steps):
            x = rng.standard_normal((jax.local_device_count(), 4, 8), dtype=np.float32)
            state = p_step(state, x, x.sum(-1))
            if i % 10 == 9:
                one = jax_utils.unreplicate(state)
                print("step", int(one.step), "w", round(float(one.params["w"].mean()), 1))
        return state


def main():
    Fit().train(40)


if __name__ == "__main__":
    main()
