"""A small trainer of a package whose root is the repository itself."""

import os
import tempfile

import jax
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P

from smallrl.core.model import batch, init, loss
from smallrl.utils.files import Checkpoint
from smallrl.utils.hosts import host_gather


def main():
    if "COORDINATOR" in os.environ:
        jax.distributed.initialize(
            os.environ["COORDINATOR"], int(os.environ["NUM_PROCESSES"]), int(os.environ["PROCESS_ID"])
        )
    mesh = Mesh(jax.devices(), ("devices",))
    params = jax.device_put(init(jax.random.key(0)), NamedSharding(mesh, P("devices")))
    grad = jax.jit(jax.grad(loss))
    for i in range(4):
        states, returns = batch(jax.random.key(i))
        grads = grad(params, states, returns)
        params = jax.tree.map(lambda p, g: p - 0.1 * g, params, grads)
        if i % 2 == 1:
            gathered = host_gather(params)
            if jax.process_index() == 0:
                cp = Checkpoint(f"{tempfile.mkdtemp()}/{i}.pkl")
                cp.params = gathered
                cp.save()
    if jax.process_index() == 0:
        print("saved after step 3")


if __name__ == "__main__":
    main()
