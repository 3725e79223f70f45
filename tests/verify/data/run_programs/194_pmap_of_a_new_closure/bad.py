"""An evolution strategy: each device scores its part of the population, for a target that changes."""

import jax
import jax.numpy as jnp
import numpy as np

DEVICES = jax.local_device_count()
POPULATION, PARAMETERS, INPUTS = 64, 4096, 64


def forward(genome, x):
    weights = genome.reshape(INPUTS, -1)
    return jnp.tanh(x @ weights).mean(axis=-1)


class Evaluator:
    def __init__(self, task):
        self.task = task

    def score(self, genomes, target):
        def one(genome, x, wanted):
            return -jnp.mean((forward(genome, x) - wanted) ** 2)

        every = jax.vmap(one, in_axes=(0, None, None))
        return jax.pmap(every, in_axes=(0, None, None))(genomes, self.task, target)  # here


def main():
    random = np.random.default_rng(0)
    evaluator = Evaluator(random.normal(size=(256, INPUTS)).astype(np.float32))
    mean = np.zeros(PARAMETERS, np.float32)
    for generation in range(5):
        noise = random.normal(size=(DEVICES, POPULATION // DEVICES, PARAMETERS)).astype(np.float32)
        target = np.full((256,), 0.1 * generation, np.float32)
        scores = np.asarray(evaluator.score(mean + 0.1 * noise, target)).reshape(-1)
        chosen = noise.reshape(POPULATION, PARAMETERS)[np.argsort(scores)[-8:]]
        mean = mean + 0.1 * chosen.mean(axis=0)
        print(generation, float(scores.max()))


main()
