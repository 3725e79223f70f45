"""Writing files so that nobody ever reads half of one, and where to keep what can be made again."""

from __future__ import annotations

import contextlib
import os
import re
import stat
import sys
from collections.abc import Iterable
from pathlib import Path

from shardlint.source.patterns import compile_lazily

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

_SUFFIX = ".shardlint"
# How much of a file's name its temporary keeps.
_KEPT = 25
_LETTERS = "abcdefghijklmnopqrstuvwxyz0123456789_"
_NEW = os.O_RDWR | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0)
_LEFT_OVER = compile_lazily(r"\.(.+)\.[a-z0-9_]{8}\.shardlint", re.DOTALL)


def replace_file(path: Path, data: bytes, mode: int | None = None, *, durable: bool = True) -> None:
    """Write a file so that a killed process leaves the old one, or none, or the new one, never half.

    A symlink stays one: what it points to is replaced. Extended attributes are kept. A file with several names (hard
    links), or with an owner or attributes that only others may set, is written over, so that it stays one file; a copy
    beside it has it all until that is done. `mode` is the file's permissions; None gives a new file those the process
    gives to any, and keeps those of an old one, as owner and group are kept. A device or a pipe is written to.

    Not `durable` is what is our own and may be lost when the machine stops: whatever stands there is replaced, a
    symlink too. Raises `OSError`.
    """
    if durable and path.exists() and not path.is_file():
        path.write_bytes(data)
        return
    real = Path(os.path.realpath(path)) if durable else path
    old = real.stat() if durable and real.exists() else None
    if mode is None:
        mode = old.st_mode & 0o7777 if old is not None else 0o666 & ~_read_umask()
    handle, temporary = _create_temporary(real)
    # Held until it has its name. Windows moves no open file, and has no such lock.
    lock = os.dup(handle) if fcntl is not None else -1
    try:
        with os.fdopen(handle, "wb") as stream:
            stream.write(data)
            if durable:
                stream.flush()
                os.fsync(stream.fileno())
            ours = old is None or (old.st_nlink == 1 and _copy_ownership(stream.fileno(), old, real))
        temporary.chmod(mode)
        if ours:
            temporary.replace(real)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    finally:
        if lock >= 0:
            os.close(lock)
    if not ours:
        _write_over(real, data, temporary)


def _create_temporary(real: Path) -> tuple[int, Path]:
    """A new file beside another, open and, where the system has locks, locked: nobody takes it for a left-over."""
    while True:
        # A letter of a name may be four bytes, and a name has at most 255. (`tempfile` takes as long to import as all
        # else that is done here.)
        random = "".join(_LETTERS[byte % len(_LETTERS)] for byte in os.urandom(8))
        path = real.with_name(f".{real.name[:_KEPT]}.{random}{_SUFFIX}")
        try:
            handle = os.open(path, _NEW, 0o600)
        except FileExistsError:
            continue
        if fcntl is None:
            return handle, path
        with contextlib.suppress(OSError):  # a file system without locks
            fcntl.flock(handle, fcntl.LOCK_EX)
        if os.fstat(handle).st_nlink:
            return handle, path
        os.close(handle)  # it was removed before it was locked


def remove_left_over(files: Iterable[Path]) -> None:
    """Remove what killed processes left beside files: our own temporaries, which no living process holds open."""
    folders: dict[Path, set[str]] = {}
    for file in files:
        real = Path(os.path.realpath(file))
        folders.setdefault(real.parent, set()).add(real.name[:_KEPT])
    for folder, names in folders.items():
        try:
            inside = [Path(entry.path) for entry in os.scandir(folder) if entry.name.endswith(_SUFFIX)]
        except OSError:
            continue
        for path in inside:
            match = _LEFT_OVER.fullmatch(path.name)
            if match is not None and match[1] in names:
                _remove_unheld(path)


def _remove_unheld(path: Path) -> None:
    """Remove a regular file of ours that nobody has locked. What cannot be removed stays."""
    with contextlib.suppress(OSError):
        status = path.lstat()
        if not stat.S_ISREG(status.st_mode) or (hasattr(os, "getuid") and status.st_uid != os.getuid()):
            return
        if fcntl is None:
            path.unlink()  # Windows refuses for a file that is open
            return
        handle = os.open(path, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0))
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            path.unlink()
        finally:
            os.close(handle)


def _copy_ownership(handle: int, old: os.stat_result, path: Path) -> bool:
    """Give a new file the owner, group and extended attributes of the old one; False where that is not allowed."""
    new = os.fstat(handle)
    try:
        if (new.st_uid, new.st_gid) != (old.st_uid, old.st_gid):
            os.fchown(handle, old.st_uid, old.st_gid)
        return not hasattr(os, "listxattr") or _copy_attributes(path, handle)
    except OSError:
        return False


def _copy_attributes(path: Path, handle: int) -> bool:
    """Copy the extended attributes of a file to an open one. Raises `OSError` where one may not be set."""
    try:
        names = os.listxattr(path)
    except OSError:  # a file system without any
        return True
    there = set(os.listxattr(handle))
    for name in names:
        value = os.getxattr(path, name)
        if name not in there or os.getxattr(handle, name) != value:
            os.setxattr(handle, name, value)
    return True


def _write_over(real: Path, data: bytes, temporary: Path) -> None:
    """Write into a file that somebody else owns, or that has other names.

    Where that ends half-way, the copy beside it has it all. It has a name of its own while it is needed: it is no
    left-over.
    """
    copy = temporary.with_name(f"{temporary.name}-copy")
    temporary.replace(copy)
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
        raise OSError(error.errno, f"{error.strerror}; its new content is in {copy}", str(real)) from None
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


def _read_umask() -> int:
    mask = os.umask(0o077)
    os.umask(mask)
    return mask
