"""Scores a set of texts with a reward model."""
import dataclasses
import tempfile
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P

from host import rows_of_host, write


@dataclasses.dataclass(frozen=True)
class Config:
    dp: int = 2
    fsdp: int = 2
    tp: int = 2
    texts: int = 32
    features: int = 16


def make_mesh(config):
    shape = (config.dp, config.fsdp, config.tp)
    return Mesh(np.array(jax.devices()).reshape(shape), ("dp", "fsdp", "tp"))


def make_scorer(mesh):
    rows = NamedSharding(mesh, P(("dp", "fsdp")))

    def score(weights, x):
        return jax.nn.sigmoid(jnp.tanh(x @ weights["hidden"]) @ weights["out"])

    return jax.jit(score, out_shardings=rows)


def initial(config, mesh):
    first, second = jax.random.split(jax.random.key(0))
    columns = NamedSharding(mesh, P(None, "tp"))
    hidden = jax.random.normal(first, (config.features, 32)) / config.features**0.5
    return {"hidden": jax.device_put(hidden, columns), "out": jax.random.normal(second, (32,))}


def main(config=Config()):
    mesh = make_mesh(config)
    weights = initial(config, mesh)
    scorer = make_scorer(mesh)
    x = np.random.default_rng(0).normal(size=(config.texts, config.features)).astype(np.float32)
    scores = scorer(weights, jax.device_put(x, NamedSharding(mesh, P(("dp", "fsdp")))))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "scores.txt"
        write(path, rows_of_host(scores))
        print("scores written:", len(path.read_text().splitlines()), "of", config.texts, "texts")


if __name__ == "__main__":
    main()
