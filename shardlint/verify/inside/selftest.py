"""Faults put in on purpose: a run that does not catch each of them cannot be trusted with the user's."""

from __future__ import annotations

from typing import Any

import jax

from shardlint.verify.fixture import Fixture, arg
from shardlint.verify.inside.fixtures import run_fixture
from shardlint.verify.inside.place import named
from shardlint.verify.report import FAIL, PASS, Result
from shardlint.verify.spec import P

MESH = {"data": 2}
_X = arg(shape=(8, 4), spec=P("data"))


def _sound(x: Any) -> Any:
    return x + 1


def _replicated(x: Any, mesh: Any) -> Any:
    return jax.lax.with_sharding_constraint(x + 1, named(mesh, P()))


def _wrong(x: Any, mesh: Any) -> Any:
    return x * mesh.size


def self_test() -> tuple[list[str], list[str]]:
    """What was caught, and what was not (each a sentence). Takes two simulated devices and about a second."""
    caught: list[str] = []
    missed: list[str] = []

    def expect(name: str, fixture: Fixture, level: str, kind: str | None) -> None:
        results: list[Result] = []
        run_fixture(fixture, MESH, [level], results.append)
        result = results[0]
        kinds = {failure.kind for failure in result.failures}
        if kind is None and result.status == PASS:
            return
        if kind is not None and result.status == FAIL and kinds == {kind}:
            caught.append(f"caught {name} ({level})")
            return
        seen = "; ".join(failure.text() for failure in result.failures) or result.reason or result.status
        missed.append(f"{name} ({level}): {seen}")

    specs = {"": P("data")}
    sound = Fixture(_sound, [MESH], [_X], specs, donate=(0,))
    expect("a sound program taken for a bad one", sound, "compile", None)
    expect("a replicated output", Fixture(_replicated, [MESH], [_X], specs), "compile", "sharding")
    dropped = Fixture(jax.jit(lambda x: x.sum(), donate_argnums=0), [MESH], [_X], donate=(0,))
    expect("a dropped donation", dropped, "compile", "donation")
    wrong = Fixture(_wrong, [MESH], [_X], reference="single_device")
    expect("a wrong number", wrong, "execute", "numbers")
    return caught, missed
