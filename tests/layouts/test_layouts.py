"""The layouts and errors that are predicted of generated programs are those of jax."""

from __future__ import annotations

import pytest

from tests.layouts.compare import compare
from tests.programs import release, skip_without

skip_without("jax")
SEEDS = 60


@pytest.mark.parametrize("first", [100_000, 200_000])
def test_what_is_predicted_is_what_jax_does(first: int) -> None:
    outcome = compare(range(first, first + SEEDS), (*release("jax"), 0))
    assert not outcome.wrong, outcome.wrong[0]
    assert outcome.errors > 20 and outcome.predicted >= 0.9 * outcome.errors, outcome.missed
    assert outcome.known >= 0.75 * outcome.arrays, str(outcome)


def test_programs_are_the_same_for_a_seed_and_differ_between_seeds() -> None:
    from tests.layouts.generated import program

    assert program(1) == program(1) != program(2)
