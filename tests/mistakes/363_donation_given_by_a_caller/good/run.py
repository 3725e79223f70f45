import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

from flow.solver import advance, energy


def main(steps=4):
    mesh = Mesh(np.array(jax.devices()), ("rows",))
    rows = NamedSharding(mesh, P("rows"))
    field = jax.device_put(np.sin(np.arange(128, dtype=np.float32)).reshape(16, 8), rows)
    for step in range(steps):
        force = jax.device_put(np.full((16, 8), step, np.float32), rows)
        field = advance(field, force)
    print(f"energy over {len(field.devices())} devices: {float(energy(field)):.3f}")


if __name__ == "__main__":
    main()
