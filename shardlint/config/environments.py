"""The environment a project runs in, where it is the project's own."""

from __future__ import annotations

import os
import sys

_USUAL = ((".venv",), ("venv",), (".pixi", "envs", "default"))


def site_packages(root: str) -> list[tuple[str, str]]:
    """Where packages of the project's own environment are installed, each with a name for people.

    An environment is the project's own if it lies in the project: `.venv`, `venv` and pixi's, then the active one and
    the one shardlint runs in. Any other tells what somebody installed for another purpose, shardlint itself for one.
    """
    top = os.path.realpath(root)
    environments = [os.path.join(top, *parts) for parts in _USUAL]
    # Everything lies in the home folder, the environments of tools too.
    everywhere = top in (os.path.realpath(os.path.expanduser("~")), os.path.dirname(top))
    active = (os.environ.get("VIRTUAL_ENV"), os.environ.get("CONDA_PREFIX"), sys.prefix)
    for outer in active if not everywhere else ():
        inside = os.path.realpath(outer) if outer else ""
        if inside.startswith(os.path.join(top, "")) and inside not in environments:
            environments.append(inside)
    return [
        (path, os.path.relpath(environment, top).replace(os.sep, "/"))
        for environment in environments
        for path in _site_packages_inside(environment)
    ]


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
