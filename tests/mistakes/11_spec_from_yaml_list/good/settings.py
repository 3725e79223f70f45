"""Settings of a run, read from YAML."""

import dataclasses
from pathlib import Path

import yaml


@dataclasses.dataclass
class Settings:
    mesh: dict[str, int]
    batch_size: int
    hidden: int
    activation_axes: list[str]
    steps: int = 10

    @classmethod
    def load(cls, path: Path) -> "Settings":
        return cls(**yaml.safe_load(path.read_text()))
