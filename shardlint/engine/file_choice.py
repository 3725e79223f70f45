"""The files that the paths of a run name."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from shardlint.config.folders import Places, folder_of, real_path
from shardlint.engine.results import Options
from shardlint.source.find import FileSelection, find_python_files


def choose_files(paths: Sequence[Path], options: Options, places: Places) -> FileSelection:
    """The files that paths name, each once, without those that the settings of each path exclude."""
    every = FileSelection()
    seen: set[str] = set()
    for path in paths:
        settings = places.settings_for(real_path(folder_of(path)))
        exclude = (*settings.exclude, *options.exclude)
        base = settings.settings_folder if settings.path is not None else Path(real_path(".")) if exclude else None
        found = find_python_files([path], exclude, base, places.tree)
        if len(paths) == 1:
            return found
        every.missing += found.missing
        every.excluded += found.excluded
        every.refused += found.refused
        every.skipped += found.skipped
        every.left_out = every.left_out or found.left_out
        for met in found.met:
            absolute = os.path.abspath(met.shown)
            if absolute not in seen:
                seen.add(absolute)
                every.met.append(met)
    return every
