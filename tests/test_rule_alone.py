"""A rule finds the same without the others and with them."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import ClassVar

import pytest

import shardlint.engine.one_file as checking
from shardlint.config.certainty import Certainty
from shardlint.engine.catalogue import Card
from shardlint.engine.index import RuleIndex
from shardlint.engine.results import Options
from shardlint.engine.run import check_paths
from shardlint.rules_api.registry import select_rules
from shardlint.rules_api.rule import Calls, Finding, Harm, Methods, Rule
from shardlint.rules_api.site import Site
from tests.conftest import Write
from tests.everything import GROUP, Told, all_told, apart, told

pytestmark = pytest.mark.longer

RULES = sorted(rule.code for rule in select_rules(("all",), ()))


def divided() -> list[tuple[str, ...]]:
    """The rules in groups, in two ways: any two rules are apart in one of them, so each is seen without any other."""
    rules = [code for code in RULES if code not in ("SL001", "SL002", "SL003")]
    side = math.isqrt(len(rules) - 1) + 1
    beside = [tuple(rules[start::side]) for start in range(side)]
    behind = [tuple(rules[start : start + side]) for start in range(0, len(rules), side)]
    return [group for group in (*beside, *behind) if group]


def test_any_two_rules_are_apart_in_one_of_the_groups() -> None:
    together: dict[str, list[set[str]]] = {}
    for group in divided():
        for code in group:
            together.setdefault(code, []).append(set(group))
    assert together.keys() == {*RULES} - {"SL001", "SL002", "SL003"}
    assert all(len(groups) == 2 and set.intersection(*groups) == {code} for code, groups in together.items())


@pytest.mark.xdist_group(GROUP)
@pytest.mark.parametrize("group", divided(), ids=lambda group: f"{group[0]}-{group[-1]}")
def test_rules_find_the_same_without_others(group: tuple[str, ...]) -> None:
    """In the folders of these rules, where they find most, and in every twelfth of the others."""
    screen = RuleIndex.index_rules(select_rules(group, ())).make_screen
    first = divided().index(group) % 12
    folders = [
        folder
        for place, folder in enumerate(sorted(apart().iterdir()))
        if folder.name in group
        or (place % 12 == first and any(screen.find_words(file.read_bytes()) for file in folder.rglob("*.py")))
    ]
    found = told(folders, group)
    there = [one for one in all_told() if any(folder in one.path.parents for folder in folders)]
    for rule in select_rules(group, ()):
        # A rule that stands behind another leaves a place to it, if that is asked too and is as sure.
        left: dict[tuple[Path, int], list[Told]] = {}
        for one in there:
            if one.code in rule.behind:
                left.setdefault((one.path, one.start), []).append(one)
        alone = [
            one
            for one in found
            if one.code == rule.code
            and not any(other.certainty.is_at_least(one.certainty) for other in left.get((one.path, one.start), ()))
        ]
        with_all = [one for one in there if one.code == rule.code]
        assert sorted(alone, key=repr) == sorted(with_all, key=repr), rule.code


class Seeing(Rule):
    """Tells where it was triggered."""

    harm = Harm.COST

    def check(self, site: Site) -> Iterator[Finding]:
        yield site.finding(site.syntax, "Here.")


class Near(Seeing):
    """Only in files that say so."""

    code, name = "XX1", "near"
    triggers: ClassVar = (Calls("jax.device_put", file_says=("wanted",)),)


class Within(Seeing):
    """Only in functions that say so, and outside of functions in files that do."""

    code, name = "XX2", "within"
    triggers: ClassVar = (
        Calls("jax.device_put", function_says=("wanted",)),
        Methods("place", function_says=("wanted",)),
    )


class Outside(Seeing):
    """Only outside of functions."""

    code, name = "XX3", "outside"
    triggers: ClassVar = (Calls("jax.device_put", at_module_level=True),)


class Anywhere(Seeing):
    """All of them."""

    code, name = "XX4", "anywhere"
    triggers: ClassVar = (Calls("jax.device_put"), Methods("place"))


class WithEquinox(Seeing):
    """In projects with Equinox."""

    code, name, project = "XX5", "with-equinox", "equinox"
    triggers: ClassVar = (Calls("jax.device_put"),)


class WithFlax(Seeing):
    """In projects with Flax."""

    code, name, project = "XX6", "with-flax", "flax"
    triggers: ClassVar = (Calls("jax.device_put"),)


TEXT = """\
import jax
from jax import device_put as move

put = jax.device_put
a = jax.device_put(1)

def here(x):
    wanted = put(x)
    return wanted.place()

def there(x):
    return move(x).place(), [jax.device_put(y) for y in x]

def around(x):
    def inside(x):
        return put(x)
    wanted = 1
"""
SYNTHETIC = (Near, Within, Outside, Anywhere, WithEquinox, WithFlax)


@pytest.mark.parametrize("comment", ["", "# shardlint: ignore[SL201] because\n"])
@pytest.mark.parametrize(
    ("text", "lines"),
    [
        (TEXT, {"XX1": [5, 8, 12, 12, 16], "XX2": [5, 8, 9], "XX3": [5], "XX4": [5, 8, 9, 12, 12, 12, 16]}),
        (TEXT.replace("wanted", "other"), {"XX3": [5], "XX4": [5, 8, 9, 12, 12, 12, 16]}),
        ("import flax\n" + TEXT, {"XX6": [6, 9, 13, 13, 17]}),
        ("import equinox\n" + TEXT, {"XX5": [6, 9, 13, 13, 17]}),
    ],
)
def test_conditions_are_a_rule_s_own(
    write: Write,
    monkeypatch: pytest.MonkeyPatch,
    text: str,
    lines: dict[str, list[int]],
    comment: str,
) -> None:
    root = write({"a.py": "", "project.py": ""})
    (root / "a.py").write_text(text + "\n" + comment)

    def found(rules: tuple[type[Rule], ...]) -> dict[str, list[int]]:
        monkeypatch.setattr(checking, "select_codes", lambda *_: frozenset(rule.code for rule in rules))
        known = {rule.code: SimpleNamespace(pack="tests", ours=True) for rule in rules}
        monkeypatch.setattr(checking, "rule_entries", lambda: known)
        monkeypatch.setattr(checking, "rule_cards", lambda _: {rule.code: Card.describe_rule(rule()) for rule in rules})
        report = check_paths([root / "a.py"], Options(certainty=Certainty.POSSIBLE, select=("all",)))
        assert not report.failed, report.skipped
        said: dict[str, list[int]] = {}
        for one in report.reports:
            for finding in one.findings:
                line = text.count("\n", 0, finding.start) + 1
                said.setdefault(finding.rule.code, []).append(line)
        return said

    alone = {code: places for rule in SYNTHETIC for code, places in found((rule,)).items()}
    assert found(SYNTHETIC) == alone == found(tuple(reversed(SYNTHETIC)))
    assert {code: alone.get(code) for code in lines} == lines
    assert ("XX5" in alone, "XX6" in alone) == ("equinox" in text, "flax" in text)
