"""Cells of a notebook that cannot be parsed, as Python that binds what they would and says nothing else of it.

Such a cell does not make the others unread. Its lines become comments, so that they come back as they were; its imports
stay, as later cells do not run without them; every other name that it may bind is not known from there on.
"""

from __future__ import annotations

import ast
import keyword
import sys
import warnings
from collections.abc import Iterator

from shardlint.source.lazy import dataclass
from shardlint.source.magics import replace_lines, split_cell_lines
from shardlint.source.patterns import compile_lazily

_IMPORT = compile_lazily(r"(?:import|from)[ \t]")
_NAME = compile_lazily(r"(?<![\w.])[^\W\d]\w*")
_ASSIGNS = compile_lazily(r"(?<![=!<>:+\-*/%@&|^])(?:[:+\-*/%@&|^]|\*\*|//|<<|>>)?=(?!=)")
_BINDS = compile_lazily(
    r"\b(?:def|class|as|global|import|del)[ \t]+([^\W\d]\w*)|\bfor[ \t]+(.+?)[ \t]in\b|(\w+)[ \t]*:="
)
_WRITTEN = compile_lazily(r"(?:\A|(?<=[\r\n]))(?:\w+ = )*get_ipython\(\)  #!([^\r\n]*)")


@dataclass(frozen=True)
class LeftOut:
    """Why a cell was left out, and the line and column of it that Python stopped at, counted from 1."""

    reason: str
    line: int
    column: int


def parse_problem(code: str) -> LeftOut | None:
    """Why code cannot be parsed; None where it can."""
    version = ".".join(map(str, sys.version_info[:2]))
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            ast.parse(code)
    except SyntaxError as error:
        line = error.lineno or 1
        return LeftOut(f"Python {version} cannot parse line {line}: {error.msg}", line, max(1, error.offset or 1))
    except (ValueError, RecursionError, MemoryError) as error:
        return LeftOut(f"line 1 and the next lines cannot be parsed: {error}", 1, 1)
    return None


def find_unparsable_cells(parts: list[str]) -> dict[int, LeftOut]:
    """The cells that cannot be parsed by themselves, by their index."""
    found = {index: parse_problem(part) for index, part in enumerate(parts)}
    return {index: why for index, why in found.items() if why is not None}


def placeholder_code(code: str) -> str:
    """The Python that stands for a cell, on the same lines."""
    lines = split_cell_lines(code)
    kept = [bool(_IMPORT.match(line)) and parse_problem(line) is None for line in lines]
    known = {name for line, stays in zip(lines, kept, strict=True) if stays for name in _NAME.findall(line)}
    bound = dict.fromkeys(name for line in lines for name in _bound_names(line) if name not in known)
    binds = "".join(f"{name} = " for name in bound)
    made = []
    for line, stays in zip(lines, kept, strict=True):
        if stays or not line.strip(" \t"):
            made.append(line)
        else:
            made.append(f"{binds}get_ipython()  #!{line}")
            binds = ""
    return replace_lines(code, made)


def original_cell_code(text: str) -> str:
    """The code of such a cell as it stands in the notebook."""
    return _WRITTEN.sub(r"\1", text)


def _bound_names(line: str) -> Iterator[str]:
    for match in _BINDS.finditer(line):
        yield from _identifiers_in(match[1] or match[2] or match[3])
    assigned = _ASSIGNS.search(line)
    if assigned is not None:
        target = line[: assigned.start()]
        if all(target.count(one) == target.count(other) for one, other in ("()", "[]", "{}")):
            yield from _identifiers_in(target)


def _identifiers_in(text: str) -> Iterator[str]:
    for name in _NAME.findall(text):
        if name.isidentifier() and not keyword.iskeyword(name):
            yield name
