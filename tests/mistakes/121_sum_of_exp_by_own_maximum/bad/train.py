"""Training script for the next-word model."""
import jax
import numpy as np
import optax
from jax.sharding import Mesh, NamedSharding

import model


def windows(rng, batch, span, vocab):
    start = rng.integers(0, vocab, size=(batch, 1))
    stride = rng.integers(1, 4, size=(batch, 1))
    seq = (start + stride * np.arange(span + 1)) % vocab
    return seq[:, :-1].astype(np.int32), seq[:, -1].astype(np.int32)


def main(vocab=64, width=24, steps=40, batch=128):
    mesh = Mesh(np.array(jax.devices()), ("tp",))
    params = model.init(jax.random.key(2), vocab, width)
    params = jax.device_put(
        params, {name: NamedSharding(mesh, spec) for name, spec in model.SPECS.items()}
    )
    loss_fn = model.make_loss(mesh)
    tx = optax.sgd(0.5)
    opt_state = tx.init(params)

    @jax.jit
    def step(params, opt_state, context, target):
        loss, grads = jax.value_and_grad(loss_fn)(params, context, target)  # mistake: softmax-scale
        updates, opt_state = tx.update(grads, opt_state)
        return optax.apply_updates(params, updates), opt_state, loss

    rng = np.random.default_rng(4)
    for i in range(steps):
        context, target = windows(rng, batch, 3, vocab)
        params, opt_state, loss = step(params, opt_state, context, target)
        if i % 10 == 0:
            print(f"step {i:3d} loss {float(loss):.5f}")
    print(f"final loss {float(loss):.5f}")


if __name__ == "__main__":
    main()
