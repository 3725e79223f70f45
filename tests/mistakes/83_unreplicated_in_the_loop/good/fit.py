import jax
import jax.numpy as jnp
import numpy as np
from flax import jax_utils
from flax.training import train_state
import optax


def examples(rng, size=4, width=8):
    """Rows for each device, and their sums."""
    x = rng.standard_normal((jax.local_device_count(), size, width), dtype=np.float32)
    return x, x.sum(-1)


def told(state):
    """The step and the mean weight, in words."""
    return f"step {int(state.step)} w {float(state.params['w'].mean()):.1f}"


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
            x, y = examples(rng)
            state = p_step(state, x, y)
            if i % 10 == 9:
                one = jax_utils.unreplicate(state)
                print(told(one))
        return state


def main():
    state = Fit().train(40)
    print(told(jax_utils.unreplicate(state)))


if __name__ == "__main__":
    main()
