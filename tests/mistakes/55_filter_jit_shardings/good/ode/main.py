"""Learns to double."""

import argparse

import equinox as eqx
import jax

from ode.field import Field
from ode.train import optimizer, step


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--dim", type=int, default=4)
    parser.add_argument("--iterations", type=int, default=3)
    args = parser.parse_args()
    model = Field(args.dim, 4, jax.random.key(0))
    opt_state = optimizer.init(eqx.filter(model, eqx.is_array))
    for key in jax.random.split(jax.random.key(1), args.iterations):
        model, opt_state, loss = step(model, opt_state, jax.random.normal(key, (16, args.dim)))
    print("final loss", float(loss))


if __name__ == "__main__":
    main()
