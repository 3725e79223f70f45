"""`check --watch`: check again when a file changes."""

from __future__ import annotations

import contextlib
import gc
import os
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from shardlint.config.folders import Places, folder_of, real_path
from shardlint.config.settings import BadSettings
from shardlint.engine.file_choice import choose_files
from shardlint.output.printable import make_printable
from shardlint.source.streams import ignoring_write_errors
from shardlint.source.tree import make_stamp

if TYPE_CHECKING:
    from shardlint.engine.results import Options
    from shardlint.source.tree import Stamp

Stamps = Mapping[str, "Stamp | None"]
"""Files by absolute path; None for one that is missing."""
_SECONDS = 0.5
_SHARE = 10
"""Looking for changes takes at most one part of so many of the time."""


def watch_files(
    choose_paths: Callable[[], Sequence[Path]], options: Options, check: Callable[[], object], quiet: bool
) -> None:
    """Call `check` now, and again whenever a file that it checks, or one of its settings, changes. Ctrl-C ends it."""
    with contextlib.suppress(KeyboardInterrupt):
        stamps = _read_stamps(choose_paths(), options)
        while True:
            click.clear()
            _check_despite_errors(check)
            gc.collect()  # the command line turned the collector off for a single run
            if not quiet:
                with ignoring_write_errors():
                    click.echo("Watching for changes. Ctrl-C ends it.", err=True)
            stamps = _wait_for_change(stamps, choose_paths, options)


def _check_despite_errors(check: Callable[[], object]) -> None:
    """Check, and print an error in settings or options: the next change may correct it."""
    from shardlint.cli.main import is_usage_error

    try:
        check()
    except Exception as error:
        if not is_usage_error(error):
            raise
        with ignoring_write_errors():
            click.echo(f"shardlint: {make_printable(str(error))}", err=True)


def _wait_for_change(stamps: Stamps, choose_paths: Callable[[], Sequence[Path]], options: Options) -> Stamps:
    """Return the stamps of the files once they differ."""
    pause = _SECONDS
    while True:
        time.sleep(pause)
        start = time.monotonic()
        latest = _read_stamps(choose_paths(), options)
        if latest != stamps:
            return latest
        pause = max(_SECONDS, _SHARE * (time.monotonic() - start))


def _read_stamps(paths: Sequence[Path], options: Options) -> Stamps:
    """Return the stamps of the files to check, of their settings, and of the files that pin releases beside them."""
    places = Places(paths=paths)
    stamps: dict[str, Stamp | None] = {str(options.config): _stamp_of(str(options.config))} if options.config else {}
    try:
        files = choose_files(paths, options, places).met
        folders = {os.path.dirname(file.real) for file in files} | {real_path(folder_of(path)) for path in paths}
        settings = {str(found) for folder in folders if (found := places.settings_for(folder).path) is not None}
    except BadSettings:  # being edited; the check says what is wrong
        return _stamps_of_settings(paths)
    for file in files:
        stamps[file.real] = file.stamp or _stamp_of(file.real)
    for path, folder in places.tree.known.items():
        stamps.update({os.path.join(path, name): stamp for name, stamp in (folder.telling if folder else {}).items()})
    return stamps | {path: _stamp_of(path) for path in settings}


def _stamps_of_settings(paths: Sequence[Path]) -> Stamps:
    tops = [Path(real_path(folder_of(path))) for path in paths]
    folders = {folder for top in tops for folder in (top, *top.parents)}
    files = [str(folder / name) for folder in folders for name in ("shardlint.toml", "pyproject.toml")]
    return {file: _stamp_of(file) for file in files}


def _stamp_of(path: str) -> Stamp | None:
    try:
        return make_stamp(os.stat(path))
    except OSError:
        return None
