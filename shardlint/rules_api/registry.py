"""Rule packs, found through the entry-point group `shardlint.rules`, and which of their rules to run.

A pack is a package that says where its rules and proofs are:

    RULES = {"SL201": "my_pack.jit.device_put_in_jit:DevicePutInJit", ...}    # code -> module:class
    PROOFS = ["my_pack/proofs"]                                               # folders of proof folders, if any
    LEDGER = ["my_pack/ledger"]                                               # folders of CODE.jsonl, if any
    PAGES = "https://example.org/rules/{code}.html"                           # where the rules' pages are, if anywhere

Rules are imported only when selected: a run that needs one rule loads one.
"""

from __future__ import annotations

import importlib
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

from shardlint.config.certainty import Certainty
from shardlint.rules_api.rule import Harm, Rule, Trigger
from shardlint.source.lazy import dataclass
from shardlint.source.packs import BrokenPack, describe_error, installed_packs

# The engine's own findings (see shardlint/rules_api/builtin.py); named here so that listing codes imports nothing.
_OWN = {
    "SL001": "shardlint.rules_api.builtin:FileNotParsed",
    "SL002": "shardlint.rules_api.builtin:UnusedSuppression",
    "SL003": "shardlint.rules_api.builtin:SuppressionWithoutReason",
    "SL005": "shardlint.rules_api.builtin:BannedCall",
}


class UnknownRule(Exception):
    """A selector that is no code, prefix, name or harm; the message suggests near ones."""


@dataclass(frozen=True)
class Entry:
    """One rule of a pack, not yet imported."""

    code: str
    where: str
    pack: str = "shardlint"
    """The pack and its distribution, for people."""
    page: str = ""
    """The address of the rule's page, if its pack says one."""

    @property
    def is_builtin(self) -> bool:
        """True if the rule comes with shardlint."""
        return self.where.startswith(("shardlint.", "shardlint_rules."))

    def load_rule(self) -> type[Rule]:
        """Import the rule's class. Raises `BrokenPack` when it is not where its pack says, or is not a rule."""
        module, _, name = self.where.partition(":")
        try:
            found = getattr(importlib.import_module(module), name)
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            said = str(error) if isinstance(error, ImportError | AttributeError) else describe_error(error)
            raise BrokenPack(
                f"cannot load rule {self.code} from {self.where}, of {self.pack}: {said}"
            ) from error
        if not (isinstance(found, type) and issubclass(found, Rule)):
            raise BrokenPack(f"{self.where} is not the rule {self.code} that {self.pack} says it is")
        if getattr(found, "code", None) != self.code:
            raise BrokenPack(f"{self.where} is not the rule {self.code} that {self.pack} says it is")
        if not isinstance(getattr(found, "name", None), str) or not isinstance(
            getattr(found, "harm", None), Harm
        ):
            raise BrokenPack(f"rule {self.code} of {self.pack} has no name or no harm")
        return found


@dataclass(frozen=True)
class RuleMetadata:
    """Metadata of a rule that is not imported."""

    code: str
    name: str
    harm: Harm
    default: bool
    deprecated: str
    ceiling: Certainty
    releases: Mapping[str, str]
    project: str
    setting: str
    bound: bool
    by_settings: bool
    """Whether what triggers it is told by the settings of the project, and not by its class."""

    @classmethod
    def describe_rule(cls, rule: type[Rule]) -> RuleMetadata:
        """That of one that is imported."""
        return cls(
            rule.code, rule.name, rule.harm, rule.default, rule.deprecated, rule.highest_certainty(),
            rule.releases, rule.project,
            rule.setting, rule.bound, rule.triggers_for is not Rule.triggers_for,
        )  # fmt: skip

    @classmethod
    def decode_metadata(cls, told: Sequence[Any]) -> RuleMetadata:
        """That of plain data, in the order of the fields. Raises `TypeError` or `ValueError` for what is none."""
        code, name, harm, default, deprecated, ceiling, releases, *others = told
        return cls(code, name, Harm(harm), default, deprecated, Certainty(ceiling), dict(releases), *others)


_KEPT: list[tuple[Mapping[str, Entry], Mapping[str, RuleMetadata]]] = []
"""What an earlier run knew of all rules."""


def use_known_rules(entries: Mapping[str, Entry], rules: Iterable[RuleMetadata]) -> None:
    """Take over what was known of all rules, instead of looking for packs and importing them."""
    _KEPT[:] = [(entries, {one.code: one for one in rules})]


def is_metadata_cached() -> bool:
    """Return whether cached metadata of an earlier run is used."""
    return bool(_KEPT)


def are_rules_imported() -> bool:
    """Return whether all rules are imported."""
    return import_rules.cache_info().currsize > 0


def forget_packs() -> None:
    """Look for the packs anew."""
    _KEPT.clear()
    for remembered in (installed_packs, _find_entries, import_rules, _known_of_imported, proof_folders):
        remembered.cache_clear()


def rule_entries() -> Mapping[str, Entry]:
    """All rules of all packs, by code. Raises `BrokenPack` when two packs claim a code."""
    return _KEPT[0][0] if _KEPT else _find_entries()


@lru_cache(maxsize=1)
def _find_entries() -> Mapping[str, Entry]:
    found = {code: Entry(code, where) for code, where in _OWN.items()}
    for pack in installed_packs():
        pages = str(getattr(pack.module, "PAGES", ""))
        for code, where in pack.module.RULES.items():
            if code in found and found[code].where != where:
                raise BrokenPack(f"{code} is claimed by {found[code].where} and by {where}, of {pack.shown}")
            found[code] = Entry(code, where, pack.shown, pages.replace("{code}", code))
    return dict(sorted(found.items()))


