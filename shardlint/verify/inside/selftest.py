"""Faults put in on purpose: a run that does not catch each of them cannot be trusted with the user's."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import jax
import numpy as np

from shardlint.verify import challenge
from shardlint.verify.fixture import Fixture, arg
from shardlint.verify.inside import devices
from shardlint.verify.inside.fixtures import run_fixture
from shardlint.verify.inside.placed_arguments import named_sharding
from shardlint.verify.report import FAIL, PASS, Result
from shardlint.verify.spec import P

MESH = {"data": 2}
_X = arg(shape=(8, 4), spec=P("data"))


def _sound_function(x: Any) -> Any:
    return x + 1


def _replicated_function(x: Any, mesh: Any) -> Any:
    return jax.lax.with_sharding_constraint(x + 1, named_sharding(mesh, P()))


def _wrong_function(x: Any, mesh: Any) -> Any:
    return x * mesh.size


def self_test() -> tuple[list[str], list[str]]:
    """Return the faults that were caught, and those that were missed (each a sentence). It takes two simulated devices
    and about a second.
    """
    caught: list[str] = []
    missed: list[str] = []

    def expect_failure(name: str, fixture: Fixture, level: str, kind: str | None) -> None:
        results: list[Result] = []
        run_fixture(fixture, MESH, [level], results.append)
        result = results[0]
        kinds = {failure.kind for failure in result.failures}
        if kind is None and result.status == PASS:
            return
        if kind is not None and result.status == FAIL and kinds == {kind}:
            caught.append(f"caught {name} ({level})")
            return
        seen = "; ".join(failure.failure_text() for failure in result.failures) or result.reason or result.status
        missed.append(f"{name} ({level}): {seen}")

    specs = {"": P("data")}
    sound = Fixture(jax.jit(_sound_function, donate_argnums=0), [MESH], [_X], specs, donate=(0,))
    expect_failure("a correct program that fails", sound, "compile", None)
    expect_failure(
        "a replicated output", Fixture(_replicated_function, [MESH], [_X], specs), "compile", "sharding"
    )
    dropped = Fixture(jax.jit(lambda x: x.sum(), donate_argnums=0), [MESH], [_X], donate=(0,))
    expect_failure("a dropped donation", dropped, "compile", "donation")
    wrong = Fixture(_wrong_function, [MESH], [_X], reference="single_device")
    expect_failure("a wrong number", wrong, "execute", "numbers")
    return caught, missed


def challenge_answers(seed: str, count: int) -> list[str]:
    """Return the answers of the checks for the programs of a challenge, with `count` devices: for each the trial whose
    fault they find, "" if they find none, else their message.
    """
    sizes = {"data": min(count, 2)}
    found = []
    with _plain_configuration():
        for trial, is_faulty in challenge.trial_programs(seed, count):
            try:
                fixture = _TRIALS[trial](is_faulty, devices.mesh_of(sizes))
                found.append(_run_trial(fixture, sizes, trial))
            except Exception as error:
                found.append(f"{type(error).__name__} raised")
    return found


def _run_trial(fixture: Fixture, sizes: dict[str, int], trial: str) -> str:
    results: list[Result] = []
    run_fixture(fixture, sizes, ["execute"], results.append)
    if len(results) != 1 or results[0].status not in (PASS, FAIL):
        return "nothing"
    kinds = {failure.kind for failure in results[0].failures}
    if (results[0].status == FAIL) != bool(kinds):
        return f"{results[0].status} with {len(kinds)} failures"
    return trial if kinds == {_KINDS[trial]} else ", ".join(sorted(kinds))


# Nothing is compiled: the trials are made in each process, and are to cost it little.
def _placement_fixture(is_faulty: bool, mesh: Any) -> Fixture:
    def place_array(x: Any) -> Any:
        return jax.device_put(np.asarray(x) + 1, named_sharding(mesh, P() if is_faulty else P("data")))

    return Fixture(place_array, [dict(mesh.shape)], [_X], {"": P("data")})


def _number_fixture(is_faulty: bool, mesh: Any) -> Fixture:
    def compute_wrong(x: Any) -> Any:
        return jax.device_put(np.asarray(x) * (3 if is_faulty else 2), named_sharding(mesh, P("data")))

    def compute_right(x: Any) -> Any:
        return np.asarray(x) * 2

    return Fixture(compute_wrong, [dict(mesh.shape)], [_X], reference=compute_right)


def _donation_fixture(is_faulty: bool, mesh: Any) -> Fixture:
    def donate_array(x: Any) -> Any:
        result = jax.device_put(np.asarray(x) + 1, named_sharding(mesh, P("data")))
        if not is_faulty:
            x.delete()
        return result

    return Fixture(donate_array, [dict(mesh.shape)], [_X], donate=(0,))


_TRIALS: dict[str, Callable[[bool, Any], Fixture]] = {
    "placement": _placement_fixture,
    "numbers": _number_fixture,
    "donation": _donation_fixture,
}
_KINDS = {"placement": "sharding", "numbers": "numbers", "donation": "donation"}

# Settings under which sound programs fail, or do not fit in with others'.
_PLAIN = {
    "jax_debug_nans": False,
    "jax_debug_infs": False,
    "jax_disable_jit": False,
    "jax_default_device": None,
    "jax_transfer_guard": None,
    "jax_enable_x64": False,
}


@contextlib.contextmanager
def _plain_configuration() -> Iterator[None]:
    """With jax configured as it is for who configures nothing, whatever the program has done."""
    before = {name: getattr(jax.config, name) for name in _PLAIN if hasattr(jax.config, name)}
    changed = {name: value for name, value in before.items() if value != _PLAIN[name]}
    for name in changed:
        jax.config.update(name, _PLAIN[name])
    try:
        yield
    finally:
        for name, value in changed.items():
            jax.config.update(name, value)
