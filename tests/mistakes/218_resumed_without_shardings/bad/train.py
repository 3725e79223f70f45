import argparse

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.sharding import NamedSharding, PartitionSpec as P

import state as S
from ckpt import Checkpoints


@jax.jit
def step(state, x):
    def loss(p):
        return jnp.mean((jax.nn.tanh(x @ p["w1"]) @ p["w2"] - x) ** 2)

    value, grads = jax.value_and_grad(loss)(state["params"])
    upd, opt = S.TX.update(grads, state["opt"], state["params"])
    return {"step": state["step"] + 1, "params": optax.apply_updates(state["params"], upd), "opt": opt}, value


def run(root, steps, resume):
    ckpts = Checkpoints(root, fresh=not resume)
    last = ckpts.latest()
    if resume and last is not None:
        state = ckpts.restore(last, S.abstract())
    else:
        state = S.fresh(jax.random.key(0))
    start = state
    rng = np.random.default_rng(int(state["step"]))
    for _ in range(steps):
        x = rng.normal(size=(16, 32)).astype(np.float32)
        state, loss = step(state, jax.device_put(x, NamedSharding(S.MESH, P("data"))))
    ckpts.save(int(state["step"]), state)
    print("step", int(state["step"]), "loss", float(loss))
    return start


if __name__ == "__main__":
    ap = argparse.ArgumentParser()
    ap.add_argument("--root", default="/tmp/blind_orbax")
    ap.add_argument("--steps", type=int, default=3)
    ap.add_argument("--resume", action="store_true")
    run(**vars(ap.parse_args()))
