"""Predictions about expressions of einshard, compared with einshard."""

from __future__ import annotations

import random

from tests.layouts.compare import observe, predicted
from tests.programs import release, skip_without

skip_without("jax")
skip_without("einshard")
HEAD = "import jax\nimport jax.numpy as jnp\nfrom einshard import einshard, make_sharding\n\n"


def expression(chance: random.Random, rank: int) -> str:
    """An expression for an array of some rank, which may not fit."""
    names = ["a", "b", "c", "d"][: rank + (chance.random() < 0.1)]
    left = list(names)
    if chance.random() < 0.25:
        left[chance.randrange(len(left))] = "..."
    right = [one if one == "..." or chance.random() < 0.6 else one + chance.choice(("2", "4", "2*", "")) for one in left]
    if chance.random() < 0.6:
        right = list(left)
        right[chance.randrange(len(right))] += "*" if chance.random() < 0.95 else "**"
    if chance.random() < 0.3:
        right.insert(chance.randrange(len(right) + 1), chance.choice(("2", "*", "4", "x")))
    if chance.random() < 0.1:
        right.pop()
    if chance.random() < 0.1:
        right.reverse()
    if right and chance.random() < 0.05:
        right[0] += ","
    return f"{' '.join(left)} -> {' '.join(right)}"


def program(seed: int) -> str:
    """A program that places an array, or makes a sharding and places by it."""
    chance = random.Random(seed)
    shape = tuple(chance.choice((4, 6, 8, 16)) for _ in range(chance.randint(1, 3)))
    text = expression(chance, len(shape))
    rank = f", n_dims={len(shape)}" if "..." in text and chance.random() < 0.9 else ""
    if chance.random() < 0.3:
        return f'{HEAD}s = make_sharding("{text}"{rank})\ny = jax.device_put(jnp.ones({shape}), s)\n'
    return f'{HEAD}y = einshard(jnp.ones({shape}), "{text}")\n'


def test_what_is_predicted_of_einshard_is_what_it_does() -> None:
    texts = [program(seed) for seed in range(200)]
    told, errors, known = 0, 0, 0
    for text, seen in zip(texts, observe(texts), strict=True):
        found = predicted(text, (*release("jax"), 0))
        broken = {one.kind for one in found.broken}
        assert not broken or seen["error"], text
        if seen["error"]:
            # How many devices there are is not known, so neither is what a star leaves, nor whether it divides a size.
            asks = seen["error"] == "IndivisibleError" or "Number of devices" in seen["said"] or "*" in text
            errors += not asks or bool(broken)
            told += bool(broken)
            continue
        for line, actual in seen["arrays"].items():
            array = found.arrays[line]
            assert array.spec is not None and [list(one or ()) for one in array.spec] == actual["spec"], text
            assert array.shape == tuple(actual["shape"]) and array.committed == actual["committed"], text
            known += 1
    assert known > 40 and told > 80 and told > 0.95 * errors, (known, told, errors)
