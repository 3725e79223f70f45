import argparse

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P

from .contrastive import make_loss
from .towers import CLIP


def pairs(batch, n_patch, patch_dim, vocab, seed=0):
    """caption = the concepts that were mixed into the patches"""
    world = np.random.default_rng(99).normal(size=(vocab, patch_dim))
    rng = np.random.default_rng(seed)
    while True:
        tokens = rng.integers(0, vocab, (batch, 4))
        img = world[tokens].mean(1)[:, None] + 0.3 * rng.normal(size=(batch, n_patch, patch_dim))
        yield img.astype(np.float32), tokens.astype(np.int32)


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--batch", type=int, default=64)
    ap.add_argument("--dim", type=int, default=64)
    ap.add_argument("--lr", type=float, default=1e-3)
    ap.add_argument("--steps", type=int, default=10_000)
    args = ap.parse_args()

    mesh = Mesh(np.array(jax.devices()), ("batch",))
    rep, split = NamedSharding(mesh, P()), NamedSharding(mesh, P("batch"))
    contrastive = make_loss(mesh)
    tx = optax.adamw(args.lr, weight_decay=0.1)
    model = eqx.filter_shard(CLIP(24, 100, args.dim, jax.random.key(0)), rep)
    opt = eqx.filter_shard(tx.init(eqx.filter(model, eqx.is_array)), rep)

    def loss_fn(model, images, tokens):
        img, txt = model(images, tokens)
        return contrastive(img, txt, jnp.exp(jnp.minimum(model.log_scale, jnp.log(100.0))))

    @eqx.filter_jit(donate="all-except-first")
    def step(batch, model, opt):
        loss, grads = eqx.filter_value_and_grad(loss_fn)(model, *batch)
        updates, opt = tx.update(grads, opt, eqx.filter(model, eqx.is_array))
        return eqx.apply_updates(model, updates), opt, loss

    stream = pairs(args.batch, 9, 24, 100)
    for i in range(args.steps):
        model, opt, loss = step(jax.device_put(next(stream), split), model, opt)
        if i % 50 == 0 or i < 3:
            print(i, float(loss), float(jnp.exp(model.log_scale)))


if __name__ == "__main__":
    main()
