"""A test that a program's process is put to after it has told its results: small programs, sound ones and faulty
ones, that its checks must tell apart still. In which order they come, nobody knows before. No jax.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

TRIALS = ("placement", "numbers", "donation")
_NEEDS_TWO = "placement"


def new_seed() -> str:
    """A seed nobody can know before."""
    return f"{random.SystemRandom().getrandbits(64):016x}"


def trial_programs(seed: str, devices: int) -> list[tuple[str, bool]]:
    """The programs in their order: the trial each is of, and whether it is the faulty one."""
    chosen = [(trial, bad) for trial in TRIALS for bad in (False, True) if devices > 1 or trial != _NEEDS_TWO]
    random.Random(seed).shuffle(chosen)
    return chosen


def explain_missed(seed: str, devices: int, answers: Any) -> str:
    """Return the mistake in the answers (for each program the trial whose fault was seen, "" for none), as a sentence;
    "" for none.
    """
    wanted = trial_programs(seed, devices)
    if not isinstance(answers, Sequence) or len(answers) != len(wanted):
        return "it did not answer"
    for (trial, is_faulty), said in zip(wanted, answers, strict=True):
        if is_faulty and said != trial:
            return f"a program with wrong {trial} {f'was reported as {said}' if said else 'passed'}"
        if not is_faulty and said:
            return f"a correct program failed ({said})"
    return ""
