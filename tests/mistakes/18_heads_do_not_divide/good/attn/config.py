"""Presets."""

from dataclasses import dataclass, field


@dataclass(frozen=True)
class MeshConfig:
    data: int = 2
    tensor: int = 4

    @property
    def shape(self) -> tuple[int, int]:
        return self.data, self.tensor


@dataclass(frozen=True)
class ModelConfig:
    num_heads: int
    head_dim: int
    mesh: MeshConfig = field(default_factory=MeshConfig)

    @property
    def dim(self) -> int:
        return self.num_heads * self.head_dim


SMALL = ModelConfig(num_heads=4, head_dim=12)
BASE = ModelConfig(num_heads=16, head_dim=8)
