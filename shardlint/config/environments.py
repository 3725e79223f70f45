"""The environment a project runs in: its own, or else the active one."""

from __future__ import annotations

import os
import sys

_USUAL = ((".venv",), ("venv",), (".pixi", "envs", "default"))


def site_packages(root: str) -> list[tuple[str, str]]:
    """Where packages of the project's environments are installed, each with a name for people.

    An environment is the project's own if it lies in the project: `.venv`, `venv` and pixi's, then the active one and
    the one shardlint runs in. If the project has none, the active virtual environment counts, wherever it is. Any other
    tells what somebody installed for another purpose, shardlint itself for one.
    """
    top = os.path.realpath(root)
    environments = [os.path.join(top, *parts) for parts in _USUAL]
    # Everything lies in the home folder, the environments of tools too.
    everywhere = top in (os.path.realpath(os.path.expanduser("~")), os.path.dirname(top))
    activated = os.environ.get("VIRTUAL_ENV")
    for outer in (activated, os.environ.get("CONDA_PREFIX"), sys.prefix) if not everywhere else ():
        inside = os.path.realpath(outer) if outer else ""
        if inside.startswith(os.path.join(top, "")) and inside not in environments:
            environments.append(inside)
    found = [
        (path, os.path.relpath(environment, top).replace(os.sep, "/"))
        for environment in environments
        for path in _site_packages_inside(environment)
    ]
    if found or not activated:
        return found
    name = f"the active environment {activated}"
    return [(path, name) for path in _site_packages_inside(os.path.realpath(activated))]


def _site_packages_inside(environment: str) -> list[str]:
    lib = os.path.join(environment, "lib")
    try:
        versions = sorted(name for name in os.listdir(lib) if name.startswith("python3"))
    except OSError:
        versions = []
    found = [os.path.join(lib, version, "site-packages") for version in versions]
    return [
        path for path in (*found, os.path.join(environment, "Lib", "site-packages")) if os.path.isdir(path)
    ]
