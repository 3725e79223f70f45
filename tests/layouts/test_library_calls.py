"""Predicted results of functions of optax, flax, einops and equinox, compared with the real ones. Each line is one
call.
"""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path

import pytest

from tests.layouts.compare import Outcome, note, observe
from tests.programs import release, skip_without

skip_without("jax")

HEAD = """\
import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import AxisType, NamedSharding, PartitionSpec as P

mesh = jax.make_mesh((2, 4), ("a", "b"), axis_types=(AxisType.Explicit,) * 2)
x, y, n = jnp.ones((8, 16)), jnp.ones((4, 8, 8)), jnp.arange(4)
"""
PLACED = "x, y = (jax.device_put(one, NamedSharding(mesh, P())) for one in (x, y))\n"
CALLS = Path(__file__).parents[1] / "data" / "library_calls.txt"


def _calls() -> dict[str, list[str]]:
    """The calls by the library that they need."""
    found: dict[str, list[str]] = {}
    for line in CALLS.read_text("utf-8").splitlines():
        if line.startswith("# "):
            found[line[2:]] = calls = []
        elif line:
            calls.append(line)
    return found


def _text(library: str, placed: str) -> str:
    # Before jax 0.12 this init does not run where arrays on Explicit axes are placed outside of `jax.set_mesh`.
    refused = "adafactor(1e-3, multiply_by_parameter_scale" if placed and release("jax") < (0, 12) else "\n"
    lines = [
        line if line.startswith(("import ", "from ")) or re.match(r"\w+ = ", line) else f"r = {line}"
        for line in _calls()[library]
        if refused not in line
    ]
    return HEAD + placed + "\n".join(lines) + "\n"


@pytest.mark.parametrize("placed", ["", PLACED], ids=["new", "placed"])
def test_what_is_predicted_of_calls_is_what_they_give(placed: str) -> None:
    texts = [_text(one, placed) for one in _calls() if importlib.util.find_spec(one.partition(".")[0])]
    for text, seen in zip(texts, observe(texts), strict=True):
        assert not seen["error"], seen
        outcome = Outcome()
        note(outcome, text, seen, (*release("jax"), 0))
        assert not outcome.wrong, outcome.wrong[0]
        assert outcome.known >= 0.9 * outcome.arrays, (str(outcome), outcome.unknown)
