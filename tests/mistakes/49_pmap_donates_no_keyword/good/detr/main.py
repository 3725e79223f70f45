import argparse

import jax
import numpy as np
import optax

from detr.state import TrainState
from detr.trainer import train


def batches(steps, per_device=2, dim=8):
    rng = np.random.default_rng(0)
    for _ in range(steps):
        yield rng.normal(size=(jax.local_device_count(), per_device, dim)).astype(np.float32)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=2)
    args = parser.parse_args()
    state = TrainState.create(jax.random.key(0), optax.sgd(0.1, momentum=0.9))
    state, loss, freed = train(state, batches(args.steps))
    print("loss", loss, "old state freed:", freed)


if __name__ == "__main__":
    main()
