"""What the SL9 rules do not rewrite says why."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from shardlint.check import Options, check

Write = Callable[..., Path]


@pytest.mark.parametrize(
    ("text", "code", "why"),
    [
        ("import jax\nk = jax.random.shuffle(x, [1])\n", "SL901", "no other name does just that"),
        (
            "from jax.experimental.shard_map import shard_map\ng = shard_map(*args)\n",
            "SL902",
            "a call of it does not show what jax.shard_map asks by name, or another file takes it from this one",
        ),
        (
            "from jax.experimental import maps\nmaps.xmap(f)\nmaps.Mesh(d, n)\n",
            "SL901",
            "not all that is used of the module has another name",
        ),
        ("from jax.experimental.maps import xmap\nxmap(f)\n", "SL901", "there is no mechanical rewrite"),
    ],
)
def test_what_is_not_rewritten_says_why(write: Write, text: str, code: str, why: str) -> None:
    report = check([write({"x.py": text})], Options(select=(code,), targets={"jax": "0.12.0"}))
    (finding, *_) = [finding for file in report.reports for finding in file.findings]
    assert finding.fix is None
    assert finding.help.endswith(why)
