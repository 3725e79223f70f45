"""Reading values of settings: each reader gives the value, or says which part of it is wrong and what to write."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

Read = Callable[[Any], Any]
"""Raises `ValueError` or `TypeError` for a wrong value, and `Wrong` where it knows which part of it is."""


class Wrong(Exception):
    """Invalid entry in a table, with the key below it: `.args[0].spec`."""

    def __init__(self, key: str, text: str) -> None:
        super().__init__(key, text)
        self.key, self.text = key, text


def read_key(key: str, value: Any, read: Read, write: str) -> Any:
    """Read the value of a key. Raises `Wrong`."""
    try:
        return read(value)
    except Wrong as wrong:
        raise Wrong(key + wrong.key, wrong.text) from None
    except (ValueError, TypeError):
        raise Wrong(key, f"is {value!r}; write {write}") from None


def text_reader(pattern: str) -> Read:
    """A reader of one line of text in which a regular expression is found."""

    def read_text(value: Any) -> str:
        if not isinstance(value, str) or "\n" in value or re.search(pattern, value) is None:
            raise ValueError
        return value

    return read_text


def integer_reader(least: int) -> Read:
    """A reader of whole numbers that are not less than `least`."""

    def read_integer(value: Any) -> int:
        if not isinstance(value, int) or isinstance(value, bool) or value < least:
            raise ValueError
        return value

    return read_integer


def read_boolean(value: Any) -> bool:
    """Read true or false."""
    if not isinstance(value, bool):
        raise ValueError
    return value


def list_of(of: Read, write: str) -> Read:
    """A reader of lists; `write` says what to write for a wrong item."""

    def read_list(value: Any) -> list[Any]:
        if not isinstance(value, list):
            raise ValueError
        return [read_key(f"[{index}]", one, of, write) for index, one in enumerate(value)]

    return read_list


def table_of(of: Read, write: str) -> Read:
    """A reader of tables with any keys; `write` says what to write for a wrong value."""

    def read_table(value: Any) -> dict[str, Any]:
        if not isinstance(value, dict):
            raise ValueError
        return {key: read_key(f'."{key}"', one, of, write) for key, one in value.items()}

    return read_table
