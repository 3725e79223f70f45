"""Trains a matrix over several processes and saves it."""

import argparse
import tempfile
from pathlib import Path

import jax
import jax.numpy as jnp
from jax.sharding import NamedSharding, PartitionSpec as P

from pre import cluster, saving


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=2)
    parser.add_argument("--out", type=Path, default=None)
    args = parser.parse_args()
    cluster.connect()
    mesh = cluster.global_mesh()
    sharding = NamedSharding(mesh, P("fsdp"))
    params = {"w": jax.jit(lambda: jnp.eye(16), out_shardings=sharding)()}

    @jax.jit
    def step(params):
        loss, grads = jax.value_and_grad(lambda p: jnp.mean((p["w"] - 1.0) ** 2))(params)
        return jax.tree.map(lambda p, g: p - g, params, grads), loss

    for _ in range(args.steps):
        params, loss = step(params)
    out = args.out or Path(tempfile.mkdtemp()) / "weights.npz"
    weights = saving.to_host(params)
    if saving.is_main_process():
        saving.write(out, weights)
    print(f"process {jax.process_index()} finished, loss {float(loss):.4f}")


if __name__ == "__main__":
    main()
