"""Declarations of a fixture, item by item, and the levels that can check each. An item that no level checks fails."""

from __future__ import annotations

from dataclasses import dataclass

from shardlint.verify.fixture import EXPLICIT, Fixture

REPLICATED, REFERENCE, MEMORY, HBM = "replicated_bytes_max", "reference", "memory_max", "hbm_max"
_PLACED = ("trace", "compile", "execute", "processes", "topology")


@dataclass(frozen=True)
class Declaration:
    """One item, such as `forbid 'any over data'`, and the levels that can check it."""

    text: str
    levels: tuple[str, ...]


def name_item(field: str, value: object) -> str:
    """How an item of a field that holds several is named: `out '0/w1'`, `donate 0`."""
    return f"{field} {value!r}"


def list_declarations(fixture: Fixture) -> list[Declaration]:
    """Everything a fixture declares that has to hold of its function."""
    found = [Declaration(name_item("out", glob), _PLACED) for glob in fixture.out]
    found += [Declaration(name_item("gradients", glob), ("compile",)) for glob in fixture.gradients]
    if fixture.replicated_bytes_max is not None:
        found.append(Declaration(REPLICATED, ("trace", "compile", "execute", "topology")))
    found += [
        Declaration(name_item("donate", index), ("compile", "execute", "processes", "topology"))
        for index in fixture.donate
    ]
    for claims, field in ((fixture.forbid, "forbid"), (fixture.budget, "budget")):
        found += [Declaration(name_item(field, text.strip()), ("compile", "topology")) for text in claims]
    if fixture.memory_max is not None:
        found.append(Declaration(MEMORY, ("compile",)))
    if fixture.hbm_max is not None:
        found.append(Declaration(HBM, ("topology",)))
    if fixture.reference is not None:
        found.append(Declaration(REFERENCE, ("execute",)))
    return found


def natural_levels(fixture: Fixture) -> list[str]:
    """The levels that one process with simulated devices takes a fixture through when nothing else is asked for."""
    return [
        *(["trace"] if fixture.axis_types == EXPLICIT else []),
        "compile",
        *(["execute"] if fixture.execute else []),
    ]
