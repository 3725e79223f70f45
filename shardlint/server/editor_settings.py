"""Settings as an editor sends them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

SECTION = "shardlint"
"""What the settings are called."""
DEFAULT = Path("/")
"""Stands for whatever folder has no settings of its own."""


def plain_data(said: Any) -> Any:
    """Return objects of pygls as JSON data."""
    if hasattr(said, "_asdict"):
        said = said._asdict()
    if isinstance(said, dict):
        return {str(key): plain_data(value) for key, value in said.items()}
    return [plain_data(one) for one in said] if isinstance(said, list | tuple) else said
