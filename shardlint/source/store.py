"""Where the cache is, and which shardlint it belongs to."""

from __future__ import annotations

import contextlib
import json
import os
import sys
from pathlib import Path
from typing import Any

from shardlint import __version__
from shardlint.source.files import cache_folder, replace_file
from shardlint.source.patterns import compile_lazily
from shardlint.source.regular_files import read_regular
from shardlint.source.tree import Stamp, make_stamp

try:  # hashlib loads OpenSSL first, which is a twentieth of the time that a clean file takes
    from _blake2 import blake2b
except ImportError:
    from hashlib import blake2b

SCHEMA = 8
_MOST_BYTES = 256_000_000
# A project has up to 33 (its shard, and its records over 32), and who works on many is to find all of them again.
_MOST_FILES = 10_000
_RELEASES = 4
_OURS = compile_lazily(r"[0-9a-f]{24}")
# What a folder of ours holds, and what a killed run left half written.
_KEPT = compile_lazily(r"\.?(?:[0-9a-f]{24}|rules|words-\w+)\.json(?:\.\w+\.shardlint)?")
_DIGEST = 24
_HERE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
_TAG = b"Signature: 8a477f597d28d172789f06886806bc55\n# What shardlint found before; it may be deleted.\n"


class Store:
    """A folder of JSON files of one shardlint, each behind a digest: what has it is what was saved, in every value."""

    def __init__(self, folder: str) -> None:
        self.folder = folder
        self._tidied = False

    def load_data(self, name: str) -> dict[str, Any] | None:
        """Return the data saved under a name; None if there is none, or none that can be trusted."""
        try:
            data = read_regular(os.path.join(self.folder, name), _MOST_BYTES, own=True)
            if data[:_DIGEST] != digest_bytes(data[_DIGEST:]).encode():
                return None
            found = json.loads(data[_DIGEST:])
        except (OSError, ValueError, RecursionError):
            return None
        return found if isinstance(found, dict) else None

    def save_data(self, name: str, data: dict[str, Any]) -> None:
        """Save under a name, whole or not at all. A folder that cannot be written keeps nothing."""
        written = json.dumps(data, separators=(",", ":")).encode("ascii")
        with contextlib.suppress(OSError):
            os.makedirs(self.folder, mode=0o700, exist_ok=True)
            replace_file(
                Path(self.folder, name), digest_bytes(written).encode() + written, 0o600, durable=False
            )
            if not self._tidied:
                self._tidied = True
                self._remove_oldest()

    def _remove_oldest(self) -> None:
        """Let go of what was longest not saved, of more projects than anyone works on."""
        with os.scandir(self.folder) as listed:
            entries = [entry for entry in listed if _KEPT.fullmatch(entry.name)]
        if len(entries) > _MOST_FILES:
            for entry in sorted(entries, key=lambda one: one.stat().st_mtime)[: len(entries) // 2]:
                os.unlink(entry.path)


def open_store() -> Store | None:
    """The store of this shardlint with these rule packs, on this Python; None where there is no place for one."""
    top = _cache_directory()
    if top is None:
        return None
    tag = os.path.join(top, "CACHEDIR.TAG")
    if not os.path.exists(tag):
        try:
            os.makedirs(top, mode=0o700, exist_ok=True)
            with contextlib.suppress(FileExistsError), open(tag, "xb") as file:
                file.write(_TAG)
        except OSError:
            return None
    folder = os.path.join(top, _tool_name(Store(top)))
    if not os.path.isdir(folder):
        _forget_older(top)
    return Store(folder)


def _cache_directory() -> str | None:
    given = os.environ.get("SHARDLINT_CACHE_DIR")
    if given:
        return os.path.abspath(given)
    folder = cache_folder("check")
    return str(folder) if folder is not None else None


def _forget_older(top: str) -> None:
    """Let go of what other releases of shardlint kept, but for the newest few; of files with names of ours only."""
    with contextlib.suppress(OSError):  # somebody else is at it, or may not
        with os.scandir(top) as listed:
            others = [
                entry
                for entry in listed
                if entry.is_dir(follow_symlinks=False) and _OURS.fullmatch(entry.name)
            ]
        for entry in sorted(others, key=lambda one: -one.stat().st_mtime)[_RELEASES:]:
            with contextlib.suppress(OSError):  # where something else is in it, it stays
                for name in filter(_KEPT.fullmatch, os.listdir(entry.path)):
                    os.unlink(os.path.join(entry.path, name))
                os.rmdir(entry.path)


def _tool_name(store: Store) -> str:
    """A name for this shardlint: what its own files and those of the rule packs are."""
    path = [[entry, change_time(entry)] for entry in sys.path]
    name = f"packs-{digest_bytes(json.dumps(path).encode())}.json"
    packs = (store.load_data(name) or {}).get("packs")
    if not isinstance(packs, list) or not all(isinstance(pack, str) for pack in packs):
        from shardlint.source.packs import pack_folders  # few runs need them

        packs = [str(folder) for folder in pack_folders()]
        store.save_data(name, {"packs": packs})
    parts = [
        SCHEMA,
        __version__,
        sys.version,
        [(folder, _package_stamps(folder)) for folder in (_HERE, *packs)],
    ]
    return digest_bytes(json.dumps(parts).encode())


def change_time(path: str) -> int:
    """When a file or folder was last changed; 0 where there is none."""
    try:
        return os.stat(path or ".").st_mtime_ns
    except OSError:
        return 0


def _package_stamps(folder: str) -> list[tuple[str, Stamp]]:
    """Every file of a package, or the one of a module, with its stamp; not those of `verify`."""
    found: list[tuple[str, Stamp]] = []
    try:
        if not os.path.isdir(folder):
            return [("", make_stamp(os.stat(folder)))]
        with os.scandir(folder) as listed:
            entries = sorted(listed, key=lambda entry: entry.name)
        for entry in entries:
            if entry.is_dir():
                if entry.name not in ("__pycache__", "verify"):
                    found += [(f"{entry.name}/{name}", stamp) for name, stamp in _package_stamps(entry.path)]
            else:
                found.append((entry.name, make_stamp(entry.stat())))
    except OSError:
        pass
    return found


def digest_bytes(data: bytes) -> str:
    """A name for bytes, that others do not have."""
    return blake2b(data, digest_size=12).hexdigest()
