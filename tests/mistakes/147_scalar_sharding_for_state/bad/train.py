import jax
import numpy as np
import optax

import model
from sharding import fsdp


class Recommender:
    def __init__(self, lr=1e-2):
        self.tx = optax.adagrad(lr)
        mesh = jax.make_mesh((8,), ("fsdp",), axis_types=(jax.sharding.AxisType.Auto,))
        self.sh = fsdp(mesh, jax.eval_shape(self.init, jax.random.key(0)))
        self.step = jax.jit(
            self._step,
            in_shardings=(self.sh.scalar, self.sh.batch),  # mistake: in-shardings-prefix-wrong
            out_shardings=(self.sh.scalar, self.sh.scalar),
        )

    def init(self, key):
        """Made on the default device, the first step moves it where `in_shardings` says."""
        params = model.init(key)
        return params, self.tx.init(params)

    def _step(self, state, batch):
        params, opt = state
        loss, grads = jax.value_and_grad(model.loss)(params, batch)
        upd, opt = self.tx.update(grads, opt, params)
        return (optax.apply_updates(params, upd), opt), loss


def batches(n, seed=0):
    rng = np.random.default_rng(seed)
    for _ in range(n):
        h = rng.integers(0, 512, (64, 8))
        yield {"history": h, "target": (h[:, -1] + 1) % 512}


def main():
    rec = Recommender()
    state = rec.init(jax.random.key(0))
    for batch in batches(4):
        state, loss = rec.step(state, batch)
    print("loss", float(loss))
    return state


if __name__ == "__main__":
    main()
