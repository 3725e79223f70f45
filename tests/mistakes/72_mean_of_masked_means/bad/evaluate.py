import functools
import sys

import jax
import jax.numpy as jnp
import numpy as np
import yaml
from jax.sharding import Mesh, PartitionSpec as P

import lm
from losses import masked_loss


def load(path):
    with open(path) as f:
        return yaml.safe_load(f)


def make_eval(mesh):
    @jax.jit
    @functools.partial(
        jax.shard_map, mesh=mesh, in_specs=(P(), {"tokens": P("data"), "mask": P("data")}), out_specs=P()
    )
    def eval_loss(params, batch):
        tokens, mask = batch["tokens"], batch["mask"]
        logits = lm.logits_of(params, tokens[:, :-1])
        loss = masked_loss(logits, tokens[:, 1:], mask[:, 1:])
        return jax.lax.pmean(loss, "data")  # mistake: wrong-reducer

    return eval_loss


def main(path="config.yaml"):
    cfg = load(path)
    devices = np.array(jax.devices()[: cfg["mesh"]["data"]])
    mesh = Mesh(devices, ("data",))
    params = lm.init(jax.random.key(0), cfg["model"]["vocab"], cfg["model"]["width"])
    params = jax.tree.map(lambda p: p * 10, params)
    rng = np.random.default_rng(1)
    shape = (cfg["train"]["batch"], cfg["train"]["length"])
    tokens = rng.integers(0, cfg["model"]["vocab"], shape)
    lengths = rng.integers(2, shape[1] + 1, shape[0])
    mask = (np.arange(shape[1])[None] < lengths[:, None]).astype(np.float32)
    loss = make_eval(mesh)(params, {"tokens": jnp.asarray(tokens), "mask": jnp.asarray(mask)})
    whole = masked_loss(lm.logits_of(params, tokens[:, :-1]), tokens[:, 1:], mask[:, 1:])
    print("sharded", float(loss), "whole", float(whole))


if __name__ == "__main__":
    main(*sys.argv[1:])
