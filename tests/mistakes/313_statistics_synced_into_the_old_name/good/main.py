import jax
import numpy as np
from flax import jax_utils

from submission import update_params
from workload import Workload


def main():
    workload, devices = Workload(), jax.local_device_count()
    params, stats = jax_utils.replicate(workload.init(jax.random.key(0)))
    rng = np.random.default_rng(0)
    for step in range(1, 5):
        x = rng.normal(size=(devices, 16, 8)).astype(np.float32)
        batch = {"x": x, "y": x[..., :4]}
        params, stats, _ = update_params(workload, params, stats, batch, step)
    mean = np.asarray(stats["mean"])
    print("statistics agree:", bool(np.allclose(mean, mean[:1])))


if __name__ == "__main__":
    main()
