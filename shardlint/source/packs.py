"""The rule packs that are installed: packages that name an entry point of the group `shardlint.rules`."""

from __future__ import annotations

import importlib
from collections.abc import Iterable, Mapping
from functools import lru_cache
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

from shardlint.source.lazy import dataclass

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

GROUP = "shardlint.rules"


class BrokenPack(Exception):
    """A rule pack that cannot be used; the message names the pack, its distribution and the rule."""


@dataclass(frozen=True)
class Pack:
    """An imported pack. `shown` names it and its distribution, for people."""

    module: ModuleType
    shown: str


@lru_cache(maxsize=1)
def installed_packs() -> tuple[Pack, ...]:
    """Import the packs. Raises `BrokenPack` for one that cannot be imported."""
    return tuple(map(_import_pack, entry_points(group=GROUP)))


def entry_points(group: str) -> Iterable[EntryPoint]:
    """As in `importlib.metadata`, which takes a tenth of the time of a check of one file to import."""
    from importlib import metadata

    return metadata.entry_points(group=group)


def _import_pack(point: EntryPoint) -> Pack:
    shown = f"rule pack {point.value!r}"
    if point.dist is not None:
        shown += f" of {point.dist.name} {point.dist.version}"
    try:
        found = importlib.import_module(point.value)
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        raise BrokenPack(
            f"{shown} cannot be imported: {describe_error(error)}; fix or uninstall it, none of its rules can run"
        ) from error
    rules = getattr(found, "RULES", None)
    if not isinstance(rules, Mapping) or not all(
        isinstance(text, str) for entry in rules.items() for text in entry
    ):
        raise BrokenPack(f'{shown} has no table RULES of codes and places, as {{"AB101": "module:Class"}}')
    return Pack(found, shown)


def describe_error(error: BaseException) -> str:
    """The kind and text of an error that a pack raised."""
    return f"{type(error).__name__}: {error}"


def pack_folders() -> list[Path]:
    """Where the packs' own files are, data too: a folder, or the one file."""
    modules = [pack.module for pack in installed_packs()]
    return [Path(place) for module in modules for place in getattr(module, "__path__", [module.__file__])]
