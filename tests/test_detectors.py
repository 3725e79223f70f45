"""Detectors of a rule: each is called for the forms it names."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from shardlint.config.certainty import Certainty
from shardlint.config.targets import Target, Targets
from shardlint.engine.dispatch import find_sites
from shardlint.engine.index import RuleIndex
from shardlint.model import Program
from shardlint.rules_api.registry import import_rules
from shardlint.rules_api.rule import Calls, Finding, Harm, Keywords, Methods, Rule, Violates, detector
from shardlint.rules_api.site import Site
from shardlint.source.decoding import decode_file
from shardlint.syntax import read_facts

TEXT = """
import functools
import jax

jax.device_put(1)
functools.partial(jax.device_put, device=None)
x.placed(2)
f(resources=3)
jax.make_mesh(4)
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


class Declared(Rule):
    """Its detectors declare the functions that they are for, and the form of their findings."""

    code, name, harm = "XX3", "declared-forms", Harm.CRASH
    triggers = (Calls("jax.device_put", "jax.make_mesh"), Methods("placed"))
    likely = ("by-name",)

    @detector("call", of="jax.make_mesh")
    def report_mesh(self, site: Site) -> Finding:
        return site.finding(site.call, "Mesh.", help="none")

    @detector("call", "partial", of="jax.device_put", finds="guess")
    def report_guess(self, site: Site) -> Finding | None:
        return site.finding(site.call, "Guess.", help="none") if site.form == "call" else None

    @detector(finds="by-name")
    def report_name(self, site: Site) -> Finding:
        return site.finding(site.call, "Named.", help="none")

    @detector("call", "partial")
    def report_others(self, site: Site) -> Finding:
        return site.finding(site.call, "Other.", help="none")


def found(tmp_path: Path, rule: Rule, least: Certainty = Certainty.POSSIBLE) -> list[tuple[str, str]]:
    return [(form, one.message) for form, one in found_by_form(tmp_path, rule, least)]


def found_by_form(tmp_path: Path, rule: Rule, least: Certainty) -> list[tuple[str, Finding]]:
    path = tmp_path / "a.py"
    path.write_text(TEXT)
    index = RuleIndex.index_rules([rule], least)
    words = index.words_in(sorted(index.make_screen.find_words(TEXT.encode())), TEXT.encode())
    facts = read_facts(decode_file(path, TEXT.encode()), path)
    seen = find_sites(Program(tmp_path), facts, index, Targets({"jax": Target((0, 12), "")}), words)
    return [(site.form, one) for site in seen for one in site.findings()]


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


def test_a_detector_is_called_for_its_functions_until_one_finds_something(tmp_path: Path) -> None:
    assert Declared.forms == ()
    assert found(tmp_path, Declared()) == [
        ("call", "Guess."), ("partial", "Other."), ("method", "Named."), ("call", "Mesh."),
    ]  # fmt: skip


def test_a_detector_is_called_only_if_its_form_is_wanted(tmp_path: Path) -> None:
    assert found(tmp_path, Declared(), Certainty.LIKELY) == [
        ("call", "Other."), ("partial", "Other."), ("method", "Named."), ("call", "Mesh."),
    ]  # fmt: skip
    assert [form for form, _ in found(tmp_path, Declared(), Certainty.PROVEN)] == ["call", "partial", "call"]


def test_a_finding_has_the_form_of_its_detector(tmp_path: Path) -> None:
    seen = [one for _, one in found_by_form(tmp_path, Declared(), Certainty.POSSIBLE)]
    assert [(one.form, one.certainty) for one in seen] == [
        ("guess", Certainty.POSSIBLE),
        ("", Certainty.PROVEN),
        ("by-name", Certainty.LIKELY),
        ("", Certainty.PROVEN),
    ]


def test_every_rule_has_detectors() -> None:
    without = [rule.code for rule in import_rules() if not rule.detectors]
    assert without == [code for code in without if code.startswith("SL0")]
    assert [rule.code for rule in import_rules() if rule.detectors and rule.check is not Rule.check] == []


def test_detectors_name_what_triggers_the_rule() -> None:
    triggering = {rule: {name for trigger in rule.triggers for name in trigger.names} for rule in import_rules()}
    unknown = [(rule.code, one.name) for rule in import_rules() for one in rule.detectors if set(one.of) - triggering[rule]]
    assert unknown == []


def test_every_call_that_triggers_a_rule_has_a_detector() -> None:
    missing = [
        (rule.code, name)
        for rule in import_rules()
        for trigger in rule.triggers
        if rule.detectors and isinstance(trigger, Calls | Methods | Violates)
        for name in trigger.names
        if not any(not one.of or name in one.of for one in rule.detectors)
    ]
    assert missing == []
