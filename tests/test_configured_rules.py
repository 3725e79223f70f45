"""Tests of settings in configuration files, which count for any model that may run under them."""

from __future__ import annotations

from pathlib import Path

import pytest

from shardlint.config.certainty import Certainty
from shardlint.engine.results import Options
from shardlint.engine.run import check_paths
from tests.conftest import Write

MODEL = """
import flax.linen as nn
import jax


class Queries(nn.Module):
    @nn.compact
    def __call__(self, x):
        init = nn.initializers.normal(0.02)
        return x @ self.param("a", nn.with_logical_partitioning(init, ("q_lora", "heads")), (8, 8))


def train(config, mesh, step, state):
    with jax.set_mesh(mesh), nn.logical_axis_rules(config.logical_axis_rules):
        return step(state)
"""
COLLIDE = 'logical_axis_rules: [["q_lora", "fsdp"], ["heads", "fsdp"]]\n'
APART = 'logical_axis_rules: [["q_lora", "fsdp"], ["heads", "tensor"]]\n'
OTHER = 'logical_axis_rules: [["conv_in", "fsdp"], ["conv_out", "fsdp"]]\n'


@pytest.mark.parametrize(
    ("configs", "certainty"),
    [
        ([COLLIDE], Certainty.PROVEN),
        ([COLLIDE, COLLIDE], Certainty.PROVEN),
        ([COLLIDE, OTHER], Certainty.PROVEN),
        ([COLLIDE, APART], None),
        ([APART, OTHER], None),
    ],
)
def test_names_that_collide_in_some_configurations(
    write: Write, configs: list[str], certainty: Certainty | None
) -> None:
    root = write({"m.py": MODEL, **{f"configs/{n}.yml": text for n, text in enumerate(configs)}})
    report = check_paths([root], Options(certainty=Certainty.POSSIBLE, select=("SL518",)))
    assert [one.certainty for file in report.reports for one in file.findings] == (
        [certainty] if certainty is not None else []
    )


OWN_MESH = """\
import jax
from jax.sharding import NamedSharding, PartitionSpec as P
{imported}

mesh = {made}
weights = NamedSharding(mesh, P("data", "{axis}"))
with {made}:
    x = jax.lax.with_sharding_constraint(jax.numpy.zeros(8), P("{axis}"))
"""


@pytest.mark.parametrize(
    ("imported", "made"),
    [
        ("from meshes import build", "build(cfg, devices)"),
        ("import meshes", "meshes.build()"),
        ("from meshes import Config", "Config.from_flags(flags)"),
        ("from acme.topology import lay_out", "lay_out()"),
    ],
)
def test_meshes_of_own_makers(write: Write, imported: str, made: str) -> None:
    meshes = """\
        import registry

        def build(cfg=None, devices=None):
            return registry.lookup("mesh")(devices)

        class Config:
            @classmethod
            def from_flags(cls, flags):
                return registry.lookup("mesh")(flags)

            def build(self):
                return None
        """
    makers = [
        f"'{name}' = ['data', 'model']" for name in ("meshes.build", "meshes.Config.from_flags", "acme.topology.lay_out")
    ]
    text = OWN_MESH.format(imported=imported, made=made, axis="modle")
    root = write({"meshes.py": meshes, "a.py": text, "b.py": OWN_MESH.format(imported=imported, made=made, axis="model")})
    assert _axes_told(root) == []
    (root / "shardlint.toml").write_text("[mesh-makers]\n" + "\n".join(makers))
    assert _axes_told(root) == [("a.py", 6), ("a.py", 8)]


def _axes_told(root: Path) -> list[tuple[str, int]]:
    report = check_paths([root], Options(select=("SL301",)))
    for file in report.reports:
        assert all(one.message.endswith('has no axis "modle".') for one in file.findings)
    return [(file.path.name, file.source.position_of(one.start)[0]) for file in report.reports for one in file.findings]
