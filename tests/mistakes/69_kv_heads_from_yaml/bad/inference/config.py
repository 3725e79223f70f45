from dataclasses import dataclass

import yaml


@dataclass(frozen=True)
class ModelConfig:
    dim: int
    heads: int
    kv_heads: int
    layers: int
    max_len: int
    tensor_parallel: int

    @property
    def head_dim(self):
        return self.dim // self.heads

    @staticmethod
    def from_yaml(path):
        with open(path) as f:
            return ModelConfig(**yaml.safe_load(f))
