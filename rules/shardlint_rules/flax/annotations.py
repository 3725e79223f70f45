"""Sharding annotations of NNX variables: what takes them, and what each release of flax calls them."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from shardlint.program.values import Api, Constant, Items, Made, Value
from shardlint.site import Site

VARIABLES = tuple(f"flax.nnx.{name}" for name in ("Param", "Variable", "BatchStat", "Cache", "Intermediate"))
WITH_METADATA = "flax.nnx.with_metadata"
WITH_PARTITIONING = "flax.nnx.with_partitioning"
LAYERS = tuple(
    f"flax.nnx.{name}"
    for name in """
    Linear LinearGeneral Einsum Conv ConvTranspose Embed LayerNorm RMSNorm GroupNorm BatchNorm LoRA LoRALinear
    MultiHeadAttention
    """.split()
)
"""Layers that take `kernel_metadata={...}` and its like."""
KEYS = ("out_sharding", "sharding", "sharding_names")
"""What the annotation is or was called."""


def kept_under(site: Site) -> str:
    """The key under which the project's flax keeps the annotation, whatever it was given as."""
    if site.runs("flax", ">=0.12.4"):
        return "out_sharding"
    return "sharding_names" if site.runs("flax", ">=0.11") else "sharding"


def heeded(site: Site, key: str) -> bool:
    """Whether the project's flax takes a key for a sharding annotation."""
    if key == "out_sharding":
        return site.runs("flax", ">=0.12.4")
    return key == "sharding" or (key == "sharding_names" and site.runs("flax", ">=0.11"))


def preferred(site: Site) -> str:
    """The key to write on the project's flax."""
    return "out_sharding" if site.runs("flax", ">=0.12.4") else "sharding"


@dataclass(frozen=True)
class Annotation:
    """A key given as metadata, with its value: a keyword of a call, or an entry of a `*_metadata` dict."""

    key: str
    node: ast.keyword | ast.expr
    """The keyword, or the string that is the key of a dict display."""
    value: ast.expr


def given_annotations(site: Site) -> Iterator[Annotation]:
    """The metadata that the site's call gives to variables."""
    for keyword in site.call.keywords:
        if keyword.arg is None:
            continue
        if site.api in LAYERS:
            if keyword.arg.endswith("_metadata") and isinstance(keyword.value, ast.Dict):
                yield from _entries(keyword.value)
        else:
            yield Annotation(keyword.arg, keyword, keyword.value)


def _entries(display: ast.Dict) -> Iterator[Annotation]:
    for key, value in zip(display.keys, display.values, strict=True):
        if isinstance(key, ast.Constant) and isinstance(key.value, str):
            yield Annotation(key.value, key, value)


def names_axes(value: Value) -> bool:
    """Whether a value is surely a spec, or a sequence of axis names and None with a name among them."""
    if isinstance(value, Made):
        return isinstance(value.by, Api) and value.api == "jax.sharding.PartitionSpec"
    if not isinstance(value, Items) or value.open or value.kind == "set":
        return False
    plain = [item.value for item in value.items if isinstance(item, Constant)]
    return len(plain) == len(value.items) and any(isinstance(one, str) for one in plain)
