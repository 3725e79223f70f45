"""The environments a project may run in."""

from __future__ import annotations

import os
import sys


def site_packages(root: str) -> list[tuple[str, str]]:
    """Where packages are installed, with a name for people: the project's own environment first, then this one."""
    places = [(path, name) for name in (".venv", "venv") for path in _inside(os.path.join(root, name))]
    active = os.environ.get("VIRTUAL_ENV")
    if active:
        places += [(path, "the active environment") for path in _inside(active)]
    places += [
        (entry, "this environment")
        for entry in sys.path
        if entry.endswith(("site-packages", "dist-packages"))
    ]
    return places


def _inside(environment: str) -> list[str]:
    lib = os.path.join(environment, "lib")
    try:
        versions = [name for name in os.listdir(lib) if name.startswith("python3")]
    except OSError:
        versions = []
    found = [os.path.join(lib, version, "site-packages") for version in versions]
    return [
        path for path in (*found, os.path.join(environment, "Lib", "site-packages")) if os.path.isdir(path)
    ]
