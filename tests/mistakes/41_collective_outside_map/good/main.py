import argparse

import jax
import jax.numpy as jnp
from jax.sharding import Mesh

from training import Trainer


def batch(seed, size=32, dim=8, classes=4):
    x = jax.random.normal(jax.random.key(seed), (size, dim))
    return {"inputs": x, "labels": jnp.argmax(x[:, :classes], axis=-1)}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--lr", type=float, default=0.1)
    args = parser.parse_args()
    k1, k2 = jax.random.split(jax.random.key(0))
    params = {"w1": jax.random.normal(k1, (8, 16)) * 0.3, "w2": jax.random.normal(k2, (16, 4)) * 0.3}
    trainer = Trainer(Mesh(jax.devices(), ("data",)), args.lr)
    for epoch in range(args.epochs):
        params, loss = trainer.train_step(params, batch(epoch))
        print(f"epoch {epoch} loss {float(loss):.4f} validation {float(trainer.eval_step(params, batch(99))):.4f}")
    print("trained for", args.epochs, "epochs")


if __name__ == "__main__":
    main()
