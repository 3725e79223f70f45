import argparse

import jax
import jax.numpy as jnp
from flax import linen as nn
from jax.sharding import AxisType

from mla.attention import Queries
from mla.rules import PRESETS


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--preset", choices=sorted(PRESETS), default="mixed")
    args = parser.parse_args()
    preset = PRESETS[args.preset]
    mesh = jax.make_mesh((preset.fsdp, preset.tensor), ("fsdp", "tensor"), axis_types=(AxisType.Auto,) * 2)

    model = Queries(rank=16, heads=16, head_dim=32)
    x = jnp.ones((2, 8, 64))
    with jax.set_mesh(mesh), nn.logical_axis_rules(preset.rules):
        abstract = jax.eval_shape(model.init, jax.random.key(0), x)
        shardings = nn.logical_to_mesh_sharding(nn.get_partition_spec(abstract), mesh)
        variables = nn.unbox(jax.jit(model.init, out_shardings=shardings)(jax.random.key(0), x))
    for name, value in variables["params"].items():
        print(name, "shard", value.addressable_shards[0].data.shape)


if __name__ == "__main__":
    main()
