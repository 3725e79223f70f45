"""`shardlint baseline`: the findings that a project has, written down as known."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from shardlint.config.folders import Places
from shardlint.engine.adoption.baseline import save_entries
from shardlint.engine.adoption.known_findings import (
    are_baselines_different,
    checks_all_rules,
    compare_with_baseline,
    projects_with_baselines,
)
from shardlint.engine.file_choice import choose_files
from shardlint.engine.results import Options
from shardlint.engine.run import check_paths
from shardlint.output.phrases import format_count
from shardlint.output.text import skipped_files


def record_baselines(paths: Sequence[Path], options: Options, add: bool, cached: bool) -> tuple[list[str], int, bool]:
    """Make or bring up to date the baselines of the projects that paths are in.

    Returns lines for people, how many findings are in no baseline, and whether something could not be checked.
    """

    report = check_paths(paths, options, cached=cached)
    places = Places(config=options.config, paths=paths)
    found = choose_files(paths, options, places)
    lines = list(skipped_files(report))
    new = 0
    for project in projects_with_baselines(report, found, options, places).values():
        matched = compare_with_baseline(project, report, checks_all_rules(options))
        first = project.entries is None
        taken = matched.added if first or add else []
        entries = [*matched.kept, *taken]
        shown = os.path.relpath(project.file)
        if are_baselines_different(entries, project.entries or []) or (first and entries):
            save_entries(project.file, entries)
        files = format_count(len({entry.path for entry in entries}), "file")
        said = f"{shown}: {format_count(len(entries), 'known finding')} in {files}"
        changes = [
            f"{number} {word}"
            for number, word in ((0 if first else len(taken), "added"), (len(matched.gone), "gone"))
            if number
        ]
        lines.append(f"{said}{f' ({chr(44).join(changes)})' if changes else ''}.")
        if not entries:
            lines[-1] = f"{shown}: no findings, so no baseline."
        left = len(matched.added) - len(taken)
        if left:
            new += left
            lines.append(
                f"{format_count(left, 'finding')} not in it; `shardlint check` shows them, --add adds them."
            )
    return lines, new, report.is_incomplete
