"""Writing files so that nobody ever reads half of one."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path


def replace_file(path: Path, data: bytes, mode: int | None = None) -> None:
    """Write a file so that a killed process leaves the old one, or none, or the new one, never half.

    A symlink stays one: what it points to is replaced. `mode` is the file's permissions; None gives a new
    file those the process gives to any, and keeps those of an old one. Raises `OSError`.
    """
    real = Path(os.path.realpath(path))
    if mode is None:
        mode = real.stat().st_mode & 0o7777 if real.exists() else 0o666 & ~_umask()
    handle, name = tempfile.mkstemp(prefix=f".{real.name[:100]}.", suffix=".shardlint", dir=real.parent)
    temporary = Path(name)
    try:
        with os.fdopen(handle, "wb") as stream:
            stream.write(data)
            stream.flush()
            os.fsync(stream.fileno())
        temporary.chmod(mode)
        temporary.replace(real)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def _umask() -> int:
    mask = os.umask(0o077)
    os.umask(mask)
    return mask
