"""Flags of the program."""

import argparse
from dataclasses import dataclass


@dataclass
class Flags:
    data_parallel: int
    model_parallel: int
    batch_size: int

    @classmethod
    def parse(cls) -> "Flags":
        parser = argparse.ArgumentParser()
        parser.add_argument("--data-parallel", type=int, default=8)
        parser.add_argument("--model-parallel", type=int, default=1)
        parser.add_argument("--batch-size", type=int, default=16)
        return cls(**vars(parser.parse_args()))
