import os
import tempfile

import dist
import jax
import numpy as np
from jax.experimental import multihost_utils
from log import StateLog
from start import join


def main(steps=4):
    join()
    state = {"samples": dist.spread(np.arange(16.0)), "shift": np.float32(0.5)}
    move = jax.jit(lambda samples, shift: samples * 0.9 + shift)
    log = StateLog(os.path.join(tempfile.mkdtemp(), "state.npz"), every=2)
    for _ in range(steps):
        state["samples"] = move(state["samples"], state["shift"])
        log(state)
    multihost_utils.sync_global_devices("end")
    print("ended after", steps, "steps", flush=True)


if __name__ == "__main__":
    main()
