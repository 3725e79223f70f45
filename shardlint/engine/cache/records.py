"""Cached findings of each part of each file, read if the file is checked again."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from shardlint.source.store import Store, digest_bytes

if TYPE_CHECKING:
    from shardlint.engine.groups import Record, StoredFinding

_FILES = 32
"""Over how many files the records of a project are spread: a run reads and writes only some."""


class Records:
    """The records of one project by the names of its files."""

    def __init__(self, store: Store, about: str) -> None:
        self._store = store
        self._about = about
        self._loaded: dict[int, dict[str, str]] = {}
        self._dirty: set[int] = set()

    def get_record(self, name: str, mark: str, path: Callable[[str], str]) -> Record | None:
        """The record of a file that was kept under a mark; None where it is not there."""
        text = self._load_records(_bucket_of_name(name)).get(name, "")
        if not text or record_mark(text) != mark:
            return None
        try:
            return _decode_record(json.loads(text), path)
        except (LookupError, TypeError, ValueError, AttributeError):
            return None

    def put_record(self, name: str, record: Record, called: Callable[[str], str]) -> str:
        """Keep a record. Returns its mark."""
        text = json.dumps(_encode_record(record, called), separators=(",", ":"))
        place = _bucket_of_name(name)
        self._load_records(place)[name] = text
        self._dirty.add(place)
        return record_mark(text)

    def save_new(self, there: Mapping[str, Any]) -> None:
        """Save what is new, of files that are there."""
        for place in self._dirty:
            kept = {name: text for name, text in self._loaded[place].items() if name in there}
            self._store.save_data(self._record_file_name(place), {"records": kept})

    def _load_records(self, place: int) -> dict[str, str]:
        if place not in self._loaded:
            found = (self._store.load_data(self._record_file_name(place)) or {}).get("records", {})
            texts = isinstance(found, dict) and set(map(type, found.values())) <= {str}
            self._loaded[place] = found if texts else {}
        return self._loaded[place]

    def _record_file_name(self, place: int) -> str:
        return f"{digest_bytes(f'{self._about} {place}'.encode())}.json"


def record_mark(text: str) -> str:
    """By what a record is known to be the one that was kept."""
    return digest_bytes(text.encode())[:8]


def _bucket_of_name(name: str) -> int:
    return int(digest_bytes(name.encode("utf-8", "surrogatepass"))[:4], 16) % _FILES


def _encode_record(record: Record, called: Callable[[str], str]) -> list[Any]:
    parts = {
        name: [
            part.asked,
            part.sites,
            f"{part.needed:x}",
            {
                code: [f"{group.needed:x}", [_encode_finding(one, called) for one in group.told]]
                for code, group in part.groups.items()
            },
        ]
        for name, part in record.parts.items()
    }
    return [record.least, dict(record.texts), f"{record.base:x}", parts]


def _encode_finding(stored_finding: StoredFinding, called: Callable[[str], str]) -> list[Any]:
    from shardlint.engine.cache.coding import encode_finding

    return [
        stored_finding.spots,
        encode_finding(stored_finding.finding),
        list(map(called, stored_finding.finding.rests)),
    ]


def _decode_record(data: Any, path: Callable[[str], str]) -> Record:
    from shardlint.engine.groups import Group, PartRecord, Record

    least, texts, base, parts = data
    return Record(
        str(least),
        {str(name): str(text) for name, text in texts.items()},
        {
            name: PartRecord(
                str(asked),
                str(sites),
                int(needed, 16),
                {
                    code: Group(int(bits, 16), tuple(_decode_told(one, path) for one in told))
                    for code, (bits, told) in groups.items()
                },
            )
            for name, (asked, sites, needed, groups) in parts.items()
        },
        int(base, 16),
    )


def _decode_told(data: Any, path: Callable[[str], str]) -> StoredFinding:
    from shardlint.engine.cache.coding import decode_finding
    from shardlint.engine.groups import StoredFinding

    spots, finding, rests = data
    return StoredFinding(
        decode_finding(finding, tuple(map(path, rests))),
        tuple((str(part), int(along)) for part, along in spots),
    )
