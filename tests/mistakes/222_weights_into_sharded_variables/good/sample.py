import argparse
import os
import tempfile

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P

from model import Llama, ModelConfig
from weights import load_safetensors, write_demo


@nnx.jit
def next_token(model, tokens, length, key, temperature):
    """tokens are padded to a fixed size; causal, so the padding is never looked at"""
    logits = model(tokens)[:, length - 1] / temperature
    return tokens.at[:, length].set(jax.random.categorical(key, logits).astype(jnp.int32))


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--weights")
    ap.add_argument("--demo", action="store_true")
    ap.add_argument("--new", type=int, default=6)
    args = ap.parse_args()
    cfg = ModelConfig()
    if args.demo:
        cfg = ModelConfig(vocab=64, dim=32, heads=8, ffn=64, layers=2)
        args.weights = os.path.join(tempfile.mkdtemp(), "model.safetensors")
        write_demo(args.weights, cfg)

    mesh = Mesh(np.array(jax.devices()), ("tp",))
    with jax.set_mesh(mesh):
        model = nnx.jit(lambda: Llama(cfg, nnx.Rngs(0)))()
        load_safetensors(model, args.weights)
        tokens = np.zeros((2, 16), np.int32)
        tokens[:, :3] = [[1, 5, 9], [1, 7, 2]]
        tokens = jax.device_put(tokens, NamedSharding(mesh, P()))
        key = jax.random.key(0)
        for i in range(args.new):
            length = jnp.asarray(3 + i)
            tokens = next_token(model, tokens, length, jax.random.fold_in(key, i), jnp.asarray(0.8))
        print(np.asarray(tokens)[:, : 3 + args.new])


if __name__ == "__main__":
    main()
