"""How a report looks where it goes: colours and links for a terminal, lines of its width, nothing of it in a pipe."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from shardlint.output.printable import make_printable
from shardlint.source.lazy import dataclass
from shardlint.source.streams import is_coloured, is_terminal

if TYPE_CHECKING:
    from shardlint.rules_api.rule import Finding

_CODE_WIDTH = 200
_NARROW = 40
_INDENT = "   "


@dataclass(frozen=True)
class TerminalStyle:
    """Formatting features that the output may use. `width` is that of the terminal; None means lines of any length."""

    colour: bool = False
    links: bool = False
    width: int | None = None

    @property
    def code_width(self) -> int:
        """How much of a line of code is shown."""
        return _CODE_WIDTH if self.width is None else max(_NARROW, min(_CODE_WIDTH, self.width - 10))

    def format_place(self, path: Path, place: str) -> str:
        """Where a finding is, with a colon after it."""
        return f"{self._link_text(self._style_text(make_printable(place), '1'), _file_uri(path))}:"

    def format_heading(self, path: Path) -> str:
        """The name of a file above its findings."""
        return f"{self._link_text(self._style_text(make_printable(str(path)), '1;4'), _file_uri(path))}:"

    def format_rule(self, finding: Finding) -> str:
        """A rule's code and name."""
        code = make_printable(finding.rule.code)
        if self.links:
            from shardlint.rules_api.registry import page_address

            code = self._link_text(code, page_address(finding.rule.code))
        return f"{self._style_text(code, f'1;{_style_of_finding(finding)}')} {make_printable(finding.rule.name)}"

    def style_faint(self, text: str) -> str:
        """Return a text of lesser importance, in its style."""
        return self._style_text(text, "2")

    def style_gutter(self, text: str) -> str:
        """Line numbers."""
        return self._style_text(text, "34")

    def style_underline(self, text: str, finding: Finding) -> str:
        """Return the underline of the code, in its style."""
        return self._style_text(text, f"1;{_style_of_finding(finding)}")

    def style_advice(self, text: str) -> str:
        """Return a line of advice, in its style."""
        return self._style_text(text, "32")

    def wrap_prose(self, text: str, painted: Callable[[str], str] = str) -> list[str]:
        """A line of prose, indented, as several where the terminal is narrower."""
        if self.width is None or len(text) + len(_INDENT) <= self.width:
            return [f"{_INDENT}{painted(text)}"]
        import textwrap

        width = max(_NARROW, self.width) - len(_INDENT)
        parts = textwrap.wrap(text, width, break_long_words=False, break_on_hyphens=False)
        return [f"{_INDENT}{painted(part)}" for part in parts]

    def _style_text(self, text: str, style: str) -> str:
        return f"\x1b[{style}m{text}\x1b[0m" if self.colour and text else text

    def _link_text(self, text: str, address: str) -> str:
        return f"\x1b]8;;{address}\x1b\\{text}\x1b]8;;\x1b\\" if self.links and address else text


PLAIN = TerminalStyle()


def _style_of_finding(finding: Finding) -> str:
    """Red for what is wrong, yellow for what costs or will go, cyan for what is only possible."""
    if finding.certainty.value == "possible":
        return "36"
    return "33" if finding.harm.is_mild else "31"


def _file_uri(path: Path) -> str:
    try:
        return Path(os.path.abspath(path)).as_uri()  # noqa: PTH100 - no links followed
    except (OSError, ValueError):
        return ""


def look_of(stream: TextIO | None = None, colour: str = "auto") -> TerminalStyle:
    """How a report looks on a stream (standard output): as `colour` says, else NO_COLOR, FORCE_COLOR, the terminal."""
    stream = stream or sys.stdout
    terminal, chosen = is_terminal(stream), is_coloured(stream, colour)
    environ = os.environ
    links = chosen and terminal and environ.get("TERM") != "dumb" and "VSCODE_PID" not in environ
    # The terminal of an editor makes a better link of path:line:column than of an address without a line.
    links = (links and environ.get("TERM_PROGRAM") != "vscode") or environ.get("FORCE_HYPERLINK") == "1"
    return TerminalStyle(chosen, links and chosen, _terminal_width(stream) if terminal else None)


def _terminal_width(stream: TextIO) -> int | None:
    told = os.environ.get("COLUMNS", "")
    if told.isdecimal() and int(told) > 0:
        return int(told)
    try:
        return os.get_terminal_size(stream.fileno()).columns or None
    except (OSError, ValueError):
        return None
