"""The table behind SL9: when each name came, was deprecated and went, and what each release was seen to do.

`api_versions.json` holds one entry a name and one a keyword argument. Its claims are written by people, from
changelogs and experiments; its `observed` columns are written by scripts/observe_api.py from installed
releases, and `find_disagreements` says where the two differ.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal

from shardlint.config.versions import Release, compare_releases, format_release, parse_release
from shardlint.rules_api.rule import Needed
from shardlint.source.lazy import dataclass

PATH = Path(__file__).with_name("api_versions.json")

State = Literal["not yet", "current", "deprecated", "removed"]
Seen = Literal["there", "warns", "absent"]
Kind = Literal["name", "module", "namespace"]

# Modules whose members are found by the module's own word: the members' (Mesh, Device) are everywhere.
_WOKEN_BY_MODULE = (
    "jax.experimental.global_device_array",
    "jax.experimental.maps",
    "jax.experimental.pjit",
    "jax.experimental.shard_map",
    "jax.interpreters.pxla",
    "jax.lib.xla_bridge",
    "jax.lib.xla_client",
    "jax.lib.xla_extension",
    "jaxlib.xla_extension",
)


@dataclass(frozen=True)
class Name:
    """The life of one dotted name.

    `introduced` is None for names older than every release looked at. A `module` that goes takes its import
    with it; a `namespace` is a module whose members are deprecated one and all while importing it is fine. A
    `silent` deprecation is one that the release does not warn of. `instead` says, in words, what to write
    where renaming is not enough. Rules look for a name if `trigger`, and on releases that do not have it yet
    if it is `awaited`: new enough to be met, and rare as a word. `always` is for options of `jax.config` that went:
    the value that later releases behave by, where there is one.
    """

    name: str
    introduced: Release | None
    deprecated: Release | None
    removed: Release | None
    replacement: str | None
    rename_is_enough: bool
    instead: str
    kind: Kind
    silent: bool
    trigger: bool
    awaited: bool
    always: object
    observed: Mapping[str, Seen]

    def state_on(self, release: Release) -> State:
        """Return the state of the name on a release."""
        if self.removed is not None and compare_releases(release, self.removed) >= 0:
            return "removed"
        if self.introduced is not None and compare_releases(release, self.introduced) < 0:
            return "not yet"
        if self.deprecated is not None and compare_releases(release, self.deprecated) >= 0:
            return "deprecated"
        return "current"

    @property
    def replacement_advice(self) -> str:
        """Return the replacement as a clause."""
        return replacement_clause(self.instead or (f"`{self.replacement}`" if self.replacement else ""))


@dataclass(frozen=True)
class Keyword:
    """The life of one keyword argument of a function, by the name the function was imported under.

    It is accepted from `accepted_from` until before `accepted_until`; where `never` holds, on no release. `rename` is
    what it is called instead, from `rename_from` on; None: on all releases looked at.
    """

    function: str
    keyword: str
    never: bool
    accepted_from: Release | None
    accepted_until: Release | None
    rename: str | None
    rename_from: Release | None
    positional: bool
    instead: str
    observed: Mapping[str, Seen]

    def is_accepted_by(self, release: Release) -> bool:
        """Return whether a release takes the keyword."""
        return (
            not self.never
            and (self.accepted_from is None or compare_releases(release, self.accepted_from) >= 0)
            and (self.accepted_until is None or compare_releases(release, self.accepted_until) < 0)
        )


def replacement_clause(instead: str) -> str:
    """Return the replacement as a clause: "write `x`", or the sentence it already is."""
    return f"write {instead}" if instead.startswith("`") else instead


@dataclass(frozen=True)
class Table:
    """All names, by name, and all keywords, by function and keyword."""

    names: Mapping[str, Name]
    keywords: Mapping[tuple[str, str], Keyword]

    def most_specific_entry(self, dotted: str) -> Name | None:
        """The most specific entry for a dotted name: its own, or that of a module it is in."""
        entry = self.names.get(dotted)
        if entry is not None:
            return entry
        while "." in dotted:
            dotted = dotted.rpartition(".")[0]
            entry = self.names.get(dotted)
            if entry is not None:
                return entry if entry.kind != "name" else None
        return None


@lru_cache(maxsize=1)
def read_table() -> Table:
    """The table, read once."""
    data = json.loads(PATH.read_text("utf-8"))
    names = {entry["name"]: _read_name_entry(entry) for entry in data["names"]}
    keywords = {
        (entry["function"], entry["keyword"]): _read_keyword_entry(entry) for entry in data["keywords"]
    }
    return Table(names, keywords)


def _parse_release(text: str | None) -> Release | None:
    return parse_release(text) if text is not None else None


def _read_name_entry(entry: Mapping[str, Any]) -> Name:
    return Name(
        entry["name"],
        _parse_release(entry["introduced"]),
        _parse_release(entry["deprecated"]),
        _parse_release(entry["removed"]),
        entry["replacement"],
        entry["rename_is_enough"],
        entry.get("instead", ""),
        entry.get("kind", "name"),
        entry.get("silent", False),
        entry.get("trigger", True),
        entry.get("awaited", False),
        entry.get("always"),
        entry["observed"],
    )


def _read_keyword_entry(entry: Mapping[str, Any]) -> Keyword:
    never = entry["accepted_from"] == "never"
    return Keyword(
        entry["function"],
        entry["keyword"],
        never,
        None if never else _parse_release(entry["accepted_from"]),
        None if never else _parse_release(entry["accepted_until"]),
        entry["rename"],
        _parse_release(entry.get("rename_from")),
        entry["positional"],
        entry["instead"],
        entry["observed"],
    )


OPTIONS = "jax.config"


def removed_config_options() -> tuple[str, ...]:
    """The options of `jax.config` that some release removed."""
    return tuple(
        entry.name.rpartition(".")[2]
        for entry in read_table().names.values()
        if entry.removed is not None
        and entry.name.startswith((f"{OPTIONS}.jax_", f"{OPTIONS}.experimental_"))
    )


def names_needed_by_fixes(*names: str) -> tuple[Needed, ...]:
    """Return the names written by a fix that older releases lack, each with its first release."""
    entries = [read_table().names.get(name) for name in dict.fromkeys(names)]
    return tuple(
        Needed("jax", format_release(entry.introduced), entry.name)
        for entry in entries
        if entry is not None and entry.introduced is not None
    )


def trigger_names(kind: Literal["removed", "deprecated"]) -> tuple[str, ...]:
    """The names for which the rules trigger, a module's as `module.*`: those that some release removed or
    deprecated."""
    found: dict[str, None] = {}
    for entry in read_table().names.values():
        ended = entry.removed if kind == "removed" else entry.deprecated
        awaited = kind == "removed" and entry.awaited
        if not entry.trigger or (ended is None and not awaited):
            continue
        module = entry.name.rpartition(".")[0]
        if entry.kind != "name":
            found[f"{entry.name}.*"] = None
        elif module in _WOKEN_BY_MODULE:
            found[f"{module}.*"] = None
        else:
            found[entry.name] = None
    return tuple(found)


# claims and observations


def find_disagreements(entry: Name | Keyword) -> Iterator[str]:
    """Where a release was seen to do something else than the table claims, in words."""
    for version, seen in entry.observed.items():
        expected = _expected_observations(entry, parse_release(version))
        if seen not in expected:
            what = entry.name if isinstance(entry, Name) else f"{entry.function}({entry.keyword}=)"
            yield f"{what} on jax {version}: the table says {' or '.join(expected)}, the release says {seen}"


def _expected_observations(entry: Name | Keyword, release: Release) -> tuple[Seen, ...]:
    if isinstance(entry, Keyword):
        return ("there",) if entry.is_accepted_by(release) else ("absent",)
    match entry.state_on(release):
        case "deprecated":
            if entry.silent or entry.kind == "namespace":
                return ("there", "warns")
            return ("warns",)
        case "current":
            return ("there",)
    return ("absent",)


def dump_table(data: Mapping[str, list[dict[str, Any]]]) -> str:
    """The table as text: an entry's claims on one line and what was observed on the next."""
    lines = []
    for section, entries in data.items():
        shown = []
        for entry in entries:
            claims = json.dumps(
                {key: value for key, value in entry.items() if key != "observed"}, ensure_ascii=False
            )
            shown.append(f'  {claims[:-1]},\n   "observed": {json.dumps(entry["observed"])}}}')
        lines.append(f' "{section}": [\n' + ",\n".join(shown) + "\n ]")
    return "{\n" + ",\n".join(lines) + "\n}\n"
