"""Trains a sparse autoencoder on random activations."""

import argparse

import jax
import optax
from jax.sharding import Mesh

from sae import model
from sae.trainer import SaeTrainer


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--dim", type=int, default=8)
    parser.add_argument("--features", type=int, default=32)
    parser.add_argument("--steps", type=int, default=2)
    args = parser.parse_args()
    trainer = SaeTrainer(Mesh(jax.devices(), ("features",)), optax.sgd(0.1), penalty=0.01)
    params = jax.device_put(model.init(jax.random.key(0), args.dim, args.features), trainer.param_shardings)
    opt_state = trainer.tx.init(params)
    for i in range(args.steps):
        batch = jax.random.normal(jax.random.key(i), (16, args.dim))
        params, opt_state, loss = trainer.step(params, opt_state, batch)
    print("final loss", float(loss))


if __name__ == "__main__":
    main()
