"""The places that a finding names as its evidence, for formats that link to them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from shardlint.rules_api.rule import Finding
from shardlint.source.lazy import dataclass
from shardlint.source.patterns import compile_lazily

# The forms that `Site.where` writes, and "line 12 of train.py". Cells of notebooks are named in other forms.
_NAMED = compile_lazily(
    r"\blines? (?P<lines>\d+(?:(?:, | and | to )\d+\b)*)(?: of (?P<of>[\w.-]+\.pyi?)\b|(?! of cell\b))"
    r"|(?<![\w./-])(?P<file>[\w.-]+\.pyi?):(?P<line>\d+)\b"
)


@dataclass(frozen=True)
class RelatedPlace:
    """A line, counted from 1, of a file, and how the finding names it: `line 12`, `train.py:12`."""

    path: Path
    line: int
    name: str


def related_places(finding: Finding, path: Path) -> tuple[RelatedPlace, ...]:
    """The places that the message and the evidence of a finding in the file `path` name, each once.

    A file that is named without its folder is one that the finding rests on. If two of these have the name, the place
    is left out.
    """
    return tuple(dict.fromkeys(_places_in_text(f"{finding.message}\n{finding.why}", finding.rests, path)))


def _places_in_text(text: str, rests: tuple[str, ...], path: Path) -> Iterator[RelatedPlace]:
    for match in _NAMED.finditer(text):
        name = match["of"] or match["file"]
        files = {Path(one) for one in rests if Path(one).name == name} if name else {path}
        if name == path.name:
            files.add(path)
        if len(files) == 1:
            (file,) = files
            for line in re.findall(r"\d+", match["lines"] or match["line"]):
                yield RelatedPlace(file, int(line), f"{name}:{line}" if name else f"line {line}")
