"""Sharding annotations of NNX variables: what takes them, and what each release of flax calls them."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from shardlint.model.values import Api, CallResult, Constant, Items, Value
from shardlint.rules_api.rule import Edit, Fix, Safety
from shardlint.rules_api.site import Site
from shardlint.source.lazy import dataclass

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
_SWITCHES = ("flax_always_shard_variable", "use_eager_sharding", "eager_sharding", "FLAX_ALWAYS_SHARD_VARIABLE")
OLDER = "other releases of flax do not know this key"



def is_switched(site: Site) -> bool:
    """Return whether a file of the project may switch off flax's sharding of new variables."""
    return any(map(site.is_named_anywhere, _SWITCHES))


def storage_key(site: Site) -> str:
    """The key under which the project's flax keeps the annotation, whatever it was given as."""
    if site.allows("flax", ">=0.12.4"):
        return "out_sharding"
    return "sharding_names" if site.allows("flax", ">=0.11") else "sharding"


def is_key_heeded(site: Site, key: str) -> bool:
    """Return whether the project's flax reads a key as a sharding annotation."""
    if key == "out_sharding":
        return site.allows("flax", ">=0.12.4")
    return key == "sharding" or (key == "sharding_names" and site.allows("flax", ">=0.11"))


def preferred_key(site: Site) -> str:
    """The key to write on the project's flax."""
    return "out_sharding" if site.allows("flax", ">=0.12.4") else "sharding"


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
                yield from _dict_annotations(keyword.value)
        else:
            yield Annotation(keyword.arg, keyword, keyword.value)


def _dict_annotations(display: ast.Dict) -> Iterator[Annotation]:
    for key, value in zip(display.keys, display.values, strict=True):
        if isinstance(key, ast.Constant) and isinstance(key.value, str):
            yield Annotation(key.value, key, value)


def fix_key(site: Site, annotation: Annotation, write: str, why: str) -> Fix:
    """The fix that writes another key; `why` is why it is unsafe."""
    start, end = site.file.character_span(annotation.node)
    if isinstance(annotation.node, ast.keyword):
        edit = Edit(start, start + len(annotation.key), write)
    else:
        text = site.file.source.text
        edit = Edit(start, end, text[start:end].replace(annotation.key, write))
    return site.fix(Safety.UNSAFE, f"write {write}", [edit], why)


def names_axes(value: Value) -> bool:
    """Return whether a value is surely a spec, or a sequence of axis names and None with a name among them."""
    if isinstance(value, CallResult):
        return isinstance(value.by, Api) and value.api == "jax.sharding.PartitionSpec"
    if not isinstance(value, Items) or value.open or value.kind == "set":
        return False
    plain = [item.value for item in value.items if isinstance(item, Constant)]
    return len(plain) == len(value.items) and any(isinstance(one, str) for one in plain)
