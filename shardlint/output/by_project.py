"""Findings of which a project has many alike, such as one for each mesh that it enters: told in one line a project."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import field
from typing import TYPE_CHECKING

from shardlint.output.printable import make_printable
from shardlint.source.lazy import dataclass
from shardlint.source.patterns import compile_lazily

if TYPE_CHECKING:
    from pathlib import Path

    from shardlint.engine.results import FileReport
    from shardlint.rules_api.rule import Finding

# So few are shown each in its place.
_FEW = 3
# The statement, in the reason that a plan gives; the finding at the same place may give the reason alone.
_STATEMENT = compile_lazily(r"(?<=: )`with .*?:`: ")


@dataclass
class Group:
    """The findings of one rule in one project."""

    root: str
    found: list[Finding] = field(default_factory=list)
    files: int = 0

    @property
    def fix_obstacles(self) -> list[str]:
        """Return the obstacles to fixing them, each once."""
        found = dict.fromkeys(one for finding in self.found for one in finding.obstacles or ())
        told = {_STATEMENT.sub("", one) for one in found if _STATEMENT.search(one)}
        return [one for one in found if one not in told]

    def describe_group(self) -> str:
        """Return a description of them: their count of places, how many `fix` moves, and the obstacles of the
        others.
        """
        from shardlint.config.folders import shown_folder
        from shardlint.output.phrases import format_count, format_tags

        first = self.found[0]
        head = f"{shown_folder(self.root)}: {first.rule.code} {first.rule.name}  [{format_tags(first)}]"
        moved = sum(finding.fix is not None for finding in self.found)
        told = "all" if moved == len(self.found) else str(moved) if moved else "none"
        places = f"{len(self.found)} places in {format_count(self.files, 'file')}"
        obstacles = len(self.fix_obstacles)
        unsafe = " --unsafe-fixes" if any(one.fix and one.fix.safety == "unsafe" for one in self.found) else ""
        return (
            f"{head}  in {places}; `shardlint fix{unsafe}` moves {told}"
            + (f"; obstacles: {obstacles}" if obstacles else "")
        )


def grouped_findings(
    reports: Iterable[FileReport], root: Callable[[Path], str]
) -> dict[tuple[str, str], Group]:
    """Return the findings reported by project, by the project's folder and the code of the rule."""
    groups: dict[tuple[str, str], Group] = {}
    for file in reports:
        for code in dict.fromkeys(one.rule.code for one in file.findings if one.obstacles is not None):
            folder = root(file.path)
            group = groups.setdefault((folder, code), Group(folder))
            group.files += 1
            group.found += [one for one in file.findings if one.rule.code == code and one.obstacles is not None]
    return groups


def separate_groups(
    reports: Iterable[FileReport], root: Callable[[Path], str], asked: frozenset[str]
) -> tuple[list[FileReport], list[Group], list[Group]]:
    """The reports without what is told by project; that; and of the rest what is `asked` for, and told by place."""
    every = list(reports)
    groups = grouped_findings(every, root)
    many = {key for key, group in groups.items() if len(group.found) > _FEW and key[1] not in asked}
    if many:
        every = [file.select_findings([one for one in file.findings if (root(file.path), one.rule.code) not in many
                          or one.obstacles is None]) for file in every]  # fmt: skip
    rest = [group for key, group in groups.items() if key not in many]
    return every, [groups[key] for key in groups if key in many], rest


def group_frames(groups: Iterable[Group], obstacles: bool) -> Iterator[str]:
    """Yield the text of a report on the groups, with the list of `obstacles` or with the option that shows it."""
    for group in groups:
        first = group.found[0]
        lines = [make_printable(group.describe_group()), f"   {make_printable(first.message)}"]
        if obstacles:
            lines += [f"   {make_printable(one)}" for one in group.fix_obstacles]
        else:
            lines.append(f"   `--select {first.rule.code}` shows each place and what keeps it.")
        yield "\n".join(lines)
        yield ""


def list_groups(groups: Iterable[Group]) -> Iterator[str]:
    """All that keeps the findings of a project, where each was told in its place and named only the first few."""
    for group in groups:
        if any(len(finding.obstacles or ()) > _FEW for finding in group.found):
            yield "\n".join(
                [
                    make_printable(group.describe_group()),
                    *(f"   {make_printable(one)}" for one in group.fix_obstacles),
                ]
            )
            yield ""
