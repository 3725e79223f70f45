"""Options of a run."""

import argparse
from dataclasses import dataclass


@dataclass(frozen=True)
class Options:
    nodes: int
    dim: int
    rounds: int
    constrain: bool

    @classmethod
    def parse(cls) -> "Options":
        parser = argparse.ArgumentParser(description="Message passing over a random graph.")
        parser.add_argument("--nodes", type=int, default=32)
        parser.add_argument("--dim", type=int, default=16)
        parser.add_argument("--rounds", type=int, default=2)
        parser.add_argument("--constrain", action="store_true", help="keep the nodes split between rounds")
        return cls(**vars(parser.parse_args()))
