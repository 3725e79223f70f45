"""Findings as JSON, and back."""

from __future__ import annotations

from typing import Any

from shardlint.config.certainty import Certainty
from shardlint.rules_api.rule import Edit, Finding, Fix, Harm, Needed, RuleIdentity, Safety


def encode_finding(finding: Finding) -> list[Any]:
    """A finding as plain data."""
    fix = finding.fix
    return [
        finding.rule.code,
        finding.rule.name,
        finding.start,
        finding.end,
        finding.label,
        finding.message,
        finding.help,
        finding.harm.value,
        finding.certainty.value,
        None
        if fix is None
        else [
            fix.safety.value,
            fix.message,
            [[edit.start, edit.end, edit.text] for edit in fix.edits],
            fix.why,
            list(fix.drops),
            list(fix.together),
            list(fix.uncovers),
            [[one.package, one.since, one.what] for one in fix.needs],
        ],
        finding.form,
        finding.why,
        None if finding.obstacles is None else list(finding.obstacles),
    ]


def decode_finding(data: Any, rests: tuple[str, ...] = ()) -> Finding:
    """The finding, which rests on files. Raises `ValueError`, `TypeError` or `KeyError` for what is none."""
    code, name, start, end, label, message, help, harm, certainty, fix, form, why, obstacles = data
    return Finding(
        RuleIdentity(_check_text(code), _check_text(name)),
        _check_position(start),
        _check_position(end),
        _check_text(label),
        _check_text(message),
        _check_text(help),
        Harm(harm),
        Certainty(certainty),
        None if fix is None else _decode_fix(fix),
        _check_text(form),
        _check_text(why),
        None if obstacles is None else tuple(_check_text(one) for one in obstacles),
        rests,
    )


def _decode_fix(data: Any) -> Fix:
    safety, message, edits, why, drops, together, uncovers, needs = data
    return Fix(
        Safety(safety),
        _check_text(message),
        tuple(
            Edit(_check_position(start), _check_position(end), _check_text(text))
            for start, end, text in edits
        ),
        _check_text(why),
        tuple(_check_text(drop) for drop in drops),
        tuple(_check_text(path) for path in together),
        tuple(_check_text(code) for code in uncovers),
        tuple(
            Needed(_check_text(package), _check_text(since), _check_text(what))
            for package, since, what in needs
        ),
    )


def _check_text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError("no text")
    return value


def _check_position(value: Any) -> int:
    if not isinstance(value, int) or value < 0:
        raise TypeError("no position")
    return value
