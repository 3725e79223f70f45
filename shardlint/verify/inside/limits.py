"""Limits of a fixture on a compiled program: forbidden collectives, moved bytes, memory."""

from __future__ import annotations

from shardlint.verify.claims import check_budget, check_forbidden, check_memory
from shardlint.verify.declarations import MEMORY, name_item
from shardlint.verify.facts import Program
from shardlint.verify.fixture import Fixture, parse_bytes
from shardlint.verify.inside.checks import Checked
from shardlint.verify.inside.coverage import Looked


def check_limits(fixture: Fixture, program: Program) -> Checked:
    """Return the violated limits of communication and memory."""
    checked = check_claims(fixture, program)
    if fixture.memory_max is not None and not program.memory_bytes:
        checked.looked.missed[MEMORY] = "the compiler reports no memory figures"
    elif fixture.memory_max is not None:
        failures = check_memory(program, parse_bytes(fixture.memory_max))
        checked += Checked(failures, 1, Looked({MEMORY}))
    return checked


def check_claims(fixture: Fixture, program: Program) -> Checked:
    """Return the violated limits of communication. A claim counts if a collective could break it."""
    forbid, budget = fixture.forbidden_claims(), fixture.budget_by_claim()
    checked = Checked(check_forbidden(program, forbid) + check_budget(program, budget), 0)
    for field, claims in (("forbid", forbid), ("budget", budget)):
        for claim in claims:
            text = name_item(field, claim.text)
            why = claim.reason_unbreakable(program.mesh)
            checked += Checked([], 0, Looked(idle={text: why})) if why else Checked([], 1, Looked({text}))
    return checked
