import argparse

import jax
import numpy as np
from jax.sharding import PartitionSpec as PS

from llm.mesh import get_mesh, named
from llm.model import init, lm_loss

PARAM_SPECS = {"wte": PS("fsdp", "tp"), "w": PS("fsdp", "tp")}


def text_batches(batch, length, n):
    rng = np.random.default_rng(0)
    for _ in range(n):
        tokens = rng.integers(0, 128, (batch, length + 1))
        yield {
            "input_tokens": tokens[:, :-1],
            "target_tokens": tokens[:, 1:],
            "loss_masks": np.ones((batch, length), np.float32),
        }


def main(argv=None):
    parser = argparse.ArgumentParser()
    parser.add_argument("--mesh_dim", default="2,4,1")
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--length", type=int, default=32)
    args = parser.parse_args(argv)

    mesh = get_mesh(args.mesh_dim)
    param_sharding = {k: named(mesh, s) for k, s in PARAM_SPECS.items()}
    # examples are split over data and fsdp
    batch_sharding = named(mesh, PS(("dp", "fsdp")))

    def train_step(params, batch):
        loss, grads = jax.value_and_grad(lm_loss)(params, batch)
        return jax.tree.map(lambda p, g: p - 0.1 * g, params, grads), loss

    step = jax.jit(
        train_step, donate_argnums=0,
        in_shardings=(param_sharding, batch_sharding),
        out_shardings=(param_sharding, named(mesh, PS())),
    )
    params = jax.jit(init, out_shardings=param_sharding)(jax.random.key(0))
    print("shard", batch_sharding.shard_shape((args.batch, args.length)))
    for batch in text_batches(args.batch, args.length, 3):
        params, loss = step(params, batch)
        print(loss)


if __name__ == "__main__":
    main()
