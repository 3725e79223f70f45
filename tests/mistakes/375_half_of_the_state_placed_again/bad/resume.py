import pathlib
import tempfile

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P

import files
from trainer import Trainer


def main():
    mesh = Mesh(np.array(jax.devices()), ("fsdp",))
    x = jax.device_put(np.ones((16, 64), np.float32), NamedSharding(mesh, P("fsdp")))
    path = pathlib.Path(tempfile.mkdtemp()) / "state.npz"
    first = Trainer(mesh, path)
    first.step(x)
    files.write(path, first.params, first.moments)
    again = Trainer(mesh, path)
    print("moments spread over", len(again.moments["in"].sharding.device_set), "devices")
    again.step(x)


if __name__ == "__main__":
    main()
