"""Which Python a project has of its own, for who ran its programs with another. Nothing of it is started."""

from __future__ import annotations

import contextlib
import os
import shlex
from collections.abc import Iterator
from pathlib import Path

from shardlint.source.patterns import compile_lazily

_FOLDERS = (".venv", "venv", "env", ".env")
_PYTHONS = ("bin/python", "Scripts/python.exe")
_VARIABLES = ("VIRTUAL_ENV", "CONDA_PREFIX")
_MISSING = compile_lazily(r"\braised (ImportError|ModuleNotFoundError)\b")


def import_advice(message: str, python: str, place: Path) -> str:
    """Return the advice for a failure to import a package; "" for any other failure.

    `python` is what ran the program, `place` a file or folder of the project.
    """
    if _MISSING.search(message) is None:
        return ""
    return f"it ran with {python}" + (f"; {other}" if (other := describe_other_environment(python, place)) else "")


def describe_other_environment(python: str, place: Path) -> str:
    """How to run programs with the environment of the project that a file or folder is of, as the end of a sentence.

    Names the environment where one is found; "" where that is the one of `python` already.
    """
    own = _environment_of_python(python)
    found = next(_environment_folders(place), None)
    if found is None:
        return "this project may have its own environment: pass --python PATH/TO/project/.venv/bin/python"
    if own is not None and _environment_of_python(str(found)) == own:
        return ""
    return f"this project has its own environment: pass --python {shlex.quote(shown_path(found))}"


def _environment_folders(place: Path) -> Iterator[Path]:
    try:
        place = place.absolute()
    except OSError:  # the working directory is gone
        return
    for folder in (place, *place.parents):
        for name in _FOLDERS:
            if (folder / name / "pyvenv.cfg").is_file():
                yield from _python_paths(folder / name)
        if (folder / ".git").exists():
            break
    for variable in _VARIABLES:
        if given := os.environ.get(variable):
            yield from _python_paths(Path(given))


def _python_paths(folder: Path) -> Iterator[Path]:
    yield from (folder / name for name in _PYTHONS if (folder / name).exists())


def _environment_of_python(python: str) -> Path | None:
    """The environment's folder that an interpreter is of; what it is a link to is not asked."""
    with contextlib.suppress(OSError):
        return Path(python).absolute().parent.parent.resolve()
    return None


def shown_path(path: Path) -> str:
    """Relative to the working directory where it lies below it. Not resolved: an environment's Python is a link."""
    here = Path.cwd()
    return str(path.relative_to(here) if path.is_relative_to(here) else path)
