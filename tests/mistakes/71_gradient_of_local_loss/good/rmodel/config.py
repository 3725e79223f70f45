from dataclasses import dataclass, field


@dataclass(frozen=True)
class OptimConfig:
    learning_rate: float = 1e-2
    weight_decay: float = 0.0


@dataclass(frozen=True)
class TrainConfig:
    features: int = 16
    hidden: int = 32
    batch: int = 64
    steps: int = 20
    data_axis: str = "replica"
    optim: OptimConfig = field(default_factory=OptimConfig)
