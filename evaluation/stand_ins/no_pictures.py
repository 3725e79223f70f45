"""Stands in for the pictures of charformer."""

from __future__ import annotations

from typing import Any


def visualize_token_prediction_difficulty(text: str, losses: Any, **options: Any) -> None:
    """Draw nothing."""