def page_address(code: str) -> str:
    """Where a rule's page is on the web; empty where its pack says none."""
    entry = rule_entries().get(code)
    return entry.page if entry is not None else ""


@lru_cache(maxsize=1)
def import_rules() -> tuple[type[Rule], ...]:
    """All rules, imported, by code."""
    return tuple(entry.load_rule() for entry in rule_entries().values())


def rule_metadata() -> Mapping[str, RuleMetadata]:
    """Return the metadata of all rules, by code. The rules are imported if no earlier run cached it."""
    return _KEPT[0][1] if _KEPT else _known_of_imported()


@lru_cache(maxsize=1)
def _known_of_imported() -> Mapping[str, RuleMetadata]:
    return {rule.code: RuleMetadata.describe_rule(rule) for rule in import_rules()}


@lru_cache(maxsize=1)
def proof_folders() -> Mapping[str, Path]:
    """The folder with each rule's proof: bad.py, good.py, proof.toml."""
    found: dict[str, Path] = {}
    for pack in installed_packs():
        for folder in getattr(pack.module, "PROOFS", ()):
            for path in sorted(Path(folder).glob("*/proof.toml")):
                if path.parent.name in rule_entries():
                    found.setdefault(path.parent.name, path.parent)
    return dict(sorted(found.items()))


def ledger_folders() -> list[Path]:
    """Where the packs keep what was judged of their findings on public code."""
    return [Path(folder) for pack in installed_packs() for folder in getattr(pack.module, "LEDGER", ())]


def select_rules(chosen: Sequence[str], ignored: Sequence[str]) -> tuple[Rule, ...]:
    """The rules on by default, or the ones chosen, less the ignored ones. Raises `UnknownRule` and `BrokenPack`."""
    return make_rules(select_codes(chosen, ignored))


def select_codes(chosen: Sequence[str], ignored: Sequence[str], extended: Sequence[str] = ()) -> frozenset[str]:
    """Their codes, and those of the rules that `extended` adds.

    A selector is a code (SL201), a prefix (SL2), a name (device-put-in-jit), a harm (silent) or "all". Raises
    `UnknownRule`.
    """
    if chosen:
        codes = set(_selected_codes(chosen))
    else:
        codes = {rule.code for rule in rule_metadata().values() if rule.default and not rule.deprecated}
    codes.update(_selected_codes(extended))
    return frozenset(codes.difference(codes_matching(ignored)))


def _selected_codes(selectors: Sequence[str]) -> Iterator[str]:
    """The codes to run; of deprecated rules only those that are named."""
    for selector in selectors:
        for code in codes_matching([selector]):
            rule = _KEPT[0][1][code] if _KEPT else rule_entries()[code].load_rule()
            if not rule.deprecated or selector.strip().lower() in (code.lower(), rule.name):
                yield code


def make_rules(codes: Collection[str]) -> tuple[Rule, ...]:
    """Rules by their codes, ready to run, in the order of the codes. Raises `BrokenPack`."""
    return tuple(_make_rule(entry) for code, entry in rule_entries().items() if code in codes)


def _make_rule(entry: Entry) -> Rule:
    kind = entry.load_rule()
    try:
        rule = kind()
        for trigger in rule.triggers:
            if not isinstance(trigger, Trigger):
                raise TypeError(f"{trigger!r} triggers no rule")
            for text in getattr(trigger, "near", ()):
                re.compile(text if text.startswith("(?") else "")
        return rule
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        raise BrokenPack(f"cannot make rule {entry.code} of {entry.pack}: {describe_error(error)}") from error


def codes_matching(selectors: Iterable[str]) -> Iterator[str]:
    """The codes that selectors name. Raises `UnknownRule`."""
    for selector in selectors:
        found = list(_codes_of_selector(selector.strip()))
        if not found:
            raise UnknownRule(_explain_unknown_selector(selector))
        yield from found


def _codes_of_selector(selector: str) -> Iterator[str]:
    if selector.lower() == "all":
        yield from rule_entries()
        return
    if re.fullmatch(r"[A-Za-z]+[0-9]*", selector):
        found = [code for code in rule_entries() if code.startswith(selector.upper())]
        if found:
            yield from found
            return
    for rule in rule_metadata().values():
        if selector.lower() in (rule.name, rule.harm.value):
            yield rule.code


def similar_selectors(selector: str) -> list[str]:
    """Return the known selectors similar to an unknown one."""
    import difflib

    said = selector.strip()
    all_there_is = [
        *rule_entries(),
        *(rule.name for rule in rule_metadata().values()),
        *(harm.value for harm in Harm),
        "all",
    ]
    return _codes_with_prefix(said.upper()) or difflib.get_close_matches(said.lower(), all_there_is, n=3)


def _explain_unknown_selector(selector: str) -> str:
    found = similar_selectors(selector)
    hint = f"; did you mean {', '.join(found)}?" if found else "; `shardlint rules` lists them"
    return f"no rule, prefix, name or harm is called {selector!r}{hint}"


def _codes_with_prefix(code: str) -> list[str]:
    """The first codes that begin as something does that looks like a code: SL901 for SL9999, SL201 for SL2O1."""
    letters = re.match("[A-Z]+(?=[0-9])", code)
    for length in range(len(code) - 1, letters.end() - 1, -1) if letters is not None else ():
        found = [known for known in rule_entries() if known.startswith(code[:length])]
        if found:
            return found[:3]
    return []
