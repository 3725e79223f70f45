"""A rule finds the same alone and with all others."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import ClassVar

import pytest

import shardlint.engine.one_file as checking
from shardlint.config.certainty import Certainty
from shardlint.engine.dispatch import RuleIndex
from shardlint.engine.results import Options
from shardlint.engine.run import check
from shardlint.rules_api.registry import select
from shardlint.rules_api.rule import Calls, Finding, Harm, Methods, Rule
from shardlint.rules_api.site import Site
from tests.conftest import Write

FIXTURES = Path(__file__).parent.parent / "fixtures"
RULES = sorted(rule.code for rule in select(("all",), ()))


def told(files: list[Path], codes: tuple[str, ...]) -> dict[str, list[tuple[object, ...]]]:
    """What rules find in files, by rule."""
    report = check(files, Options(certainty=Certainty.POSSIBLE, select=codes))
    assert not report.failed
    found: dict[str, list[tuple[object, ...]]] = {}
    for one in report.reports:
        for finding in one.findings:
            place = (one.path, finding.start, finding.message, finding.certainty, finding.why, finding.fix)
            found.setdefault(finding.rule.code, []).append(place)
    return found


@cache
def all_told() -> dict[str, list[tuple[object, ...]]]:
    return told([FIXTURES], ("all",))


@pytest.mark.xdist_group("alone")  # what all rules find is asked once, not in each worker
@pytest.mark.parametrize("rule", [code for code in RULES if code not in ("SL001", "SL002", "SL003")])
def test_a_rule_finds_the_same_alone(rule: str) -> None:
    screen = RuleIndex.of(select((rule,), ())).screen
    files = [file for file in sorted(FIXTURES.rglob("*.py")) if screen.hits(file.read_bytes())]
    # A rule that stands behind another leaves a place to it, if that is asked too.
    left = {one[:2] for code in select((rule,), ())[0].behind for one in all_told().get(code, [])}
    alone = [one for one in told(files, (rule,)).get(rule, []) if one[:2] not in left]
    assert sorted(alone, key=repr) == sorted(all_told().get(rule, []), key=repr)


class Seeing(Rule):
    """Tells where it was triggered."""

    harm = Harm.COST

    def check(self, site: Site) -> Iterator[Finding]:
        yield site.finding(site.syntax, "here", "Here.")


class Near(Seeing):
    """Only in files that say so."""

    code, name = "XX1", "near"
    triggers: ClassVar = (Calls("jax.device_put", file_says=("wanted",)),)


class Within(Seeing):
    """Only in functions that say so, and outside of functions in files that do."""

    code, name = "XX2", "within"
    triggers: ClassVar = (Calls("jax.device_put", function_says=("wanted",)), Methods("place", function_says=("wanted",)))


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
        monkeypatch.setattr(checking, "selected", lambda *_: frozenset(rule.code for rule in rules))
        monkeypatch.setattr(checking, "made", lambda _: tuple(rule() for rule in rules))
        report = check([root / "a.py"], Options(certainty=Certainty.POSSIBLE, select=("all",)))
        assert not report.failed, report.failed
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
