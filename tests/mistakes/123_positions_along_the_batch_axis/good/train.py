"""Train the tagger; the tag depends on the token and on its position."""
import jax
import numpy as np
import optax

from config import ModelConfig, build_mesh
from tagger import Tagger


def batch(cfg, size, seed):
    rng = np.random.default_rng(seed)
    tokens = rng.integers(0, cfg.vocab, size=(size, cfg.max_len)).astype(np.int32)
    labels = (tokens + np.arange(cfg.max_len) // 8) % 6
    return tokens, labels.astype(np.int32)


def main(steps=30, size=16):
    cfg = ModelConfig()
    tagger = Tagger(cfg, build_mesh(), tags=6)
    params = tagger.init()
    tx = optax.adamw(0.02)
    opt_state = tx.init(params)

    @jax.jit
    def step(params, opt_state, tokens, labels):
        loss, grads = jax.value_and_grad(tagger.loss)(params, tokens, labels)
        updates, opt_state = tx.update(grads, opt_state, params)
        return optax.apply_updates(params, updates), opt_state, loss

    for i in range(steps):
        params, opt_state, loss = step(params, opt_state, *batch(cfg, size, i))
        if i % 10 == 0:
            print(f"step {i} loss {float(loss):.5f}")
    tokens, labels = batch(cfg, size, 999)
    predicted = np.asarray(jax.jit(tagger.logits)(params, tokens)).argmax(-1)
    print(f"final loss {float(loss):.5f} held-out tag accuracy {(predicted == labels).mean():.5f}")


if __name__ == "__main__":
    main()
