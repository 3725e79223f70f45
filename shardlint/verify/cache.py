"""A folder of small JSON files, one an answer of the compiler, that runs side by side can share.

Nothing in it is trusted: an entry that is torn, too large or not what was written is as good as none. What was
written is known by a digest with a key that is not in the folder.
"""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import json
import os
from pathlib import Path
from typing import Any

from shardlint.source.files import cache_folder, replace_file

FOLDER_BYTES = 512 * 2**20
ENTRY_BYTES = 64 * 2**20
KEY_VARIABLE = "SHARDLINT_CACHE_KEY"
_NAME = "verify.key"


def secret_key() -> str:
    """The key of the entries' digests: the environment's, or a file's beside the folder for caches, made where there
    is none. Where none can be made, one that holds as long as this process.
    """
    given = os.environ.get(KEY_VARIABLE, "")
    if given:
        return given
    fresh = os.urandom(32).hex()
    path = cache_folder(_NAME)
    if path is None:
        return fresh
    for _ in range(2):
        with contextlib.suppress(OSError, UnicodeDecodeError):
            text = path.read_text("ascii").strip()
            if len(text) == len(fresh):
                return text
        with contextlib.suppress(OSError):
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            replace_file(path, fresh.encode(), 0o600, durable=False)
    return fresh


class Cache:
    """Entries by key (hexadecimal). What the system refuses (a full disk, no permission) is as if there were none."""

    def __init__(self, folder: Path, most: int = FOLDER_BYTES, secret: str | None = None) -> None:
        self.folder, self.most = folder, most
        self._secret = (secret_key() if secret is None else secret).encode()

    def get_entry(self, key: str) -> dict[str, Any] | None:
        """The entry of a key, or None."""
        return self._checked_value(key, read_entry(self.folder, key))

    def verified_digest(self, key: str) -> str | None:
        """The digest (see `data_fingerprint`) of the file of a key's entry, if it is as it was written; else None."""
        data = read_entry(self.folder, key)
        return None if self._checked_value(key, data) is None else data_fingerprint(data)

    def _checked_value(self, key: str, data: bytes) -> dict[str, Any] | None:
        entry = _parse_entry(data)
        value = entry.get("value")
        return (
            value if isinstance(value, dict) and entry.get("digest") == self._sign_value(key, value) else None
        )

    def put_entry(self, key: str, value: dict[str, Any]) -> None:
        """Keep an entry, whole or not at all, and let the least used go where there is too much."""
        data = json.dumps({"digest": self._sign_value(key, value), "value": value}).encode()
        if len(data) > min(ENTRY_BYTES, self.most) or not _is_key(key):
            return
        with contextlib.suppress(OSError):
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            replace_file(_entry_path(self.folder, key), data, 0o600, durable=False)
            self._shrink_folder()

    def _sign_value(self, key: str, value: dict[str, Any]) -> str:
        text = key + json.dumps(value, sort_keys=True)
        return hmac.new(self._secret, text.encode(), hashlib.sha256).hexdigest()

    def _shrink_folder(self) -> None:
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


def read_entry(folder: Path, key: str) -> bytes:
    """The file of a key's entry, whatever it holds; nothing where there is none or it is too large."""
    if not _is_key(key):
        return b""
    file = _entry_path(folder, key)
    try:
        if file.stat().st_size > ENTRY_BYTES:
            return b""
        data = file.read_bytes()
        os.utime(file)  # the least used go first
    except OSError:
        return b""
    return data


def vouched_value(data: bytes, digest: str) -> dict[str, Any] | None:
    """The entry in a file whose digest somebody vouched for; None for another file."""
    value = _parse_entry(data).get("value") if data_fingerprint(data) == digest else None
    return value if isinstance(value, dict) else None


def data_fingerprint(data: bytes) -> str:
    """The digest of a file."""
    return hashlib.sha256(data).hexdigest()


def _parse_entry(data: bytes) -> dict[str, Any]:
    try:
        entry = json.loads(data)
    except (ValueError, RecursionError):
        return {}
    return entry if isinstance(entry, dict) else {}


def _is_key(key: str) -> bool:
    return key.isalnum() and len(key) <= 128


def _entry_path(folder: Path, key: str) -> Path:
    return folder / f"{key}.json"
