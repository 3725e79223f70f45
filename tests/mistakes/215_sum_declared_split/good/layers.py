"""A two layer block whose hidden features are split over the devices."""
import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import NamedSharding, PartitionSpec as P


@dataclasses.dataclass(frozen=True)
class Widths:
    model: int = 16
    hidden: int = 64


def weights(widths, seed=0):
    rng = np.random.default_rng(seed)
    return {
        "up": rng.normal(size=(widths.model, widths.hidden)).astype(np.float32) / np.sqrt(widths.model),
        "down": rng.normal(size=(widths.hidden, widths.model)).astype(np.float32) / np.sqrt(widths.hidden),
    }


class Block:
    """`up` is split by columns and `down` by rows."""

    def __init__(self, mesh, params, axis="tp"):
        self.axis = axis
        self.specs = {"up": P(None, axis), "down": P(axis, None)}
        self.params = {
            name: jax.device_put(value, NamedSharding(mesh, self.specs[name])) for name, value in params.items()
        }
        self.apply = jax.jit(
            jax.shard_map(
                self._apply,
                mesh=mesh,
                in_specs=(P(), self.specs["up"], self.specs["down"]),
                out_specs=P(),
            )
        )

    def _apply(self, x, up, down):
        hidden = jax.nn.gelu(x @ up)
        return jax.lax.psum(hidden @ down, self.axis)

    def __call__(self, x):
        return self.apply(x, self.params["up"], self.params["down"])


def main():
    mesh = jax.make_mesh((8,), ("tp",))
    widths = Widths()
    params = weights(widths)
    block = Block(mesh, params)
    x = np.random.default_rng(1).normal(size=(4, widths.model)).astype(np.float32)
    x = jax.device_put(x, NamedSharding(mesh, P()))
    found = block(x)
    print(f"output has {found.shape[1]} columns, norm {float(jnp.linalg.norm(found)):.2f}")


if __name__ == "__main__":
    main()
