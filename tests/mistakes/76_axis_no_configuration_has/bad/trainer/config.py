import dataclasses
import pathlib

import yaml


@dataclasses.dataclass(frozen=True)
class Config:
    mesh_shape: tuple[int, ...]
    mesh_axes: tuple[str, ...]
    batch_axis: str = "dp"
    hidden: int = 64
    batch: int = 16

    @classmethod
    def load(cls, path):
        raw = yaml.safe_load(pathlib.Path(path).read_text())
        raw = {k: tuple(v) if isinstance(v, list) else v for k, v in raw.items()}
        return cls(**raw)
