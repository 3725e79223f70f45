"""Hearing what a compiler writes to standard error, without losing it when the process dies of it, and
leaving nothing of it behind. No jax.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import stat
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

from shardlint.verify.inside.errors import flush_output

_MOST = 2**20
_NOT_THROUGH_LINKS = getattr(os, "O_NOFOLLOW", 0)
_WITHOUT_WAITING = getattr(os, "O_NONBLOCK", 0)

_leader: tuple[int, Path] | None = None


def _stderr_path(pid: int) -> Path:
    return Path(tempfile.gettempdir()) / f"shardlint-heard-{pid}.txt"


def lead_process_group() -> None:
    """Say that the parent of this process calls `leftover_stderr` when it ends. Call it before the user's code, which
    may change where temporary files go.
    """
    global _leader
    _leader = os.getpid(), _stderr_path(os.getpid())


def folder_prefix() -> str:
    """How the names of temporary folders begin that `leftover_stderr` removes where their process could not."""
    return _dump_folder_prefix(os.getpgrp() if hasattr(os, "getpgrp") else os.getpid())


def _dump_folder_prefix(pid: int) -> str:
    return f"shardlint-hlo-{pid}-"


def leftover_stderr(pid: int) -> bytes:
    """The end of what a dead process, the leader of its group, had written and not passed on; removes that and
    the folders of the group.
    """
    path = _stderr_path(pid)
    for folder in path.parent.glob(f"{_dump_folder_prefix(pid)}*"):
        shutil.rmtree(folder, ignore_errors=True)
    try:
        descriptor = os.open(path, os.O_RDONLY | _NOT_THROUGH_LINKS | _WITHOUT_WAITING)
    except OSError:
        return b""
    try:
        # Anybody may write where temporary files lie.
        status = os.fstat(descriptor)
        theirs = hasattr(os, "getuid") and status.st_uid != os.getuid()
        if theirs or not stat.S_ISREG(status.st_mode):
            return b""
        found = _read_end(descriptor)
    finally:
        os.close(descriptor)
    with contextlib.suppress(OSError):
        path.unlink()
    return found


def _read_end(descriptor: int) -> bytes:
    size = os.fstat(descriptor).st_size
    os.lseek(descriptor, max(0, size - _MOST), os.SEEK_SET)
    parts = []
    while data := os.read(descriptor, 65536):
        parts.append(data)
    return b"".join(parts)


@contextlib.contextmanager
def listen_to_stderr() -> Iterator[list[str]]:
    """Keep what is written to standard error, by C++ too, and pass it on.

    The one string of the list is complete after the block. In a process whose parent asks for what is left, a
    file takes it, which outlives the process; in others a thread passes it on as it comes.
    """
    flush_output()
    _open_missing()
    descriptor = None
    if _leader is not None and _leader[0] == os.getpid():
        with contextlib.suppress(OSError):
            descriptor = _create_file(_leader[1])
    if descriptor is not None and _leader is not None:
        with _capture_in_file(descriptor, _leader[1]) as heard:
            yield heard
    else:
        with _capture_through_pipe() as heard:
            yield heard


def _open_missing() -> None:
    """Open standard streams that the program has closed, to nowhere."""
    while (descriptor := os.open(os.devnull, os.O_RDWR)) <= 2:
        pass
    os.close(descriptor)


def _create_file(path: Path) -> int:
    flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_APPEND | _NOT_THROUGH_LINKS
    try:
        return os.open(path, flags, 0o600)
    except FileExistsError:
        path.unlink()  # of an earlier process with this number
        return os.open(path, flags, 0o600)


@contextlib.contextmanager
def _capture_in_file(descriptor: int, path: Path) -> Iterator[list[str]]:
    heard = [""]
    kept = os.dup(2)
    os.dup2(descriptor, 2)
    try:
        yield heard
    finally:
        flush_output()
        os.dup2(kept, 2)
        found = _read_end(descriptor)
        os.close(descriptor)
        with contextlib.suppress(OSError):
            path.unlink()
        write_all(kept, found)
        os.close(kept)
        heard[0] = found.decode("utf-8", "replace")


@contextlib.contextmanager
def _capture_through_pipe() -> Iterator[list[str]]:
    heard = [""]
    kept = os.dup(2)
    take, give = os.pipe()
    os.dup2(give, 2)
    os.close(give)
    parts: list[bytes] = []

    def pass_on() -> None:
        while data := os.read(take, 65536):
            write_all(kept, data)
            # What a compiler says about a program is not long; what a program prints may be.
            if len(parts) < 256:
                parts.append(data)

    listener = threading.Thread(target=pass_on, daemon=True)
    listener.start()
    try:
        yield heard
    finally:
        flush_output()
        os.dup2(kept, 2)
        # The pipe ends now, unless something the program started still holds it.
        listener.join(1.0)
        if not listener.is_alive():
            os.close(take)
            os.close(kept)
        heard[0] = b"".join(parts).decode("utf-8", "replace")


def write_all(descriptor: int, data: bytes) -> None:
    """Write all of it; a reader that is gone is no error."""
    view = memoryview(data)
    with contextlib.suppress(OSError):
        while view:
            view = view[os.write(descriptor, view) :]
