import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax import jax_utils
from flax.training.train_state import TrainState

state = TrainState.create(apply_fn=None, params={"w": jnp.ones((6, 4))}, tx=optax.adam(1e-3))


class Trainer:
    def __init__(self, state):
        self.state = state  # ok: self.state = jax_utils.replicate(state)
        self.p_step = jax.pmap(lambda state, batch: state, axis_name="batch")

    # says: `self.p_step` maps axis 0 of every leaf of `self.state`, which has no such axis: it needs one row for each of 8 devices
    def run(self, batch):
        self.state = self.p_step(self.state, batch)  # at


Trainer(state).run(np.ones((8, 2, 6)))
