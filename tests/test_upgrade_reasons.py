"""Tests of the reasons why rules do not rewrite some code."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from shardlint.config.certainty import Certainty
from shardlint.engine.results import Options
from shardlint.engine.run import check_paths

Write = Callable[..., Path]


@pytest.mark.parametrize(
    ("text", "code", "why"),
    [
        ("import jax\nk = jax.random.shuffle(x, [1])\n", "SL901", "no other function does the same"),
        (
            "from jax.experimental.shard_map import shard_map\ng = shard_map(*args)\n",
            "SL902",
            "a call of it hides its arguments, or another file imports it from here",
        ),
        (
            "from jax.experimental import maps\nmaps.xmap(f)\nmaps.Mesh(d, n)\n",
            "SL901",
            "some names used of the module have no replacement",
        ),
        ("from jax.experimental.maps import xmap\nxmap(f)\n", "SL901", "there is no mechanical rewrite"),
    ],
)
def test_what_is_not_rewritten_says_why(write: Write, text: str, code: str, why: str) -> None:
    report = check_paths([write({"x.py": text})], Options(select=(code,), targets={"jax": "0.12.0"}, certainty=Certainty.POSSIBLE))
    (finding, *_) = [finding for file in report.reports for finding in file.findings]
    assert finding.fix is None
    assert finding.help.endswith(why)


HEAD = """\
import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P

mesh = Mesh(np.array(jax.devices()), ("data",))
row = NamedSharding(mesh, P("data"))
x = np.ones(8)
"""


@pytest.mark.parametrize(
    ("text", "code", "why"),
    [
        ("jax.device_put(x + 1, row)\n", "SL203", "`x + 1` is not a variable"),
        (
            "def f(y):\n    y = y + 1\n    jax.device_put(y, row)\n",
            "SL203",
            "nothing below reads `y`",
        ),
        (
            "def f(y):\n    z = jax.device_put(y, row)\n    return y\n",
            "SL203",
            "shardlint does not know which name below should hold the placed array",
        ),
        ("jax.set_mesh\njax.sharding.use_mesh(mesh)\n", "SL203", "shardlint does not know which statements belong in the `with` block"),
        (
            "f = jax.jit(lambda a, b: a, in_shardings=(row,))\n",
            "SL210",
            "the code does not show which sharding belongs to which argument",
        ),
        ('s = NamedSharding(mesh, P("tensor"))\n', "SL301", "shardlint cannot tell which axis is meant"),
        (
            'jax.shard_map(lambda a, b: a, mesh=mesh, in_specs=(P("data"),), out_specs=P())(x, x)\n',
            "SL405",
            "the code does not show which spec belongs to which value",
        ),
        ("jax.canonicalize_dtype(x)\n", "SL905", "the name is similar, and the behaviour may differ"),
    ],
)
def test_what_has_no_fix_says_why(write: Write, text: str, code: str, why: str) -> None:
    report = check_paths([write({"x.py": HEAD + text})], Options(select=(code,), targets={"jax": "0.12.0"}, certainty=Certainty.POSSIBLE))
    (finding, *_) = [finding for file in report.reports for finding in file.findings]
    assert finding.fix is None
    assert f"no automatic fix: {why}" in finding.help
