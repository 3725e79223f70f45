"""Stands in for ml_collections: a configuration whose entries are attributes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


class ConfigDict:
    """Entries as attributes, and by their names."""

    def __init__(self, entries: Mapping[str, Any]) -> None:
        vars(self).update(entries)

    def __getitem__(self, name: str) -> Any:
        return vars(self)[name]
