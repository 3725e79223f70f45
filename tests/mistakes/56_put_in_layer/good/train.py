from functools import partial

import jax
import numpy as np
import optax
from flax.training.train_state import TrainState

from config import Config
from layout import Layout
from model import MLP


def loss_fn(params, apply_fn, batch):
    logits = apply_fn({"params": params}, batch["x"])
    return optax.softmax_cross_entropy_with_integer_labels(logits, batch["y"]).mean()


@partial(jax.jit, donate_argnums=0)
def train_step(state, batch):
    loss, grads = jax.value_and_grad(loss_fn)(state.params, state.apply_fn, batch)
    return state.apply_gradients(grads=grads), loss


def batches(cfg: Config, seed: int = 0):
    rng = np.random.default_rng(seed)
    for _ in range(cfg.steps):
        yield {
            "x": rng.normal(size=(cfg.batch, cfg.width)).astype(np.float32),
            "y": rng.integers(0, cfg.classes, size=(cfg.batch,)),
        }


def main(cfg: Config = Config()):
    layout = Layout(cfg.data, cfg.model)
    model = MLP(cfg, layout)
    x0 = np.zeros((cfg.batch, cfg.width), np.float32)
    params = model.init(jax.random.key(0), x0)["params"]
    params = jax.device_put(params, layout.replicated())
    state = TrainState.create(apply_fn=model.apply, params=params, tx=optax.adamw(cfg.lr))
    state = jax.device_put(state, layout.replicated())
    first = jax.device_put(next(batches(cfg)), layout.batch())
    compiled = train_step.lower(state, first).compile().as_text()
    print("hidden split", f"f32[{cfg.batch // cfg.data},{cfg.hidden // cfg.model}]" in compiled)
    for step, batch in enumerate(batches(cfg)):
        batch = jax.device_put(batch, layout.batch())
        state, loss = train_step(state, batch)
        print(step, float(loss))


if __name__ == "__main__":
    main()
