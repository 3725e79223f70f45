"""Predicts on several hosts."""
import os

import jax
import jax.numpy as jnp
import numpy as np

from evaluation import Evaluator, summary


def apply(params, x):
    return jnp.tanh(x @ params["hidden"]) @ params["out"]


def initial(features, width=16):
    first, second = jax.random.split(jax.random.key(0))
    return {
        "hidden": jax.random.normal(first, (features, width)) / features**0.5,
        "out": jax.random.normal(second, (width,)),
    }


def own_rows(count, features):
    rng = np.random.default_rng(jax.process_index())
    return rng.normal(size=(count, features)).astype(np.float32)


def main():
    jax.distributed.initialize(
        os.environ["COORDINATOR"], int(os.environ["NUM_PROCESSES"]), int(os.environ["PROCESS_ID"])
    )
    mesh = jax.make_mesh((jax.device_count(),), ("data",), axis_types=(jax.sharding.AxisType.Auto,))
    evaluator = Evaluator(mesh, apply, batch=8)
    found = summary(evaluator.predictions(initial(4), own_rows(32, 4)))
    print("predictions:", found["count"], flush=True)


if __name__ == "__main__":
    main()
