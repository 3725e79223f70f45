"""A folder of small JSON files, one an answer of the compiler, that runs side by side can share.

Nothing in it is trusted: an entry that is torn, too large or not what was written is as good as none.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from pathlib import Path
from typing import Any

from shardlint.files import replace_file

FOLDER_BYTES = 512 * 2**20
ENTRY_BYTES = 64 * 2**20


class Cache:
    """Entries by key (hexadecimal). What the system refuses (a full disk, no permission) is as if there were none."""

    def __init__(self, folder: Path, most: int = FOLDER_BYTES) -> None:
        self.folder, self.most = folder, most

    def get(self, key: str) -> dict[str, Any] | None:
        """The entry of a key, or None."""
        file = self._file(key)
        try:
            if file.stat().st_size > ENTRY_BYTES:
                return None
            entry = json.loads(file.read_bytes())
            os.utime(file)  # the least used go first
        except (OSError, ValueError, RecursionError):
            return None
        value = entry.get("value") if isinstance(entry, dict) else None
        return value if isinstance(value, dict) and entry.get("digest") == _digest(key, value) else None

    def put(self, key: str, value: dict[str, Any]) -> None:
        """Keep an entry, whole or not at all, and let the least used go where there is too much."""
        data = json.dumps({"digest": _digest(key, value), "value": value}).encode()
        if len(data) > min(ENTRY_BYTES, self.most):
            return
        with contextlib.suppress(OSError):
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            replace_file(self._file(key), data, 0o600, durable=False)
            self._shrink()

    def _file(self, key: str) -> Path:
        return self.folder / f"{key}.json"

    def _shrink(self) -> None:
        files = []
        for file in self.folder.iterdir():
            # Another run may remove files too; what one left half written is removed with the old.
            with contextlib.suppress(OSError):
                if file.suffix in (".json", ".shardlint"):
                    status = file.stat()
                    files.append((status.st_mtime, status.st_size, file))
        total = sum(size for _, size, _ in files)
        for _, size, file in sorted(files):
            if total <= self.most:
                break
            with contextlib.suppress(OSError):
                file.unlink()
                total -= size


def _digest(key: str, value: dict[str, Any]) -> str:
    return hashlib.sha256((key + json.dumps(value, sort_keys=True)).encode()).hexdigest()
