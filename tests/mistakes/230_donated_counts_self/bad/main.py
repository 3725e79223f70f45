import argparse
import dataclasses

import jax

from config import TrainConfig
from trainer import Trainer


def parse() -> TrainConfig:
    parser = argparse.ArgumentParser()
    for field in dataclasses.fields(TrainConfig):
        parser.add_argument(f"--{field.name}", type=type(field.default), default=field.default)
    return TrainConfig(**vars(parser.parse_args()))


def main() -> None:
    trainer = Trainer(parse())
    params, opt_state = trainer.init(jax.random.key(0))
    key = jax.random.key(1)
    for i, x in enumerate(trainer.batches()):
        old = params
        params, opt_state, key, loss = trainer.step(params, opt_state, key, x)
        print("step", i, "loss", float(loss), "old params freed:", old[0].is_deleted())


if __name__ == "__main__":
    main()
