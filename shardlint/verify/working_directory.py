"""The working directory, and files in it, which a program that is run may remove."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

from shardlint.verify.cannot_run import CannotRun


def working_directory() -> Path:
    """Where this process is. Raises `CannotRun` where that was removed."""
    try:
        return Path.cwd()
    except FileNotFoundError:
        raise CannotRun("the current folder was deleted; go to another one") from None


def leave_if_removed() -> None:
    """Go where nothing of the user's is: reports show paths relative to the working directory, whichever it is."""
    try:
        Path.cwd()
    except FileNotFoundError:
        os.chdir(Path(__file__).parent)


def shown_path(file: str) -> str:
    """A path as a person wants it: relative to the working directory where it lies below it."""
    try:
        return str(Path(file).resolve().relative_to(Path.cwd()))
    except (OSError, ValueError):  # the working directory may be gone
        return file


def digest_of(file: Path) -> str:
    """The digest of a file's bytes; "" for one that cannot be read."""
    try:
        return hashlib.sha256(file.read_bytes()).hexdigest()
    except OSError:
        return ""
