"""`shardlint verify --init` of programs in packages: the names and the folder by which their fixtures find them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.longer

STEP = """\
import jax
import jax.numpy as jnp

from .losses import squared


@jax.jit
def step(w, x):
    return w - 0.1 * jax.grad(squared)(w, x)
"""
LOSSES = """\
import jax.numpy as jnp


def squared(w, x):
    return jnp.mean((x @ w) ** 2)
"""
MAIN = """\
import jax
import jax.numpy as jnp
from jax.sharding import NamedSharding, PartitionSpec as P


def main():
    mesh = jax.make_mesh((8,), ("data",))
    x = jax.device_put(jnp.ones((16, 4)), NamedSharding(mesh, P("data")))
    step(jax.device_put(jnp.ones((4, 4)), NamedSharding(mesh, P())), x)


if __name__ == "__main__":
    main()
"""
TRAIN = STEP + "\n\n" + MAIN
LIBRARY = {"losses.py": LOSSES, "steps.py": STEP, "__main__.py": f"from .steps import step\n{MAIN}"}


def shardlint(folder: Path, *words: str, path: str = "") -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "shardlint", *words],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": path} if path else None,
        capture_output=True,
        text=True,
        timeout=540,
    )


def write(folder: Path, files: dict[str, str]) -> None:
    folder.mkdir(parents=True)
    for name, text in {"__init__.py": "", **files}.items():
        folder.joinpath(name).write_text(text)


@pytest.mark.parametrize(
    ("package", "here", "command", "reference", "file"),
    [
        pytest.param("pk", ".", ["-m", "pk.train"], "pk.train:step", "sharding_fixtures.py", id="module"),
        pytest.param("pk", ".", [sys.executable, "-m", "pk"], "pk.steps:step", "sharding_fixtures.py", id="package"),
        pytest.param("src/pk", ".", ["-m", "pk.train"], "pk.train:step", "sharding_fixtures.py", id="src"),
        pytest.param("pk", "jobs", ["-m", "pk.train"], "pk.train:step", "../sharding_fixtures.py", id="subfolder"),
    ],
)
def test_a_module_is_named_as_it_is_imported(
    tmp_path: Path, package: str, here: str, command: list[str], reference: str, file: str
) -> None:
    write(tmp_path / package, {"losses.py": LOSSES, "train.py": TRAIN} if "train" in command[-1] else LIBRARY)
    tmp_path.joinpath(here).mkdir(exist_ok=True)
    path = str((tmp_path / package).parent)
    ended = shardlint(tmp_path / here, "verify", "--init", "--", *command, path=path)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    fixtures = (tmp_path / here / file).resolve()
    assert f'fn="{reference}"' in fixtures.read_text()
    assert fixtures.with_suffix(".golden").is_dir()
    # Without the path that the program was started with.
    again = shardlint(tmp_path, "verify", str(fixtures.relative_to(tmp_path)))
    assert again.returncode == 0, again.stdout


def test_a_function_without_a_fixture_is_no_success(tmp_path: Path) -> None:
    broken = f"import os\n\nif 'SHARDLINT_RUN_RECORD' not in os.environ:\n    raise ImportError('no such card')\n\n{TRAIN}"
    write(tmp_path / "pk", {"losses.py": LOSSES, "train.py": broken})
    ended = shardlint(tmp_path, "verify", "--init", "--", "-m", "pk.train")
    assert ended.returncode == 1, ended.stdout + ended.stderr
    assert "pk.train:step: no fixture: raised ImportError: no such card" in ended.stdout
    assert "goldens" not in ended.stdout


BLOCKS = """\
import jax
import jax.numpy as jnp


def make_blocks(width=16):
    zeros = lambda *shape: jnp.zeros(shape) + 0.1
    layer = lambda: {"up": {"w": zeros(width, 64), "b": zeros(64)}, "down": {"w": zeros(64, width), "b": zeros(width)}}
    return {f"block_{at}": layer() for at in range(2)}


def apply_blocks(params, x):
    for one in params.values():
        x = x + jax.nn.gelu(x @ one["up"]["w"] + one["up"]["b"]) @ one["down"]["w"] + one["down"]["b"]
    return x
"""
TRAIN_BLOCKS = """\
import functools

import jax
import jax.numpy as jnp
import optax
from jax.sharding import AxisType, NamedSharding, PartitionSpec as P

from .blocks import apply_blocks, make_blocks

optimizer = optax.adam(1e-3)


@functools.partial(jax.jit, donate_argnums=(0, 1))
def step(params, state, x):
    grads = jax.grad(lambda params: jnp.mean(apply_blocks(params, x) ** 2))(params)
    updates, state = optimizer.update(grads, state)
    return optax.apply_updates(params, updates), state


def place(mesh, path, leaf):
    names = jax.tree_util.keystr(path)
    spec = P(None, "model") if leaf.ndim == 2 else P("model") if leaf.ndim else P()
    return jax.device_put(leaf, NamedSharding(mesh, spec if "up" in names else P("model") if leaf.ndim == 2 else P()))


def main():
    mesh = jax.make_mesh((4, 2), ("data", "model"), axis_types=(AxisType.Auto,) * 2)
    params = jax.tree_util.tree_map_with_path(functools.partial(place, mesh), make_blocks())
    state = jax.tree_util.tree_map_with_path(functools.partial(place, mesh), optimizer.init(params))
    step(params, state, jax.device_put(jnp.ones((8, 16)), NamedSharding(mesh, P("data"))))


if __name__ == "__main__":
    main()
"""


def test_the_specs_of_two_blocks_are_few_formatted_lines(tmp_path: Path) -> None:
    pytest.importorskip("optax")
    write(tmp_path / "pk", {"blocks.py": BLOCKS, "train.py": TRAIN_BLOCKS})
    ended = shardlint(tmp_path, "verify", "--init", "--", "-m", "pk.train")
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert "2 fixtures (step, program), which pass" in ended.stdout
    text = (tmp_path / "sharding_fixtures.py").read_text()
    assert sum("P(" in line for line in text.splitlines()) <= 15, text
    formatted = ["ruff", "format", "--check", "--isolated", "--line-length", "110", "sharding_fixtures.py"]
    checked = subprocess.run([sys.executable, "-m", *formatted], cwd=tmp_path, capture_output=True, text=True)
    assert checked.returncode == 0, checked.stdout + text
    train = tmp_path / "pk" / "train.py"
    train.write_text(TRAIN_BLOCKS.replace("donate_argnums=(0, 1)", "donate_argnums=0"))
    assert shardlint(tmp_path, "verify", "sharding_fixtures.py::step", "--level", "compile").returncode == 1
