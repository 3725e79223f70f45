"""Which public names the modules of jax, flax, equinox, optax and haliax have, by release: scripts/public_names.py.

`public_names.json` holds for each library the releases looked at, and for each of its modules the names, by the
releases that have them: "*" for all of those that have the module, else a range of places in that list of releases,
"2-5" or "3". A name that is a plain function ends in "()"; a module of which "*" is the only name could not be looked
into.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

from shardlint.config.versions import Release, parse_release
from shardlint.source.lazy import dataclass

PATH = Path(__file__).with_name("public_names.json")
LIBRARIES = ("jax", "flax", "equinox", "optax", "haliax")


@dataclass(frozen=True)
class ReleaseNames:
    """Public names of one release of a library, by module."""

    library: str
    version: str
    modules: Mapping[str, Iterable[str]]


@dataclass(frozen=True, eq=False)
class Library:
    """The releases of a library that were looked at, the oldest first, and who has what.

    `modules` gives for each module the places of the releases that have it, and for each of its names the same.
    """

    releases: tuple[Release, ...]
    modules: Mapping[str, tuple[frozenset[int], Mapping[str, frozenset[int]]]]

    def releases_with_name(self, module: str, name: str) -> frozenset[int]:
        """The releases, by place, that have a name in a module, or of which that cannot be told."""
        names = self.modules[module][1]
        none: frozenset[int] = frozenset()
        return names.get(name, none) | names.get(f"{name}()", none) | names.get("*", none)

    def is_function(self, module: str, name: str, place: int) -> bool:
        """Return whether a name of a module is a plain function on a release, which has no attributes of its own."""
        return module in self.modules and place in self.modules[module][1].get(f"{name}()", ())


@lru_cache(maxsize=1)
def read_libraries() -> Mapping[str, Library]:
    """The table, read once."""
    data = json.loads(PATH.read_text("utf-8"))
    return {name: _read_library(entry) for name, entry in data.items()}


def _read_library(entry: Mapping[str, Any]) -> Library:
    modules = {}
    for module, held in entry["modules"].items():
        there = _read_release_ranges(held["on"])
        names: dict[str, frozenset[int]] = {}
        for on, words in held["names"].items():
            places = there if on == "*" else _read_release_ranges(on)
            names.update(dict.fromkeys(words.split(), places))
        modules[module] = there, names
    return Library(tuple(map(parse_release, entry["releases"])), modules)


def _read_release_ranges(text: str) -> frozenset[int]:
    found: set[int] = set()
    for part in text.split(","):
        first, _, last = part.partition("-")
        found.update(range(int(first), int(last or first) + 1))
    return frozenset(found)


def _shown_places(places: Iterable[int]) -> str:
    parts: list[list[int]] = []
    for place in sorted(places):
        if parts and parts[-1][1] == place - 1:
            parts[-1][1] = place
        else:
            parts.append([place, place])
    return ",".join(str(a) if a == b else f"{a}-{b}" for a, b in parts)


def unpack_table() -> Iterator[ReleaseNames]:
    """The table as what each release showed."""
    data = json.loads(PATH.read_text("utf-8"))
    for name, entry in data.items():
        library = _read_library(entry)
        for place, version in enumerate(entry["releases"]):
            yield ReleaseNames(
                name,
                version,
                {
                    module: [word for word, on in names.items() if place in on]
                    for module, (there, names) in library.modules.items()
                    if place in there
                },
            )


def pack_table(shown: Iterable[ReleaseNames]) -> str:
    """The table as text, one module's names of the same releases a line."""
    data: dict[str, Any] = {}
    every = list(shown)
    for library in LIBRARIES:
        mine = sorted((one for one in every if one.library == library), key=lambda one: parse_release(one.version))
        modules = {}
        for module in sorted({name for one in mine for name in one.modules}):
            there = {place for place, one in enumerate(mine) if module in one.modules}
            words: dict[str, set[int]] = {}
            for place in there:
                for word in mine[place].modules[module]:
                    words.setdefault(word, set()).add(place)
            groups: dict[str, list[str]] = {}
            for word, on in sorted(words.items()):
                groups.setdefault("*" if on == there else _shown_places(on), []).append(word)
            modules[module] = {
                "on": _shown_places(there),
                "names": {on: " ".join(names) for on, names in sorted(groups.items())},
            }
        data[library] = {"releases": [one.version for one in mine], "modules": modules}
    return json.dumps(data, indent=1, ensure_ascii=False) + "\n"


# screening

_SHORT = {
    "jax.numpy": ("jnp",),
    "jax.lax": ("lax",),
    "jax.sharding": ("sharding", "shd"),
    "jax.random": ("jr", "jrandom"),
    "jax.tree_util": ("tree_util", "jtu"),
    "jax.nn": ("nn",),
    "flax.linen": ("nn", "linen"),
    "flax.nnx": ("nnx",),
    "equinox": ("eqx",),
    "equinox.nn": ("nn",),
    "haliax": ("hax",),
    "haliax.nn": ("nn", "hnn"),
}
# Functions with the names of modules, old or likely.
_MISTAKEN = (
    "jax.shard_map",
    "shard_map",
    "jax.jit",
    "jax.pmap",
    "jax.vmap",
    "jax.make_mesh",
    "jax.device_put",
)


def screen_text() -> str:
    """For the screen: modules as files write them, with the names that the newest release has.

    Functions that are taken for modules stand there with no names.
    """
    known: dict[str, set[str]] = {}
    for library in read_libraries().values():
        newest = len(library.releases) - 1
        for module, (there, names) in library.modules.items():
            if newest not in there or module.count(".") > 3:
                continue
            now = {name.removesuffix("()") for name, on in names.items() if newest in on}
            if "*" in now:
                continue
            for written in (module, *_SHORT.get(module, ())):
                known.setdefault(written, set()).update(now)
    known.update({function: set() for function in _MISTAKEN})
    return "names:" + ";".join(
        f"{module}={' '.join(sorted(names))}" for module, names in sorted(known.items())
    )
