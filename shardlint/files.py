"""Writing files so that nobody ever reads half of one, and where to keep what can be made again."""

from __future__ import annotations

import os
import sys
from pathlib import Path


def replace_file(path: Path, data: bytes, mode: int | None = None, *, durable: bool = True) -> None:
    """Write a file so that a killed process leaves the old one, or none, or the new one, never half.

    A symlink stays one: what it points to is replaced. `mode` is the file's permissions; None gives a new
    file those the process gives to any, and keeps those of an old one. Not `durable` is what may be lost when the
    machine stops. Raises `OSError`.
    """
    import tempfile  # late: most runs write nothing

    real = Path(os.path.realpath(path))
    if mode is None:
        mode = real.stat().st_mode & 0o7777 if real.exists() else 0o666 & ~_umask()
    handle, name = tempfile.mkstemp(prefix=f".{real.name[:100]}.", suffix=".shardlint", dir=real.parent)
    temporary = Path(name)
    try:
        with os.fdopen(handle, "wb") as stream:
            stream.write(data)
            if durable:
                stream.flush()
                os.fsync(stream.fileno())
        temporary.chmod(mode)
        temporary.replace(real)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def cache_folder(what: str) -> Path | None:
    """Where this platform keeps what programs can make again; None where there is no such place.

    `~/.cache/shardlint/…` on Linux (`XDG_CACHE_HOME` counts), `~/Library/Caches` on macOS, `%LOCALAPPDATA%` on Windows.
    """
    if sys.platform == "win32":
        given, usual = os.environ.get("LOCALAPPDATA", ""), "~/AppData/Local"
    elif sys.platform == "darwin":
        given, usual = "", "~/Library/Caches"
    else:
        given, usual = os.environ.get("XDG_CACHE_HOME", ""), "~/.cache"
    base = Path(given)
    try:
        # The standard says to ignore a relative one.
        base = base if base.is_absolute() else Path(usual).expanduser()
    except RuntimeError:  # nobody knows where home is
        return None
    return base / "shardlint" / what


def _umask() -> int:
    mask = os.umask(0o077)
    os.umask(mask)
    return mask
