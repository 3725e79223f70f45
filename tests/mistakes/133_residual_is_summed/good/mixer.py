"""A residual block whose hidden units are split over the devices."""

import dataclasses

import jax
import jax.numpy as jnp
from jax.sharding import PartitionSpec as P


@dataclasses.dataclass(frozen=True)
class Mixer:
    mesh: jax.sharding.Mesh
    axis: str = "tp"

    def specs(self):
        return {"up": P(None, self.axis), "down": P(self.axis, None), "scale": P()}

    def _block(self, params, x):
        h = x * params["scale"]
        y = jax.nn.silu(h @ params["up"]) @ params["down"]
        return jax.lax.psum(y, self.axis) + x

    def __call__(self, params, x):
        run = jax.shard_map(self._block, mesh=self.mesh, in_specs=(self.specs(), P()), out_specs=P())
        return run(params, x)


def init(key, width, hidden):
    up, down = jax.random.split(key)
    return {
        "up": jax.random.normal(up, (width, hidden)) * width**-0.5,
        "down": jax.random.normal(down, (hidden, width)) * hidden**-0.5,
        "scale": jnp.ones(width),
    }
