import argparse

import jax
import optax
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P

from diffusion import denoiser
from diffusion.state import State
from diffusion.train import make_step


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--decay", type=float, default=0.99)
    parser.add_argument("--steps", type=int, default=2)
    args = parser.parse_args()
    mesh = Mesh(jax.devices(), ("data",))
    tx = optax.adam(1e-3)
    params = jax.device_put(denoiser.init(jax.random.key(0)), NamedSharding(mesh, P()))
    state = State.create(params, tx)
    step = make_step(tx, args.decay)
    x = jax.device_put(jax.random.normal(jax.random.key(1), (16, 8)), NamedSharding(mesh, P("data")))
    for key in jax.random.split(jax.random.key(2), args.steps):
        state, loss = step(state, key, x)
    print("final loss", float(loss))


if __name__ == "__main__":
    main()
