"""Rule packs, found through the entry-point group `shardlint.rules`, and which of their rules to run.

A pack is a package that says where its rules and proofs are:

    RULES = {"SL201": "my_pack.jit.device_put_in_jit:DevicePutInJit", ...}    # code -> module:class
    PROOFS = ["my_pack/proofs"]                                               # folders of proof folders, if any

Rules are imported only when selected: a run that needs one rule loads one.
"""

from __future__ import annotations

import importlib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib.metadata import entry_points
from pathlib import Path
from types import ModuleType

from shardlint.rule import Harm, Rule

GROUP = "shardlint.rules"

# The engine's own findings (see shardlint/own.py); named here so that listing codes imports nothing.
_OWN = {
    "SL001": "shardlint.own:FileNotParsed",
    "SL002": "shardlint.own:UnusedSuppression",
    "SL003": "shardlint.own:SuppressionWithoutReason",
}


class UnknownRule(Exception):
    """A selector that is no code, prefix, name or harm; the message suggests near ones."""


class BrokenPack(Exception):
    """A rule pack that cannot be used; the message names the rule and where it should be."""


@dataclass(frozen=True)
class Entry:
    """One rule of a pack, not yet imported."""

    code: str
    where: str

    def load(self) -> type[Rule]:
        """Import the rule's class. Raises `BrokenPack` when it is not where its pack says."""
        module, _, name = self.where.partition(":")
        try:
            found = getattr(importlib.import_module(module), name)
        except (ImportError, AttributeError) as error:
            raise BrokenPack(f"cannot load rule {self.code} from {self.where}: {error}") from error
        if not (isinstance(found, type) and issubclass(found, Rule) and found.code == self.code):
            raise BrokenPack(f"{self.where} is not the rule {self.code} its pack says it is")
        return found


@lru_cache(maxsize=1)
def _packs() -> tuple[ModuleType, ...]:
    return tuple(importlib.import_module(point.value) for point in entry_points(group=GROUP))


def pack_folders() -> list[Path]:
    """Where the packs' own files are, data too: a folder, or the one file."""
    return [Path(place) for pack in _packs() for place in getattr(pack, "__path__", [pack.__file__])]


@lru_cache(maxsize=1)
def entries() -> Mapping[str, Entry]:
    """All rules of all packs, by code. Raises `BrokenPack` when two packs claim a code."""
    found = {code: Entry(code, where) for code, where in _OWN.items()}
    for pack in _packs():
        for code, where in pack.RULES.items():
            if code in found and found[code].where != where:
                raise BrokenPack(f"{code} is claimed by {found[code].where} and by {where}")
            found[code] = Entry(code, where)
    return dict(sorted(found.items()))


@lru_cache(maxsize=1)
def rules() -> tuple[type[Rule], ...]:
    """All rules, imported, by code."""
    return tuple(entry.load() for entry in entries().values())


def proof_folders() -> dict[str, Path]:
    """The folder with each rule's proof: bad.py, good.py, proof.toml."""
    found: dict[str, Path] = {}
    for pack in _packs():
        for folder in getattr(pack, "PROOFS", ()):
            for path in sorted(Path(folder).glob("*/proof.toml")):
                if path.parent.name in entries():
                    found.setdefault(path.parent.name, path.parent)
    return dict(sorted(found.items()))


def select(chosen: Sequence[str], ignored: Sequence[str]) -> tuple[Rule, ...]:
    """The rules to run: those on by default, or the ones chosen, less the ignored ones.

    A selector is a code (SL201), a prefix (SL2), a name (device-put-in-jit), a harm (silent) or "all". Raises
    `UnknownRule`.
    """
    codes = set(matching(chosen)) if chosen else {rule.code for rule in rules() if rule.default}
    codes -= set(matching(ignored))
    return tuple(entry.load()() for code, entry in entries().items() if code in codes)


def matching(selectors: Iterable[str]) -> Iterator[str]:
    """The codes that selectors name. Raises `UnknownRule`."""
    for selector in selectors:
        found = list(_one(selector.strip()))
        if not found:
            raise UnknownRule(_suggest(selector))
        yield from found


def _one(selector: str) -> Iterator[str]:
    if re.fullmatch(r"[A-Z]+[0-9]*", selector) and selector != "ALL":
        yield from (code for code in entries() if code.startswith(selector))
        return
    harm = selector.lower() if selector.lower() in {harm.value for harm in Harm} else None
    for rule in rules():
        if selector.lower() == "all" or rule.name == selector or rule.harm.value == harm:
            yield rule.code


def _suggest(selector: str) -> str:
    import difflib

    known = [*entries(), *(rule.name for rule in rules()), *(harm.value for harm in Harm), "all"]
    near = difflib.get_close_matches(selector, known, n=3)
    hint = f"; did you mean {', '.join(near)}?" if near else "; `shardlint rules` lists them"
    return f"no rule, prefix, name or harm is called {selector!r}{hint}"
