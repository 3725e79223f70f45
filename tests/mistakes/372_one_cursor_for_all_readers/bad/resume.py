import os
from tempfile import gettempdir as scratch

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import multihost_utils
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P

import start
from reader import Reader
from state import Saver


@jax.jit
def update(w, x):
    return w + jnp.mean(x, axis=0)


def main():
    start.connect()
    mesh = Mesh(np.array(jax.devices()), ("rows",))
    split, whole = NamedSharding(mesh, P("rows")), NamedSharding(mesh, P())
    port = os.environ.get("COORDINATOR", "alone").rpartition(":")[2]
    saver, reader = Saver(os.path.join(scratch(), f"cursors-{port}")), Reader(files=6)
    w = jax.jit(lambda: jnp.zeros(4), out_shardings=whole)()
    for _ in range(2):
        w = update(w, jax.make_array_from_process_local_data(split, next(reader)))
    saver.save(2, w, reader)
    again = Reader(files=6)
    saver.load(2, again)
    files = multihost_utils.process_allgather(np.array(again.mine))
    if jax.process_index() == 0:
        print("files read after resuming:", len(set(files.ravel().tolist())), flush=True)
    start.wait("end")


if __name__ == "__main__":
    main()
