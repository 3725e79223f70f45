"""Scores a few token sequences with weights split over the vocabulary."""

import argparse
import tempfile
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P

from scorer import Scorer
from store import save_weights


def make_example(path: Path, vocab: int, dim: int) -> None:
    rng = np.random.default_rng(0)
    save_weights(path, {"embed": rng.normal(size=(vocab, dim)), "head": rng.normal(size=(dim, 2))})


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--checkpoint", type=Path)
    parser.add_argument("--vocab", type=int, default=256)
    args = parser.parse_args()
    path = args.checkpoint
    if path is None:
        path = Path(tempfile.mkdtemp()) / "weights.npz"
        make_example(path, args.vocab, 32)

    mesh = Mesh(np.array(jax.devices()), ("vocab",))
    shardings = {"embed": NamedSharding(mesh, P("vocab", None)), "head": NamedSharding(mesh, P())}
    scorer = Scorer.from_checkpoint(path, shardings)
    scores = scorer(jnp.arange(24).reshape(4, 6))
    print("scores", scores.shape)
    embed = scorer.weights["embed"]
    print(f"embed on {len(embed.sharding.device_set)} device(s)")


if __name__ == "__main__":
    main()
