from dataclasses import dataclass


@dataclass(frozen=True)
class Config:
    width: int = 48
    hidden: int = 128
    classes: int = 16
    depth: int = 2
    batch: int = 32
    lr: float = 1e-2
    steps: int = 3
    data: int = 4
    model: int = 2
