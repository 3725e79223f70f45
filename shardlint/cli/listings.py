"""Output of `check --show-files` and `check --show-settings`: the files and settings of a run, without checking."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from shardlint.config.folders import Places, folder_of, real_path, shown_folder
from shardlint.config.settings import KEYS, Settings, find_setting_sources
from shardlint.engine.file_choice import choose_files
from shardlint.output.printable import make_printable

if TYPE_CHECKING:
    from shardlint.engine.results import Options


def list_files(paths: Sequence[Path], options: Options) -> Iterator[str]:
    """Yield the files that a run would check, one a line. Raises `BadSettings`."""
    for file in choose_files(paths, options, Places(config=options.config, paths=paths)).met:
        yield make_printable(file.shown)


def list_settings(paths: Sequence[Path], options: Options) -> Iterator[str]:
    """Yield each setting with its value and its source, for every settings file of a run. Raises `BadSettings`."""
    places = Places(config=options.config, paths=paths)
    folders: dict[Path | None, str] = {}
    files = choose_files(paths, options, places).met
    for folder in [*map(folder_of, paths), *(folder_of(Path(file.real)) for file in files)]:
        folders.setdefault(places.settings_for(real_path(folder)).path, real_path(folder))
    for path, folder in folders.items():
        shown = _shown_path(path) if path is not None else "defaults: there is no settings file"
        yield make_printable(f"Settings of {shown_folder(folder)} ({shown})")
        yield from _setting_lines(places.settings_for(folder), options)


def _setting_lines(settings: Settings, options: Options) -> Iterator[str]:
    files = find_setting_sources(settings.path) if settings.path is not None else {}
    rows = []
    for key, name in KEYS.items():
        value, option = _value_in_use(settings, options, name)
        sources = [_shown_path(files[key])] if key in files and (not option or name in _JOINED) else []
        text = json.dumps(value, ensure_ascii=False)
        rows.append((key, text, " and ".join([*sources, *([option] if option else [])]) or "default"))
    widths = [max(len(row[column]) for row in rows) for column in (0, 1)]
    for key, text, source in rows:
        yield make_printable(f"  {key:<{widths[0]}}  {text:<{min(widths[1], _WIDEST)}}  {source}")


_WIDEST = 50
_JOINED = ("ignore", "exclude", "extend_select", "targets")
"""Settings to which the command line adds. It replaces the others."""


def _value_in_use(settings: Settings, options: Options, name: str) -> tuple[Any, str]:
    """Return the value of a setting, and the option of the command line that changed it, if one did."""
    value = getattr(settings, name)
    given = getattr(options, name, None)
    option = "--target" if name == "targets" else f"--{name.replace('_', '-')}"
    if not given:
        return value, ""
    if isinstance(value, dict):
        return {**value, **given}, option
    return ([*value, *given] if name in _JOINED else given), option


def _shown_path(path: Path) -> str:
    return str(Path(shown_folder(real_path(path.parent))) / path.name)
