"""The same findings for any order of paths, any subset, any number of processes and any state of the cache."""

from __future__ import annotations

import random
import time
from pathlib import Path

import pytest

import shardlint.engine.workers as workers
from shardlint.config.certainty import Certainty
from shardlint.engine.results import Options
from shardlint.engine.run import check_paths
from tests.conftest import calls_of

pytestmark = pytest.mark.longer

HELPERS = (
    "def place(x):\n    return jax.device_put(x, None)\n",
    "@jax.jit\ndef step(x):\n    return place(x)\n",
    "step = jax.jit(lambda s: s, donate_argnums=0)\n",
    "def train(s):\n    t = step(s)\n    return s + t\n",
    "def enter(mesh):\n    with mesh:\n        return step(1)\n",
    "class Model:\n    def run(self, x):\n        return jax.device_put(x)\n\nmodel = jax.jit(Model().run)\n",
    "@jax.jit\ndef kept(x):\n    return jax.lax.with_sharding_constraint(x, P('data'))\n\nkept(jax.numpy.ones(8))\n",
    "def begin(mesh):\n    jax.set_mesh(mesh)\n",
    "mesh = jax.make_mesh((8,), ('data',), axis_types=(AxisType.Explicit,))\n",
    "mesh = jax.sharding.Mesh(jax.devices(), ('data',))\n",
    "def inside(mesh, x):\n    with mesh:\n        return pjit(lambda y: y, in_shardings=P('data'))(x)\n",
    "def on(x, mesh):\n    return jax.lax.with_sharding_constraint(x, NamedSharding(mesh, P('data')))\n",
)
NAMES = (
    "import jax\nfrom jax.experimental.pjit import pjit\n"
    "from jax.sharding import AxisType, NamedSharding, PartitionSpec as P\n"
)
BROKEN = (
    "def f(:\n",
    "class Broken:\n    def method(self):\n        x = 1\n" + "        y = 2\n" * 20 + "          z = 3\n",
    "def place(x):\n    return (x\n",
)


def project(folder: Path, seed: int) -> list[Path]:
    """Files that import from each other in circles, by stars and through others; some of them cannot be parsed."""
    chance = random.Random(seed)
    names = [f"m{index}" for index in range(6)]
    places = [folder / f"{name}.py" for name in names] + [
        folder / "tests" / "conftest.py",
        folder / "pkg" / "__init__.py",
    ]
    (folder / "shardlint.toml").write_text("")
    for place in places:
        place.parent.mkdir(exist_ok=True)
        imports = [
            f"from {other} import {chance.choice(('*', 'place', 'step', 'train', 'model as step'))}\n"
            for other in chance.sample(names, chance.randrange(3))
        ]
        parts = chance.sample(HELPERS, 4)
        if chance.random() < 0.3:
            parts.append(chance.choice(BROKEN))
        place.write_text(NAMES + "".join(imports) + "\n".join(parts))
    return places


def answer(files: list[Path], cached: bool = False) -> dict[Path, list[tuple[str, int, str, str]]]:
    """The findings by file."""
    report = check_paths(files, Options(certainty=Certainty.POSSIBLE), cached=cached)
    assert not report.failed
    return {
        one.path: [(found.rule.code, found.start, found.message, found.certainty) for found in one.findings]
        for one in report.reports
    }


