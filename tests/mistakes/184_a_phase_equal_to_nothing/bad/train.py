import argparse
import functools
import logging

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

import lm
from schedule import Phase, phase_at

log = logging.getLogger("train")
tx = optax.adam(1e-3)


@functools.partial(jax.jit, static_argnames="phase", donate_argnames=("params", "opt_state"))  # mistake: static-argument-varies
def train_step(params, opt_state, ids, phase: Phase):
    def loss_fn(params):
        if phase.freeze_embed:
            params = {**params, "embed": jax.lax.stop_gradient(params["embed"])}
        out = lm.logits(params, ids[:, :-1])
        hot = optax.smooth_labels(jax.nn.one_hot(ids[:, 1:], out.shape[-1]), phase.label_smoothing)
        return optax.softmax_cross_entropy(out, hot).mean()

    loss, grads = jax.value_and_grad(loss_fn)(params)
    updates, opt_state = tx.update(grads, opt_state)
    return optax.apply_updates(params, updates), opt_state, loss


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=8)
    parser.add_argument("--warm", type=int, default=4)
    args = parser.parse_args()
    logging.basicConfig(level=logging.INFO)

    mesh = Mesh(np.asarray(jax.devices()), ("data",))
    params = jax.device_put(lm.init(jax.random.key(0), 256, 64), NamedSharding(mesh, P()))
    opt_state = jax.device_put(tx.init(params), NamedSharding(mesh, P()))
    rng = np.random.default_rng(0)
    for step in range(args.steps):
        ids = jax.device_put(rng.integers(0, 256, (32, 33), dtype=np.int32), NamedSharding(mesh, P("data")))
        params, opt_state, loss = train_step(params, opt_state, ids, phase=phase_at(step, args.warm))
        log.info("step %d loss %.4f", step, float(loss))
    print("compiled programs:", train_step._cache_size())


if __name__ == "__main__":
    main()
