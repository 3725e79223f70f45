import argparse

import jax
import numpy as np
from jax.experimental import multihost_utils
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

import denoiser


def preview(params: dict, key: jax.Array) -> None:
    local = {name: p.addressable_data(0) for name, p in params.items()}
    print("preview, mean of the samples", float(denoiser.sample(local, key, 16).mean()), flush=True)


def main() -> None:
    ap = argparse.ArgumentParser()
    ap.add_argument("address")
    ap.add_argument("world", type=int)
    ap.add_argument("rank", type=int)
    ap.add_argument("--steps", type=int, default=4)
    ap.add_argument("--preview-every", type=int, default=2)
    args = ap.parse_args()
    jax.distributed.initialize(args.address, args.world, args.rank)
    mesh = Mesh(np.asarray(jax.devices()), ("data",))
    everywhere, rows = NamedSharding(mesh, P()), NamedSharding(mesh, P("data"))

    key, init_key = jax.random.split(jax.random.key(7))
    params = jax.jit(denoiser.init, static_argnums=1, out_shardings=everywhere)(init_key, 32)

    @jax.jit
    def step(params, key, x):
        value, grads = jax.value_and_grad(denoiser.loss)(params, key, x)
        return jax.tree.map(lambda p, g: p - 0.1 * g, params, grads), value

    host_rng = np.random.default_rng(args.rank)
    for i in range(args.steps):
        key, step_key = jax.random.split(key)
        local = host_rng.normal(size=(16, 32)).astype(np.float32)
        params, value = step(params, step_key, jax.make_array_from_process_local_data(rows, local))
        if i % args.preview_every == 0 and jax.process_index() == 0:
            key, preview_key = jax.random.split(key)  # mistake: replicas-differ
            preview(params, preview_key)
    keys = multihost_utils.process_allgather(jax.random.key_data(key))
    weights = multihost_utils.process_allgather(np.asarray(params["w"].addressable_data(0)))
    if jax.process_index() == 0:
        print("keys agree:", bool((keys[0] == keys[1]).all()), "weights differ by", float(np.abs(weights[0] - weights[1]).max()))


if __name__ == "__main__":
    main()