@pytest.mark.parametrize("seed", range(12))
def test_one_answer(tmp_path: Path, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHARDLINT_CACHE_DIR", str(tmp_path / "cache"))
    folder = tmp_path / "project"
    folder.mkdir()
    files = project(folder, seed)
    chance = random.Random(seed)
    expected = answer(files)
    assert any(expected.values())
    for _ in range(3):
        assert answer(chance.sample(files, len(files))) == expected, "order"
    for file in files:
        assert answer([file]) == {path: told for path, told in expected.items() if path == file}, "subset"
    assert answer(files[3:], cached=True) == {path: expected[path] for path in files[3:] if path in expected}
    assert answer(files, cached=True) == expected, "half-warm"
    assert answer(files, cached=True) == expected, "warm"
    monkeypatch.setattr(workers, "_FILES", 2)
    monkeypatch.setattr(workers, "_count_processors", lambda: 2)
    assert answer(files) == expected, "two processes"


@pytest.mark.parametrize("seed", range(6))
def test_one_answer_after_edits(tmp_path: Path, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHARDLINT_CACHE_DIR", str(tmp_path / "cache"))
    folder = tmp_path / "project"
    folder.mkdir()
    files = project(folder, seed)
    chance = random.Random(seed)
    answer(files, cached=True)
    for _ in range(3):
        changed = chance.choice(files)
        changed.write_text(
            chance.choice(
                (
                    "# moved\n" + changed.read_text(),
                    f"import m{chance.randrange(6)}\n" + changed.read_text(),
                    "def f(:\n",
                    NAMES + chance.choice(HELPERS),
                )
            )
        )
        while time.time_ns() == changed.stat().st_mtime_ns:
            pass
        some = chance.sample(files, 3)
        whole = answer(files)
        assert answer(some, cached=True) == {path: told for path, told in whole.items() if path in some}
        assert answer(files, cached=True) == whole


def nested(depth: int, line: str) -> str:
    head = "import jax\ng = jax.jit(lambda s: s, donate_argnums=0)\ndef run(s, c):\n"
    loops = "".join("    " * (level + 1) + line.format(level) + "\n" for level in range(depth))
    return head + loops + "    " * (depth + 1) + "t = g(s)\n" + "    " * (depth + 1) + "u = s + t\n"


@pytest.mark.parametrize("line", ["for i{} in range(3):", "while c:", "if c > {}:", "with c({}):"])
def test_nesting_costs_its_depth(tmp_path: Path, line: str) -> None:
    file = tmp_path / "x.py"
    file.write_text(nested(40, line))  # by doubling at each level it would take years
    assert "SL220" in [code for code, *_ in answer([file])[file]]


def test_comprehensions_in_each_other_cost_their_depth(tmp_path: Path) -> None:
    inner = "g(s) + s"
    for level in range(40):
        inner = f"[{inner} for i{level} in c for j{level} in c]"
    file = tmp_path / "x.py"
    file.write_text(
        f"import jax\ng = jax.jit(lambda s: s, donate_argnums=0)\ndef run(s, c):\n    return {inner}\n"
    )
    assert "SL220" in [code for code, *_ in answer([file])[file]]


@pytest.mark.parametrize("number", ["0x{0}", "-0x{0}", "0x{0} * 0x{0}", "0x{0} + 1"])
def test_a_number_too_long_to_write_out_is_no_trouble(tmp_path: Path, number: str) -> None:
    large = number.format("f" * 9000)
    file = tmp_path / "x.py"
    file.write_text(
        "import jax\nimport jax.numpy as jnp\nfrom jax.sharding import NamedSharding, PartitionSpec as P\n"
        f"mesh = jax.make_mesh(({large}, 2), ('data', 'model'))\n"
        f"f = jax.jit(lambda x: x, donate_argnums=({large},))\n"
        f"x = jax.device_put(jnp.zeros(({large}, 3)), NamedSharding(mesh, P('data')))\n"
        f"z = jax.device_put(jnp.arange(0, {large}, 1).reshape(-1, {large}), NamedSharding(mesh, P('data')))\n"
        "w = jax.device_put(jnp.arange(-2**63, 2**63, 1), NamedSharding(mesh, P('data')))\n"
        "v = jax.device_put(jnp.zeros((2**63, 2**63)).ravel(), NamedSharding(mesh, P('data')))\n"
        "y = jax.lax.with_sharding_constraint(x, NamedSharding(mesh, P('data', 'model')))\n"
    )
    answer([file])


SHARDED = (
    "import jax\nfrom jax.sharding import NamedSharding, PartitionSpec as P\n"
    "mesh = jax.make_mesh((8,), ('d',))\nu = NamedSharding(mesh, P('d'))\n\ndef run(s, t, c):\n"
)


@pytest.mark.parametrize(
    "line",
    [
        "    if c == {0}:\n        s = jax.device_put(s, u)\n",
        "    s = jax.device_put(s, u)\n",
        "    s, t = t, jax.device_put(s, u)\n",
    ],
)
def test_names_bound_again_and_again_cost_their_number(tmp_path: Path, line: str) -> None:
    file = tmp_path / "x.py"
    answer([file.parent])  # what the first run loads
    calls = []
    for number in (200, 400):
        file.write_text(SHARDED + "".join(line.format(index) for index in range(number)) + "    return s\n")
        calls.append(calls_of(lambda: answer([file])))
    assert calls[1] < 3 * calls[0], "by the square of it, it would be 4 times"


def test_what_is_bound_in_too_many_places_is_not_known(tmp_path: Path) -> None:
    """Neither that a function is called, nor that it is not."""
    file = tmp_path / "x.py"
    other = "    if c == {0}:\n        step = other\n"
    text = (
        "import jax\nfrom jax.sharding import PartitionSpec as P\n\ndef run(c, other, x):\n"
        "    @jax.jit\n    def step(x):\n        return jax.lax.with_sharding_constraint(x, P('d'))\n"
    )
    said = []
    for count in (3, 40):
        file.write_text(
            text + "".join(other.format(index) for index in range(count)) + "    return step(x)\n"
        )
        said.append(answer([file]).get(file, []))
    assert [code for code, *_ in said[1]] in ([], [code for code, *_ in said[0]])
