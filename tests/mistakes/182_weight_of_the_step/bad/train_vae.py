import argparse
import time

import equinox as eqx
import jax
import numpy as np
import optax
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P

from anneal import KLAnneal
from vae import VAE, elbo_terms


def swiss_roll(n, dim, rng):
    t = 1.5 * np.pi * (1 + 2 * rng.random(n))
    base = np.stack([t * np.cos(t), 20 * rng.random(n), t * np.sin(t)], -1) / 10
    lift = np.random.default_rng(0).normal(size=(3, dim)) / 3**0.5
    return (base @ lift + 0.05 * rng.normal(size=(n, dim))).astype(np.float32)


class Experiment:
    def __init__(self, args):
        self.args = args
        mesh = Mesh(np.array(jax.devices()), ("data",))
        self.data, self.rep = NamedSharding(mesh, P("data")), NamedSharding(mesh, P())
        self.tx = optax.adamw(1e-3)
        key = jax.random.key(args.seed)
        self.key, init_key = jax.random.split(key)
        vae = VAE(args.dim, args.latent, args.width, key=init_key)
        self.vae = eqx.filter_shard(vae, self.rep)
        self.opt = eqx.filter_shard(self.tx.init(eqx.filter(self.vae, eqx.is_inexact_array)), self.rep)
        self.anneal = KLAnneal()
        self.update = self.build_update()

    def build_update(self):
        tx = self.tx

        def loss(vae, x, key, beta):
            nll, kl = elbo_terms(vae, x, key)
            return nll + beta * kl, (nll, kl)

        @eqx.filter_jit(donate="all-except-first")
        def update(inputs, vae, opt):
            x, key, beta = inputs
            (_, aux), grads = eqx.filter_value_and_grad(loss, has_aux=True)(vae, x, key, beta)
            delta, opt = tx.update(grads, opt, eqx.filter(vae, eqx.is_inexact_array))
            return eqx.apply_updates(vae, delta), opt, aux

        return update

    def run(self):
        rng = np.random.default_rng(self.args.seed)
        for step in range(self.args.steps):
            x = jax.device_put(swiss_roll(self.args.batch, self.args.dim, rng), self.data)
            tic = time.perf_counter()
            inputs = (x, jax.random.fold_in(self.key, step), self.anneal(step))  # mistake: static-argument-varies
            self.vae, self.opt, (nll, kl) = self.update(inputs, self.vae, self.opt)
            if step % self.args.log_every == 0:
                nll, kl = float(nll), float(kl)
                ms = 1e3 * (time.perf_counter() - tic)
                print(f"{step:6d} nll {nll:8.3f} kl {kl:8.3f} {ms:7.1f} ms")


if __name__ == "__main__":
    ap = argparse.ArgumentParser()
    ap.add_argument("--dim", type=int, default=32)
    ap.add_argument("--latent", type=int, default=8)
    ap.add_argument("--width", type=int, default=256)
    ap.add_argument("--batch", type=int, default=128)
    ap.add_argument("--steps", type=int, default=50_000)
    ap.add_argument("--log-every", type=int, default=1)
    ap.add_argument("--seed", type=int, default=0)
    Experiment(ap.parse_args()).run()
