"""The working directory, which a program that is run may remove."""

from __future__ import annotations

import os
from pathlib import Path

from shardlint.verify.runner import CannotRun


def working_directory() -> Path:
    """Where this process is. Raises `CannotRun` where that was removed."""
    try:
        return Path.cwd()
    except FileNotFoundError:
        raise CannotRun("the working directory was removed; go to one that is there") from None


def leave_if_removed() -> None:
    """Go where nothing of the user's is: reports show paths relative to the working directory, whichever it is."""
    try:
        Path.cwd()
    except FileNotFoundError:
        os.chdir(Path(__file__).parent)
