import argparse

import haliax as hax
import jax
import jax.numpy as jnp

from nano.config import ModelConfig, TrainerConfig
from nano.model import Bigram


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--hidden", type=int, default=32)
    args = parser.parse_args()
    trainer = TrainerConfig()
    config = ModelConfig(hidden_dim=args.hidden)
    with trainer.device_mesh:
        create = hax.named_jit(Bigram.init, axis_resources=trainer.parameter_axis_mapping)
        model = create(config, key=jax.random.key(0))
        tokens = hax.named(jnp.arange(trainer.batch), "batch")
        logits = hax.named_jit(lambda m, t: m(t), axis_resources=trainer.axis_resources)(model, tokens)
    print("logits", logits.axes)
    print("shard", model.embed.array.addressable_shards[0].data.shape)


if __name__ == "__main__":
    main()
