"""Values of options: read, and held against what they may be."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

_LEAST, _MOST = 0.1, 1e6


def make_parsing_callback(parse: Callable[[Any], Any]) -> Callable[[click.Context, click.Parameter, Any], Any]:
    """An option's callback: its value (each, of one that is repeated) read by `parse`, whose `ValueError` is shown."""

    def parse_value(context: click.Context, option: click.Parameter, value: Any) -> Any:
        try:
            if isinstance(value, tuple):
                return tuple(parse(one) for one in value)
            return None if value is None else parse(value)
        except ValueError as error:
            raise click.BadParameter(str(error)) from None

    return parse_value


def time_limit(seconds: float) -> float:
    """Itself. Raises `ValueError` for what nothing can wait for: clocks and timers take no infinity."""
    if not _LEAST <= seconds <= _MOST:
        raise ValueError(f"{seconds:g} is not a time limit; write seconds, from {_LEAST:g} to {_MOST:,.0f}")
    return seconds
