import dataclasses


@dataclasses.dataclass(frozen=True)
class AttnConfig:
    heads: int = 2
    head_dim: int = 8
    seq_axis: str = "sp"
    seq_len: int = 64
