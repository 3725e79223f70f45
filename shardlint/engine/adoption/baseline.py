"""Known findings: a file that lists those a project has, by what they are about, so that only new ones are reported.

The file is one JSON object with a line a finding. An entry holds no line number: it is found again by its rule, its
file, the function around it and its statement; then by the statement alone; then, where the file is gone, in another
file. Each entry stands for one finding.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from shardlint.engine.fingerprint import finding_contents
from shardlint.source.lazy import dataclass
from shardlint.source.regular_files import RECORD_BYTES, read_text

if TYPE_CHECKING:
    from shardlint.engine.results import FileReport
    from shardlint.rules_api.rule import Finding

_ABOUT = (
    "Known findings of shardlint. `shardlint check` reports only others, and removes entries that no longer "
    "occur; `shardlint baseline --add` adds."
)
VERSION = 1


class BadBaseline(Exception):
    """A baseline that cannot be read or written; the message names the file and what to do."""


class Entry(NamedTuple):
    """One known finding."""

    path: str
    """From the folder of the baseline, with `/`."""
    code: str
    name: str
    certainty: str
    scope: str
    text: str
    digest: str


@dataclass
class Matched:
    """Result of matching a report with a baseline: known and new findings, and kept, removed and added entries."""

    new: list[tuple[FileReport, list[Finding]]] = field(default_factory=list)
    kept: list[Entry] = field(default_factory=list)
    """The entries that stand for something, as it is called now."""
    gone: list[Entry] = field(default_factory=list)
    known: int = 0
    added: list[Entry] = field(default_factory=list)
    """What is new, as entries."""


def load_entries(file: Path) -> list[Entry] | None:
    """The entries of a baseline; None where there is no such file. Raises `BadBaseline`."""
    try:
        text = read_text(file, RECORD_BYTES)
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError) as error:
        raise BadBaseline(f"{file}: cannot be read: {error}") from None
    try:
        data = json.loads(text)
        if data["version"] != VERSION:
            raise BadBaseline(
                f"{file}: version {data['version']!r} is from another shardlint; run `shardlint "
                "baseline` again"
            )
        return [_read_entry(one) for one in data["findings"]]
    except (KeyError, TypeError, ValueError, RecursionError) as error:
        raise BadBaseline(
            f"{file}: is not a baseline of shardlint ({type(error).__name__}: {error}); "
            "fix it (a merge?), or delete it and run `shardlint baseline`"
        ) from None


def _read_entry(data: Any) -> Entry:
    entry = Entry(*(data[key] for key in ("path", "code", "name", "certainty", "in", "text", "id")))
    if not all(isinstance(value, str) for value in entry):
        raise TypeError("an entry contains something other than strings")
    return entry


def save_entries(file: Path, entries: Iterable[Entry]) -> None:
    """Write a baseline, or take the file away where nothing is known any more. Raises `BadBaseline`."""
    from shardlint.source.files import replace_file

    lines = [
        json.dumps(
            {
                "path": one.path,
                "code": one.code,
                "name": one.name,
                "certainty": one.certainty,
                "in": one.scope,
                "text": one.text,
                "id": one.digest,
            },
            ensure_ascii=False,
        )
        for one in sorted(entries)
    ]
    body = ",\n".join(f"    {line}" for line in lines)
    text = (
        f'{{\n  "about": {json.dumps(_ABOUT)},\n  "version": {VERSION},\n  "findings": [\n{body}\n  ]\n}}\n'
    )
    try:
        if not lines:
            file.unlink(missing_ok=True)
        else:
            mode = file.stat().st_mode & 0o777 if file.exists() else 0o644
            replace_file(file, text.encode("utf-8", "backslashreplace"), mode)
    except OSError as error:
        raise BadBaseline(f"{file}: cannot be written: {error.strerror or error}") from None


def match_entries(
    entries: Sequence[Entry],
    reports: Sequence[FileReport],
    base: Path,
    looked: Callable[[Entry], bool],
) -> Matched:
    """Return the findings of reports matched with the entries of a baseline.

    `looked` says whether a run would have found what an entry stands for, if it were still there.
    """
    result = Matched()
    left: dict[int, Entry] = dict(enumerate(entries))
    rows = [
        (file, finding, _entry_of_finding(finding, path, content))
        for file in reports
        for path in [path_inside(file.path, base)]
        for finding, content in zip(file.findings, finding_contents(file), strict=True)
    ]
    there = {entry.path: os.path.lexists(base / entry.path) for entry in entries}
    open_rows = list(range(len(rows)))
    for key, may in _STAGES:
        waiting: dict[tuple[str, ...], list[int]] = {}
        for number, entry in left.items():
            if may(entry, there[entry.path]):
                waiting.setdefault(key(entry), []).append(number)
        still = []
        for place in open_rows:
            found = waiting.get(key(rows[place][2]))
            if found:
                del left[found.pop(0)]
                result.kept.append(rows[place][2])
            else:
                still.append(place)
        open_rows = still
    result.known = len(rows) - len(open_rows)
    unknown = set(open_rows)
    per_file: dict[int, tuple[FileReport, list[Finding]]] = {id(file): (file, []) for file, _, _ in rows}
    for place in sorted(unknown):
        file, finding, entry = rows[place]
        per_file[id(file)][1].append(finding)
        result.added.append(entry)
    result.new = [one for one in per_file.values() if one[1]]
    for entry in left.values():
        (result.gone if looked(entry) or not there[entry.path] else result.kept).append(entry)
    return result


_STAGES: tuple[tuple[Callable[[Entry], tuple[str, ...]], Callable[[Entry, bool], bool]], ...] = (
    (lambda one: (one.path, one.code, one.scope, one.digest), lambda one, there: True),
    (lambda one: (one.path, one.code, one.digest), lambda one, there: True),
    (lambda one: (one.code, one.scope, one.digest), lambda one, there: not there),
)
"""How entries are found again: by what, and which of them."""


def _entry_of_finding(finding: Finding, path: str, content: Any) -> Entry:
    rule = finding.rule
    return Entry(
        path, rule.code, rule.name, finding.certainty.value, content.scope, content.text, content.digest
    )


def path_inside(path: Path, base: Path) -> str:
    """A file's path from the folder of a baseline."""
    real = os.path.realpath(path)
    try:
        return Path(os.path.relpath(real, base)).as_posix()
    except ValueError:  # on another drive
        return Path(real).as_posix()
