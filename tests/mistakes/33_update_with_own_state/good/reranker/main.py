"""Ranks random documents."""

import argparse

import jax
import jax.numpy as jnp
from flax import nnx
from jax.sharding import Mesh

from reranker.loader import load


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--dim", type=int, default=16)
    parser.add_argument("--hidden", type=int, default=32)
    parser.add_argument("--documents", type=int, default=10)
    args = parser.parse_args()

    mesh = Mesh(jax.devices(), ("model",))
    model = load(mesh, args.dim, args.hidden)
    score = nnx.jit(lambda model, q, d: model(q, d))
    documents = jax.random.normal(jax.random.key(1), (args.documents, args.dim))
    scores = score(model, jnp.ones((args.dim,)), documents)
    print("best", int(jnp.argmax(scores)))
    weight = model.document.kernel[...]
    print(f"weight on {len(weight.sharding.device_set)} device(s)")


if __name__ == "__main__":
    main()
