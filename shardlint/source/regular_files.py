"""Regular files, read up to a limit. All files that a project holds or names are read here.

A pipe or a device is never opened: it may have no end, and whoever opens it may wait for ever. A file that is larger
than its limit is never read.
"""

from __future__ import annotations

import errno
import os
import stat
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from shardlint.source.patterns import compile_lazily

if TYPE_CHECKING:
    from collections.abc import Iterator

CONFIGURATION_BYTES = 1_000_000
"""The limit of settings, formatter options, hooks, ignore patterns and the like: what people write."""
LOCK_BYTES = 16_000_000
"""The limit of lock files and requirements."""
RECORD_BYTES = 64_000_000
"""The limit of what shardlint itself writes into a project, such as a baseline."""
_FLAGS = os.O_RDONLY | getattr(os, "O_BINARY", 0) | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NONBLOCK", 0)
_CHUNK = 65_536
# `tomllib` takes the square of the time for a key with many parts.
_STRING = compile_lazily(r"""(?s)"(?:[^"\\\n]|\\.)*+"|'[^'\n]*+'""")
_LONG_KEY = compile_lazily(r"(?<![\w.-])(?:[\w-]++[ \t]*+\.[ \t]*+){100}")


class NotRegular(OSError):
    """A pipe, a device, a socket or a folder, which is not opened."""


class TooLarge(OSError):
    """A file with more bytes than its limit, which is not read."""

    def __init__(self, path: str, size: int, limit: int) -> None:
        super().__init__(errno.EFBIG, f"the file has {size:,} bytes, and the limit is {limit:,}", path)


def read_regular(path: str | os.PathLike[str], limit: int, own: bool = False) -> bytes:
    """The bytes of a regular file, of this user where it must be their `own`.

    Raises `OSError`: `NotRegular` and `TooLarge` where nothing was read.
    """
    name = os.fspath(path)
    with _open_regular(name) as handle:
        status = os.fstat(handle)
        if own and hasattr(os, "geteuid") and status.st_uid != os.geteuid():
            raise PermissionError(errno.EPERM, "it belongs to another user", name)
        if status.st_size > limit:
            raise TooLarge(name, status.st_size, limit)
        return b"".join(_read_chunks(handle, name, status.st_size, limit))


def read_beginning(path: str | os.PathLike[str], count: int) -> bytes:
    """The first bytes of a regular file, however large it is. Raises `OSError`."""
    with _open_regular(os.fspath(path)) as handle:
        return os.read(handle, count)


@contextmanager
def _open_regular(name: str) -> Iterator[int]:
    _check_kind(os.stat(name), name)  # noqa: PTH116
    handle = os.open(name, _FLAGS)
    try:
        _check_kind(os.fstat(handle), name)  # another file may have its name by now
        yield handle
    finally:
        os.close(handle)


def _check_kind(status: os.stat_result, name: str) -> None:
    if stat.S_ISDIR(status.st_mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), name)
    if not stat.S_ISREG(status.st_mode):
        raise NotRegular(errno.EINVAL, "it is a pipe or a device, not a file", name)


def _read_chunks(handle: int, name: str, size: int, limit: int) -> Iterator[bytes]:
    total = 0
    while chunk := os.read(handle, max(size + 1 - total, _CHUNK)):
        total += len(chunk)
        if total > limit:  # it grows, or its size is unknown before it is read (/proc)
            raise TooLarge(name, total, limit)
        yield chunk


def read_text(path: str | os.PathLike[str], limit: int, errors: str = "strict") -> str:
    """The text of a regular file in UTF-8. Raises `OSError`, and `ValueError` for other bytes."""
    return read_regular(path, limit).decode("utf-8", errors).replace("\r\n", "\n")


def parse_toml(text: str) -> dict[str, Any]:
    """The table that a text in TOML holds. Raises `ValueError` for all that is wrong with it."""
    import tomllib  # late, as all that most runs have no use for

    if _LONG_KEY.search(_STRING.sub("s", text)) is not None:
        raise ValueError("it has a key of more than 100 parts")
    try:
        return tomllib.loads(text)
    except RecursionError:
        raise ValueError("nested too deeply") from None


def read_toml(path: str | os.PathLike[str], limit: int = CONFIGURATION_BYTES) -> dict[str, Any]:
    """The table of a file in TOML. Raises `OSError` and `ValueError`."""
    return parse_toml(read_text(path, limit))


def read_json(path: str | os.PathLike[str], limit: int) -> Any:
    """The value of a file in JSON. Raises `OSError` and `ValueError`."""
    import json

    try:
        return json.loads(read_regular(path, limit))
    except RecursionError:
        raise ValueError("nested too deeply") from None
