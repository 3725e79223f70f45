"""Recording of test failures under `shardlint run -- pytest`, by the plugin in the process of the tests."""

from __future__ import annotations

import os
import runpy
from functools import cache
from pathlib import Path
from typing import Any

import shardlint.run

FOLDER = "SHARDLINT_RUN_RAISED"


@cache
def _written() -> dict[str, Any]:
    return runpy.run_path(str(Path(shardlint.run.__file__).parent / "startup" / "raised.py"))


def put_down(error: BaseException, test: str) -> None:
    """Put down what failed a test; what is raised on the way fails no other."""
    if not isinstance(error, Exception):
        return
    try:
        folder = Path(os.environ[FOLDER])
        count = sum(1 for _ in folder.iterdir())
        _written()["write"](error, str(folder / f"{os.getpid()}-test-{count}.json"), "", test)
    except Exception:
        return
