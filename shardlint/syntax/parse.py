"""Parsing of a text by Python's parser, and a check that it parses."""

from __future__ import annotations

import ast
import sys
import warnings

from shardlint.source.timing import timed

# A future there is none of: Python looks for it after it has parsed the whole, and before it does anything else.
_NO_FUTURE = "_"
_REFUSED = f"future feature {_NO_FUTURE} is not defined"
_AHEAD: dict[str, ast.Module] = {}
"""The tree of a text that is about to be parsed."""


class NotParsed(Exception):
    """A file that this Python cannot parse. The message names the line and what Python says of it.

    `newer`: a newer Python may be able to.
    """

    def __init__(self, message: str, line: int = 1, column: int = 1, newer: bool = False) -> None:
        super().__init__(message)
        self.line = line
        self.column = column
        self.newer = newer


def parse_module(text: str) -> ast.Module:
    """The tree, without Python's warnings: an invalid escape is the user's business, not ours.

    Raises `NotParsed`, with the line, for text this Python cannot parse and for nesting too deep to read.
    """
    ahead = _AHEAD.pop(text, None) if _AHEAD else None
    if ahead is not None:
        return ahead
    try:
        with timed("parsing"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return ast.parse(text)
    except SyntaxError as error:
        version = ".".join(map(str, sys.version_info[:2]))
        line = error.lineno or 1
        raise NotParsed(
            f"Python {version} cannot parse line {line}: {error.msg}", line, max(1, error.offset or 1), newer=True
        ) from None
    except (RecursionError, MemoryError):
        raise NotParsed("the file is nested too deeply to parse") from None
    except ValueError as error:
        raise NotParsed(f"cannot be parsed: {error}") from None


def parse_ahead(text: str) -> None:
    """Raise `NotParsed` where `parse` would; whoever parses the text next gets the tree."""
    tree = parse_module(text)
    _AHEAD.clear()
    _AHEAD[text] = tree


def check_parses(text: str) -> None:
    """Raise `NotParsed` where `parse` would, nesting aside that only a tree of Python objects cannot hold.

    Without that tree it takes two thirds of the time.
    """
    try:
        with timed("parsing"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            compile(f"from __future__ import {_NO_FUTURE}\n{text}", "<text>", "exec", dont_inherit=True)
    except SyntaxError as error:
        if error.msg == _REFUSED:
            return
    except (RecursionError, MemoryError, ValueError):
        pass
    parse_module(text)
