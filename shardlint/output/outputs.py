"""Which formats a report is written in, and where each goes."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from shardlint.config.suggestions import did_you_mean
from shardlint.output.terminal_style import TerminalStyle, look_of
from shardlint.source.lazy import dataclass

if TYPE_CHECKING:
    from shardlint.engine.results import Report

FORMATS = (
    "full",
    "concise",
    "grouped",
    "json",
    "jsonl",
    "sarif",
    "github",
    "gitlab",
    "junit",
    "rdjson",
    "markdown",
)
FOR_PEOPLE = ("full", "concise", "grouped")
_SILENT_ABOUT_FILES = ("gitlab", "rdjson")
"""Formats that have no place for files that were not checked."""


class BadOutput(Exception):
    """A format that there is not, or a file that cannot be written; the message says what to write instead."""


@dataclass(frozen=True)
class Output:
    """One format and the file it goes to; standard output where that is None."""

    format: str
    file: Path | None = None


def parse_outputs(said: Sequence[str], file: Path | None = None) -> list[Output]:
    """The outputs that `--output-format` (FORMAT or FORMAT=FILE) and `--output-file` ask for. Raises `BadOutput`."""
    found = []
    for one in said or ("full",):
        name, equals, path = one.partition("=")
        if name not in FORMATS:
            raise BadOutput(f"there is no format {name!r}; {did_you_mean(name, FORMATS)}")
        if equals and not path:
            raise BadOutput(f"{one!r} names no file; write {name}=FILE")
        found.append(Output(name, Path(path) if path else None))
    if file is not None:
        open_ones = [place for place, output in enumerate(found) if output.file is None]
        if len(open_ones) != 1:
            raise BadOutput("--output-file is for one format; of several write each as FORMAT=FILE")
        found[open_ones[0]] = Output(found[open_ones[0]].format, file)
    on_screen = [output.format for output in found if output.file is None]
    if len(on_screen) > 1:
        raise BadOutput(
            f"{' and '.join(on_screen)} would both go to standard output; write {on_screen[1]}=FILE"
        )
    files = [output.file for output in found if output.file is not None]
    if len(set(files)) < len(files):
        raise BadOutput("two formats go to the same file")
    return found


def render_report(
    report: Report,
    format: str,
    look: TerminalStyle,
    asked: frozenset[str] = frozenset(),
    statistics: bool = False,
    quiet: bool = False,
) -> Iterable[str]:
    """The report in a format, in parts of one or more lines. `quiet` leaves out all but the findings for people."""
    if format in FOR_PEOPLE:
        from shardlint.output import text

        if statistics:
            from shardlint.output.statistics import statistics_lines as counted

            return counted(report, look, quiet)
        if format == "full":
            return text.full_report(report, asked, look, quiet)
        render = text.render_concise if format == "concise" else text.grouped_report
        return render(report, look, quiet)
    return _render_for_programs(report, format)


def _render_for_programs(report: Report, format: str) -> Iterator[str]:
    from importlib import import_module

    where = {
        "json": ("json_", "dump_report"),
        "sarif": ("sarif", "sarif_report"),
        "junit": ("junit", "junit_report"),
        "markdown": ("pull_request", "markdown_report"),
    }
    module, name = where.get(format, ("ci", f"{format}_report"))
    made: Callable[[Report], str | Iterator[str]] = getattr(
        import_module(f"shardlint.output.{module}"), name
    )
    text = made(report)
    if not isinstance(text, str):
        yield from text
    elif text:  # GitHub's annotations of a clean run are none
        yield text


def write_report(
    report: Report,
    asked_for: Sequence[Output],
    asked: frozenset[str],
    statistics: bool,
    colour: str,
    quiet: bool,
) -> None:
    """Write the report. Raises `BadOutput` for a file that cannot be written."""
    import click

    # Files first: what reads standard output may end before we do.
    for output in sorted(asked_for, key=lambda one: one.file is None):
        look = TerminalStyle() if output.file is not None else look_of(sys.stdout, colour)
        parts = render_report(report, output.format, look, asked, statistics, quiet)
        if output.file is not None:
            _write_parts(output.file, parts)
            continue
        for part in parts:
            click.echo(part, color=look.colour)
    if any(output.format in _SILENT_ABOUT_FILES for output in asked_for):
        from shardlint.output.text import skipped_files

        for line in skipped_files(report):
            click.echo(line, err=True)


def _write_parts(file: Path, parts: Iterable[str]) -> None:
    try:
        with file.open("w", encoding="utf-8", errors="backslashreplace", newline="\n") as stream:
            stream.writelines(f"{part}\n" for part in parts)
    except OSError as error:
        raise BadOutput(f"{file}: cannot be written: {error.strerror or error}") from None


__all__ = ["FORMATS", "BadOutput", "Output", "parse_outputs", "render_report", "write_report"]
