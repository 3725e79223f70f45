import dataclasses


@dataclasses.dataclass
class Settings:
    dim: int = 32
    out: int = 8
    batch: int = 64
    epochs: int = 4
    steps_per_epoch: int = 2
    lr: float = 0.05
    patience: int = 2
