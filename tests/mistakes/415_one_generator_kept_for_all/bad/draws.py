import jax
import numpy as np


class Draws:
    """Examples at random, others in each process."""

    def __init__(self, seed):
        self.rng = np.random.default_rng([seed, jax.process_index()])

    def __next__(self):
        return self.rng.integers(0, 1 << 30, 8)

    def state_dict(self):
        return self.rng.bit_generator.state

    def load_state_dict(self, state):
        self.rng.bit_generator.state = state
