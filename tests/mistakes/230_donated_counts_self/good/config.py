import dataclasses


@dataclasses.dataclass(frozen=True)
class TrainConfig:
    width: int = 512
    depth: int = 4
    batch: int = 128
    lr: float = 1e-3
    steps: int = 3
