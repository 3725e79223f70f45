"""An optax training loop; the state is donated."""
import functools
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.sharding import AxisType, NamedSharding, PartitionSpec as P

mesh = jax.make_mesh((4, 2), ("data", "model"), axis_types=(AxisType.Auto,) * 2)


@dataclass(frozen=True)
class Config:
    width: int = 512
    hidden: int = 2048
    lr: float = 1e-3


def init(cfg, key):
    k1, k2 = jax.random.split(key)
    return {"up": jax.random.normal(k1, (cfg.width, cfg.hidden)) * 0.02,
            "down": jax.random.normal(k2, (cfg.hidden, cfg.width)) * 0.02}


def train_step(cfg, state, batch):
    def loss_fn(params):
        h = jax.nn.silu(batch["x"] @ params["up"]) @ params["down"]
        return jnp.mean((h - batch["y"]) ** 2)

    loss, grads = jax.value_and_grad(loss_fn)(state["params"])
    updates, opt = optax.adam(cfg.lr).update(grads, state["opt"])
    return {"params": optax.apply_updates(state["params"], updates), "opt": opt}, {"loss": loss}


def main():
    cfg = Config()
    step = jax.jit(functools.partial(train_step, cfg), donate_argnums=(1,))  # here SL223
    specs = {"up": P(None, "model"), "down": P("model", None)}
    params = jax.tree.map(lambda x, s: jax.device_put(x, NamedSharding(mesh, s)), init(cfg, jax.random.key(0)), specs)
    state = {"params": params, "opt": optax.adam(cfg.lr).init(params)}
    rng = np.random.default_rng(0)
    for i in range(4):
        x = rng.normal(size=(256, cfg.width)).astype(np.float32)
        batch = jax.device_put({"x": x, "y": np.tanh(x)}, NamedSharding(mesh, P("data")))
        state, metrics = step(state, batch)
        print(i, float(metrics["loss"]))


if __name__ == "__main__":
    main()
