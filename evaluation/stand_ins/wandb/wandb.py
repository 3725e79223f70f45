"""Stands in for wandb, and keeps nothing."""

from __future__ import annotations

from typing import Any


def init(**given: Any) -> None:
    """Begin."""


def log(*given: Any, **options: Any) -> None:
    """Log."""


def finish() -> None:
    """End."""
