"""Detectors of a rule: each is called for the forms it names."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from shardlint.config.targets import Target, Targets
from shardlint.engine.dispatch import sites
from shardlint.engine.index import RuleIndex
from shardlint.model import Program
from shardlint.rules_api.registry import rules
from shardlint.rules_api.rule import Calls, Finding, Harm, Keywords, Methods, Rule, detector
from shardlint.rules_api.site import Site
from shardlint.source.decoding import decode
from shardlint.syntax import read_facts

TEXT = """
import functools
import jax

jax.device_put(1)
functools.partial(jax.device_put, device=None)
x.placed(2)
f(resources=3)
"""


class Named(Rule):
    """Its detectors name their forms: of keywords none tells."""

    code, name, harm = "XX1", "named-forms", Harm.CRASH
    triggers = (Calls("jax.device_put"), Methods("placed"), Keywords("resources"))

    @detector("method", "partial")
    def find_both(self, site: Site) -> Iterator[Finding]:
        yield site.finding(site.call, "First.", help="none")
        yield site.finding(site.call, "Second.", help="none")

    @detector("call")
    def report_call(self, site: Site) -> Finding:
        return site.finding(site.call, "Called.", help="none")


class Open(Rule):
    """It has a detector for the forms that it does not name."""

    code, name, harm = "XX2", "open-forms", Harm.CRASH
    triggers = Named.triggers

    @detector()
    def report_rest(self, site: Site) -> Finding:
        return site.finding(site.call, "Another.", help="none")

    @detector("call")
    def report_nothing(self, site: Site) -> Finding | None:
        return None


def found(tmp_path: Path, rule: Rule) -> list[tuple[str, str]]:
    path = tmp_path / "a.py"
    path.write_text(TEXT)
    index = RuleIndex.of([rule])
    words = index.words_in(sorted(index.screen.hits(TEXT.encode())), TEXT.encode())
    facts = read_facts(decode(path, TEXT.encode()), path)
    seen = sites(Program(tmp_path), facts, index, Targets({"jax": Target((0, 12), "")}), words)
    return [(site.form, one.message) for site in seen for one in site.findings()]


def test_a_detector_is_called_for_its_forms_only(tmp_path: Path) -> None:
    assert Named.forms == ("call", "partial", "method")
    assert found(tmp_path, Named()) == [
        ("call", "Called."),
        ("partial", "First."),
        ("partial", "Second."),
        ("method", "First."),
        ("method", "Second."),
    ]


def test_a_detector_without_forms_is_called_for_the_others(tmp_path: Path) -> None:
    assert Open.forms == ()
    assert found(tmp_path, Open()) == [(form, "Another.") for form in ("partial", "method", "keyword")]


def test_a_rule_has_detectors_or_a_check() -> None:
    detecting = [rule for rule in rules() if rule.detectors]
    assert len(detecting) > 30
    assert [rule.code for rule in detecting if rule.check is not Rule.check] == []
    assert [rule.code for rule in rules() if rule not in detecting and rule.check is Rule.check] == []
