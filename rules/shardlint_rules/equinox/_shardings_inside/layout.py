"""How long a file's lines are, and code written within that."""

from __future__ import annotations

from shardlint.rewrite import line_wrapping
from shardlint.rewrite.indent import UNIT
from shardlint.syntax import FileFacts


def line_length(file: FileFacts) -> int:
    """How long the lines of a file may be: as long as they are."""
    return line_wrapping.line_length(file.source.text)


def assignment_lines(target: str, function: str, argument: str, text: str, room: int) -> list[str]:
    """`target = function(argument, text)`, over several lines where one has no room."""
    line = f"{target} = {function}({argument}, {text})"
    if len(line) <= room or "\n" in line:
        return [line]
    return [f"{target} = {function}(\n{UNIT}{argument},\n{UNIT}{text},\n)"]


def indented_call_lines(function: str, argument: str, text: str, lead: str, unit: str, length: int) -> str:
    """`function(argument, text)` behind an indentation, over several lines where one has no room."""
    line = f"{function}({argument}, {text})"
    if len(lead) + len(line) + 1 <= length or "\n" in line:
        return line
    return f"{function}(\n{lead}{unit}{argument},\n{lead}{unit}{text},\n{lead})"
