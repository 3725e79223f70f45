"""A small trainer of several hosts that saves its state by a callback."""

import datetime
import glob
import os

import jax
import jax.numpy as jnp
from jax.experimental import multihost_utils
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P

from callbacks import SaveCallback
from hosts import host_broadcast_str


def start():
    if "COORDINATOR" in os.environ:
        jax.distributed.initialize(
            os.environ["COORDINATOR"], int(os.environ["NUM_PROCESSES"]), int(os.environ["PROCESS_ID"])
        )


def main(root="runs", name="small", save=True):
    start()
    run_id = "{name}_{time}".format(name=name, time=datetime.datetime.now().strftime("%H%M%S_%f"))  # mistake: names-differ-by-process
    if jax.process_index() == 0:
        print("run", run_id)
    if save:
        folder = os.path.join(root, run_id)
    else:
        folder = None
    callback = SaveCallback(folder)

    mesh = Mesh(jax.devices(), ("data",))
    state = {"w": jax.device_put(jnp.ones((16, 4)), NamedSharding(mesh, P("data")))}
    step = jax.jit(lambda tree: jax.tree.map(lambda x: x * 0.9, tree))
    for i in range(1, 3):
        state = step(state)
        callback(i, state)
    callback.close()
    multihost_utils.sync_global_devices("all saved")
    if jax.process_index() == 0:
        print("folders of the run:", len(glob.glob(f"{root}/*/state")))


if __name__ == "__main__":
    main()
