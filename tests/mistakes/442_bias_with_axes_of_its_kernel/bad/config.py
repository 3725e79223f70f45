"""Sizes and mesh axes of the model."""

import dataclasses

Names = tuple[str | None, ...]


@dataclasses.dataclass(frozen=True)
class Axes:
    embed: Names = ("tp", "fsdp")
    into_heads: Names = ("fsdp", "tp", None)
    out_of_heads: Names = ("tp", None, "fsdp")
    head_bias: Names = ("tp",)


@dataclasses.dataclass(frozen=True)
class Config:
    vocab: int = 64
    width: int = 32
    heads: int = 4
    size: int = 8
    axes: Axes = Axes()
