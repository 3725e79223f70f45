"""All processes look at the validation rows of one feed, and compare what they find."""
import argparse

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import multihost_utils

from feeds import Feed, FeedConfig
from start import start


@jax.jit
def score(batch):
    return jnp.mean(jnp.tanh(batch) ** 2)


def validate(cfg: FeedConfig):
    feed = Feed(cfg)
    return np.array([float(score(batch)) for batch in feed.batches(8)])


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--feed", type=int, default=0)
    args = parser.parse_args()
    start()
    cfg = FeedConfig(num_feeds=2, feed_index=args.feed)
    scores = validate(cfg)
    every = multihost_utils.process_allgather(scores)
    if jax.process_index() == 0:
        same = np.allclose(every[0], every[1])
        print(f"same rows on {jax.process_count()} processes" if same else "rows differ between processes", flush=True)


if __name__ == "__main__":
    main()
