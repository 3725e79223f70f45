"""The programs that a process started over all devices, as it wrote them down."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from shardlint.run.observed.events import first_line
from shardlint.verify.facts import Line


@dataclass
class Launch:
    """A program that a process started over all devices: the how many-th, from where, with what."""

    name: str
    lines: list[Any]
    program: str
    arguments: list[list[str]]
    held: list[list[Any]] = field(default_factory=list)

    @property
    def user_line(self) -> Line:
        """The user's line."""
        return first_line(self.lines)


def read_launches(folder: Path) -> list[Launch]:
    """Return the programs started by the process that wrote into a folder, in order."""
    found: list[Launch] = []
    for file in (folder / "launches").glob("*.jsonl"):
        for text in file.read_text("utf-8", "replace").splitlines():
            try:
                one = json.loads(text)
            except ValueError:  # the last line of a process that was killed
                continue
            if "held" in one:
                found[-1].held = one["held"]
            else:
                found.append(Launch(one["name"], one["lines"], one["program"], one["arguments"]))
    return found
