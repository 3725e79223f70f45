"""Hyperparameters of the regression run."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Config:
    batch_size: int = 32
    features: int = 16
    hidden: int = 64
    learning_rate: float = 1e-3
    seed: int = 0
    data_axis: str = "data"
