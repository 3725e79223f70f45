from dataclasses import dataclass


@dataclass(frozen=True)
class DpoConfig:
    """Direct preference optimisation."""

    beta: float = 0.1
    learning_rate: float = 1e-2
    vocab: int = 16
    dim: int = 8
    steps: int = 3
