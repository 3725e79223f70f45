"""`shardlint verify --init module:function`: a fixture to be filled in, from the text of a function."""

from __future__ import annotations

from pathlib import Path

import pytest

from shardlint.run.init.skeleton import write_skeleton
from shardlint.run.init.start import write_fixtures
from shardlint.verify.cannot_run import CannotRun

TRAIN = """
import jax
from functools import partial
from jaxtyping import Array, Float, Int
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P

mesh = jax.make_mesh((4, 2), ("data", "model"))
hidden = NamedSharding(mesh, P("data", "model"))

@partial(jax.jit, donate_argnums=(0,), static_argnames="power")
def step(params: dict, x: Float[Array, "batch 128"], tokens: Int[Array, "batch seq+1"], y: jax.Array, power: int = 2, mesh=None):
    return params

def forward(x: Float[Array, "batch 8"]):
    return x

placed = jax.jit(forward, in_shardings=NamedSharding(mesh, P("data")), out_shardings=(NamedSharding(mesh, P(("data", "model"))), hidden))
unknown = make(forward)

class Trainer:
    @jax.jit
    def loss(self, x):
        return x
"""


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "src" / "proj").mkdir(parents=True)
    (tmp_path / "src" / "proj" / "train.py").write_text(TRAIN)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        (
            "step",
            [
                'fn="proj.train:step"',
                'meshes=[{"data": 4, "model": 2}]',
                "BATCH = 16  # FILL_IN",
                "def params():",
                'raise NotImplementedError("FILL_IN: return params: dict")',
                'arg(params, specs={"**": P("FILL_IN")}),',
                'arg(shape=(BATCH, 128), dtype="float32", spec=P("FILL_IN")),',
                'arg(shape=(BATCH, SEQ_1), dtype="int32", spec=P("FILL_IN")),',
                'arg(shape=(Y_SIZE,), dtype="float32", spec=P("FILL_IN")),',
                "arg(lambda: 2),  # power",
                "donate=(0,),",
                '"**": P("FILL_IN"),',
            ],
        ),
        (
            "placed",
            ['spec=P("data")),  # x: Float', '"0/**": P(("data", "model")),', '"1/**": P("FILL_IN"),'],
        ),
        ("unknown", ["args=[\n    ],", '"**": P("FILL_IN"),']),
        ("Trainer.loss", ["def self():", "Trainer_loss = Fixture(", 'arg(x, specs={"**": P("FILL_IN")}),']),
    ],
)
def test_what_is_written(project: Path, name: str, expected: list[str]) -> None:
    text = write_skeleton(f"proj.train:{name}", project)
    compile(text, "fx.py", "exec")
    for part in expected:
        assert part in text, text
    assert "mesh()" not in text


def test_axes_come_from_specs_where_no_mesh_is_built(project: Path) -> None:
    file = project / "step.py"
    file.write_text("from jax.sharding import PartitionSpec as P\nSPEC = P('fsdp', ('a', 'b'))\ndef f(x): ...\n")
    assert 'meshes=[{"fsdp": 2, "a": 2, "b": 2}],  # choose the sizes' in write_skeleton("step:f", project)
    file.write_text("def f(x): ...\n")
    assert 'meshes=[{"data": 8}],  # FILL_IN' in write_skeleton("step:f", project)


def test_the_file_and_what_is_not_there(project: Path) -> None:
    said, _ = write_fixtures(["proj.train:placed"], None, 60, "python")
    assert said[0].startswith("wrote placed_fixture.py, an unfinished fixture of proj.train:placed: fill in")
    for reference, why in [
        ("proj.train:placed", "placed_fixture.py exists"),
        ("proj.train:nothing", "defines no nothing"),
        ("proj.other:step", "proj/other.py does not exist here"),
    ]:
        with pytest.raises(CannotRun, match=why):
            write_fixtures([reference], None, 60, "python")
