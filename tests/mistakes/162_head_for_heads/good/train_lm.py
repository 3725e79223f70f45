import argparse

import flax.linen as nn
import jax
import numpy as np
import optax
import yaml
from flax.training.train_state import TrainState
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P

from layers import Decoder


def load(path):
    with open(path) as f:
        cfg = yaml.safe_load(f)
    cfg["rules"] = [(k, tuple(v) if isinstance(v, list) else v) for k, v in cfg["rules"]]
    return cfg


def make_state(cfg, mesh, key):
    model = Decoder(**cfg["model"])
    tx = optax.adamw(cfg["train"]["lr"])
    tokens = np.zeros((cfg["train"]["batch"], cfg["train"]["seq"]), np.int32)

    def init_fn(key):
        return TrainState.create(apply_fn=model.apply, params=model.init(key, tokens)["params"], tx=tx)

    abstract = jax.eval_shape(init_fn, key)
    shardings = nn.logical_to_mesh_sharding(
        nn.get_partition_spec(abstract), mesh, cfg["rules"]
    )
    state = jax.jit(init_fn, out_shardings=shardings)(key)
    return state, shardings


def train_step(state, tokens):
    def loss_fn(params):
        logits = state.apply_fn({"params": params}, tokens[:, :-1])
        return optax.softmax_cross_entropy_with_integer_labels(logits, tokens[:, 1:]).mean()

    loss, grads = jax.value_and_grad(loss_fn)(state.params)
    return state.apply_gradients(grads=grads), loss


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--config", required=True)
    cfg = load(ap.parse_args().config)
    axes = cfg["mesh"]
    mesh = Mesh(np.array(jax.devices()).reshape(*axes.values()), tuple(axes))
    data = NamedSharding(mesh, P(("data", "fsdp")))
    t = cfg["train"]
    with nn.logical_axis_rules(cfg["rules"]):
        state, shardings = make_state(cfg, mesh, jax.random.key(t["seed"]))
        step = jax.jit(
            train_step,
            in_shardings=(shardings, data),
            out_shardings=(shardings, None),
            donate_argnums=0,
        )
        rng = np.random.default_rng(t["seed"])
        for i in range(t["steps"]):
            tokens = rng.integers(0, cfg["model"]["vocab"], (t["batch"], t["seq"] + 1), dtype=np.int32)
            state, loss = step(state, jax.device_put(tokens, data))
            print(f"{i} {float(loss):.4f}")


if __name__ == "__main__":
    main()
