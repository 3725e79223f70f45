import functools

import jax
import numpy as np
from jax.experimental import multihost_utils
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P

import net
import start
import streams


class Run:
    def __init__(self, mesh, keys):
        whole = NamedSharding(mesh, P())
        self.rows = NamedSharding(mesh, P("rows"))
        self.params = jax.jit(functools.partial(net.init, width=16), out_shardings=whole)(keys.model)
        self.draw = np.random.default_rng(np.asarray(jax.random.key_data(keys.rows)).tolist())
        self.update = jax.jit(self._update, out_shardings=whole)

    def _update(self, params, x):
        grads = jax.grad(net.loss_fn)(params, x)
        return jax.tree.map(lambda p, g: p - 0.1 * g, params, grads)

    def step(self):
        x = self.draw.normal(size=(16, 4)).astype(np.float32)
        self.params = self.update(self.params, jax.make_array_from_process_local_data(self.rows, x))


def main():
    start.connect()
    run = Run(Mesh(np.array(jax.devices()), ("rows",)), streams.of_seed(3))
    for _ in range(3):
        run.step()
    own = np.asarray(run.params["in"].addressable_data(0))
    every = multihost_utils.process_allgather(own)
    if jax.process_index() == 0:
        print("weights alike:", bool(np.allclose(every[0], every[1])), flush=True)


if __name__ == "__main__":
    main()
