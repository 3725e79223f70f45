from typing import NamedTuple


class GPTConfig(NamedTuple):
    n_layer: int = 6
    d_model: int = 64
    d_ff: int = 256
    vocab: int = 128
