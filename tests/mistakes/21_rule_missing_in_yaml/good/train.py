"""Trains a feed-forward model under logical axis rules."""

import argparse
from pathlib import Path

import jax
import jax.numpy as jnp
import yaml
from flax import linen as nn
from jax.sharding import AxisType

from model import FeedForward, loss


def read_rules(path: Path):
    raw = yaml.safe_load(path.read_text())
    rules = tuple((name, axis) for name, axis in raw["logical_axis_rules"])
    shape, axes = tuple(raw["mesh_shape"]), tuple(raw["mesh_axes"])
    return rules, jax.make_mesh(shape, axes, axis_types=(AxisType.Auto,) * len(axes))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--rules", type=Path, default=Path("rules.yml"))
    parser.add_argument("--hidden", type=int, default=64)
    args = parser.parse_args()
    rules, mesh = read_rules(args.rules)
    model = FeedForward(args.hidden)
    x = jnp.ones((8, 16))

    abstract = jax.eval_shape(model.init, jax.random.key(0), x)
    shardings = nn.logical_to_mesh_sharding(nn.get_partition_spec(abstract), mesh, rules)
    variables = jax.jit(model.init, out_shardings=shardings)(jax.random.key(0), x)
    variables = nn.unbox(variables)
    step = jax.jit(jax.value_and_grad(lambda v, x: loss(model, v, x)))
    value, _ = step(variables, x)
    wi = variables["params"]["wi"]
    print("loss", float(value))
    print("wi:", str(wi.sharding.spec).replace("PartitionSpec", "P"))


if __name__ == "__main__":
    main()
