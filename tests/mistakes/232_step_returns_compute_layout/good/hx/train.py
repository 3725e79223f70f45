import argparse

import equinox as eqx
import haliax as hax
import jax
import numpy as np
import optax

from .config import load
from .model import Model


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--config", required=True)
    mc, tc = load(ap.parse_args().config)
    tx = optax.adamw(tc.lr)

    @hax.named_jit(axis_resources=tc.parameter_axes)
    def init(key):
        model = Model.init(mc, key)
        return model, tx.init(eqx.filter(model, eqx.is_inexact_array))

    @hax.named_jit(
        axis_resources=tc.compute_axes,
        out_axis_resources=tc.parameter_axes,
        donate_args=(False, True, True),
    )
    def step(tokens, model, opt_state):
        loss, grads = eqx.filter_value_and_grad(Model.loss)(model, tokens)
        updates, opt_state = tx.update(grads, opt_state, eqx.filter(model, eqx.is_inexact_array))
        return eqx.apply_updates(model, updates), opt_state, loss

    rng = np.random.default_rng(0)
    with jax.set_mesh(tc.mesh()):
        model, opt_state = init(jax.random.PRNGKey(0))
        for i in range(tc.steps):
            raw = rng.integers(0, mc.vocab, (tc.batch, mc.position), dtype=np.int32)
            tokens = hax.shard(hax.named(raw, (tc.Batch, mc.Pos)), tc.compute_axes)
            model, opt_state, loss = step(tokens, model, opt_state)
            print(i, float(loss))


if __name__ == "__main__":
    main()
