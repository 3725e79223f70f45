"""Writing files so that nobody ever reads half of one, and where to keep what can be made again."""

from __future__ import annotations

import os
import sys
from pathlib import Path


def replace_file(path: Path, data: bytes, mode: int | None = None, *, durable: bool = True) -> None:
    """Write a file so that a killed process leaves the old one, or none, or the new one, never half.

    A symlink stays one: what it points to is replaced. `mode` is the file's permissions; None gives a new
    file those the process gives to any, and keeps those of an old one, as owner and group are kept. A device or a pipe
    is written to.

    Not `durable` is what is our own and may be lost when the machine stops: whatever stands there is replaced, a
    symlink too. Raises `OSError`.
    """
    import tempfile  # late: most runs write nothing

    if durable and path.exists() and not path.is_file():
        path.write_bytes(data)
        return
    real = Path(os.path.realpath(path)) if durable else path
    old = real.stat() if durable and real.exists() else None
    if mode is None:
        mode = old.st_mode & 0o7777 if old is not None else 0o666 & ~_umask()
    # A letter of a name may be four bytes, and a name has at most 255.
    handle, name = tempfile.mkstemp(prefix=f".{real.name[:25]}.", suffix=".shardlint", dir=real.parent)
    temporary = Path(name)
    try:
        with os.fdopen(handle, "wb") as stream:
            stream.write(data)
            if durable:
                stream.flush()
                os.fsync(stream.fileno())
            ours = old is None or _given_back(stream.fileno(), old)
        temporary.chmod(mode)
        if ours:
            temporary.replace(real)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    if not ours:
        _write_over(real, data, temporary)


def _given_back(handle: int, old: os.stat_result) -> bool:
    """Give a new file the owner and group of the old one; False where that is not allowed."""
    new = os.fstat(handle)
    if (new.st_uid, new.st_gid) == (old.st_uid, old.st_gid):
        return True
    try:
        os.fchown(handle, old.st_uid, old.st_gid)
    except OSError:
        return False
    return True


def _write_over(real: Path, data: bytes, copy: Path) -> None:
    """Write into a file that somebody else owns. Where that ends half-way, the copy beside it has it all."""
    try:
        stream = real.open("r+b")
    except OSError:
        copy.unlink()
        raise
    try:
        with stream:
            stream.write(data)
            stream.truncate()
            stream.flush()
            os.fsync(stream.fileno())
    except OSError as error:
        raise OSError(error.errno, f"{error.strerror}; what it should hold is in {copy}", str(real)) from None
    copy.unlink()


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
