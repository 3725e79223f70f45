"""Declarations of parameters."""

from dataclasses import dataclass
from typing import Optional

from jax.sharding import PartitionSpec


@dataclass(frozen=True)
class ParamSpec:
    shape: tuple[int, ...]
    scale: float = 1.0
    partition: Optional[PartitionSpec] = None


def dense(n_in: int, n_out: int, partition: Optional[PartitionSpec] = None) -> ParamSpec:
    return ParamSpec((n_in, n_out), n_in**-0.5, partition)
