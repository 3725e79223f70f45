"""Answers one batch with a dense model, and one with experts."""

import jax
import jax.numpy as jnp
import numpy as np

from router.topology import Options, serving_mesh
from router.weights import made, placed


@jax.jit
def answer(weights, x):
    h = x * weights["norm"]
    y = jax.nn.relu(h @ weights["up"]) @ weights["down"]
    if "gate" in weights:
        y = y * jax.nn.softmax(h @ weights["gate"]).max(-1, keepdims=True)
    return jnp.tanh(y)


def main():
    x = np.random.default_rng(1).normal(size=(16, 64)).astype(np.float32)
    for options in (Options(), Options(experts=8)):
        mesh = serving_mesh(options)
        out = answer(placed(made(options), mesh), x)
        kind = "experts" if options.experts else "no experts"
        print(f"answered {out.shape[0]} rows with {kind}")


if __name__ == "__main__":
    main()
