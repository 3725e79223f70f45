"""Tags a batch of token sequences."""

import argparse
from functools import partial

import jax
import jax.numpy as jnp

from tagger.model import Tagger, predict
from tagger.partitioning import create_mesh, partitioned


def run(batch: int, length: int):
    model = Tagger()
    tokens = jnp.arange(batch * length).reshape(batch, length) % model.vocab
    variables = model.init(jax.random.key(0), tokens)
    tags, hidden = jax.jit(partial(predict, model))(variables, tokens)
    print("tags", tags.shape)
    print(f"hidden on {len(hidden.sharding.device_set)} device(s)")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", type=int, default=4)
    parser.add_argument("--model", type=int, default=2)
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--length", type=int, default=6)
    args = parser.parse_args()
    mesh = create_mesh(args.data, args.model)
    with partitioned(mesh):
        run(args.batch, args.length)


if __name__ == "__main__":
    main()
