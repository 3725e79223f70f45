"""The layouts and errors that are predicted of generated programs are those of jax."""

from __future__ import annotations

import pytest

from tests.layouts.compare import compare
from tests.programs import release, skip_without

skip_without("jax")


# Each program takes a tenth of a second in jax, and starting it two; `make soundness` runs many more.
@pytest.mark.parametrize(
    ("first", "seeds"),
    [
        (100_000, 12),
        pytest.param(200_000, 400, marks=pytest.mark.longer),
    ],
)
def test_what_is_predicted_is_what_jax_does(first: int, seeds: int) -> None:
    outcome = compare(range(first, first + seeds), (*release("jax"), 0))
    assert not outcome.wrong, outcome.wrong[0]
    assert outcome.errors > seeds // 4 and outcome.predicted >= 0.7 * outcome.errors, outcome.missed
    assert outcome.known >= 0.75 * outcome.arrays, str(outcome)


def test_programs_are_the_same_for_a_seed_and_differ_between_seeds() -> None:
    from tests.layouts.generated import program

    assert program(1) == program(1) != program(2)
