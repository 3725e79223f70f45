"""Message for a program whose Python has no jax."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from shardlint.verify.environments import describe_other_environment

_SECONDS = 20
_ASK = "import importlib.util, sys; sys.exit(3 if importlib.util.find_spec('jax') is None else 0)"


def explain_missing_jax(words: Sequence[str], place: Path) -> str:
    """Which Python a command started and which to start, where that one has no jax; "" where it has one."""
    found = shutil.which(words[0])
    if found is None or not Path(found).name.startswith("python"):
        return ""
    env = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    try:
        ended = subprocess.run([found, "-c", _ASK], env=env, capture_output=True, timeout=_SECONDS, check=False)
    except (OSError, subprocess.SubprocessError):
        return ""
    if ended.returncode != 3:
        return ""
    own = describe_other_environment(found, place).partition("--python ")[2]
    which = own if own and not own.startswith("PATH/") else "PATH/TO/project/.venv/bin/python"
    rest = " ".join(words[1:])
    return (
        f"{found}, which ran the program, has no jax: name the Python of the project (-- {which} {rest}), or "
        f"none (-- {rest}) for shardlint's own"
    )
