"""Configuration of sequence-parallel runs."""

from dataclasses import dataclass


@dataclass(frozen=True)
class ShardingConfig:
    """Mesh axes, by what they split."""

    batch_axis: str = "data"
    sequence_axis: str = "data"  # mistake: duplicate-axis
    embed_axis: str | None = None


@dataclass(frozen=True)
class RunConfig:
    data_parallel: int = 4
    sequence_parallel: int = 2
    batch: int = 4
    length: int = 4
    dim: int = 8
    sharding: ShardingConfig = ShardingConfig()
