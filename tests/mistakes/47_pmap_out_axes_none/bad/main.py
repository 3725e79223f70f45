"""Finds the centre of some numbers."""

import argparse

import jax.numpy as jnp

from data import batches
from replicate import replicate, shard
from training import train_step


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=1)
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--log-every", type=int, default=1)
    args = parser.parse_args()
    params = replicate({"center": jnp.zeros(())})
    for i, batch in enumerate(batches(args.steps, args.batch)):
        params, loss = train_step(params, shard(batch))
        if i % args.log_every == 0:
            print(f"step {i} reported loss {float(loss):.4f}")
    print("center", float(params["center"].mean()))


if __name__ == "__main__":
    main()
