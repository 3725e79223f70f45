import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P

import start
from corpus import Corpus
from scoring import Scoring


def main():
    start.connect()
    mesh = Mesh(np.array(jax.devices()), ("rows",))
    w = jax.jit(lambda: jnp.ones(6), out_shardings=NamedSharding(mesh, P()))()
    accuracy, rows = Scoring(Corpus(65), mesh, batch=8)(w)
    if jax.process_index() == 0:
        print(f"finished, {rows} rows, accuracy {accuracy:.2f}", flush=True)
    start.wait("end")


if __name__ == "__main__":
    main()
