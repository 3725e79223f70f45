import os
import tempfile

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import multihost_utils
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P

from output import Output
from start import join


def main(batch=32):
    join()
    split = NamedSharding(Mesh(np.array(jax.devices()), ("data",)), P("data"))
    port = os.environ.get("COORDINATOR", "alone").rpartition(":")[2]
    path = os.path.join(tempfile.gettempdir(), f"answers-{port}.jsonl")
    output = Output(path)
    questions = np.arange(batch, dtype=np.float32)
    given = jax.make_array_from_callback(questions.shape, split, lambda index: questions[index])
    output.add(jax.jit(jnp.sqrt, out_shardings=split)(given))
    if jax.process_index() == 0:
        with open(path) as file:
            print("answers written:", len(file.readlines()), "of", batch, flush=True)
    multihost_utils.sync_global_devices("end")


if __name__ == "__main__":
    main()
