"""What configuration files say counts for a model that runs under it: which of several that is, no text tells."""

from __future__ import annotations

import pytest

from shardlint.config.certainty import Certainty
from shardlint.engine.results import Options
from shardlint.engine.run import check
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
        ([COLLIDE, APART], Certainty.POSSIBLE),
        ([APART, OTHER], None),
    ],
)
def test_names_that_collide_in_some_configurations(
    write: Write, configs: list[str], certainty: Certainty | None
) -> None:
    root = write({"m.py": MODEL, **{f"configs/{n}.yml": text for n, text in enumerate(configs)}})
    report = check([root], Options(certainty=Certainty.POSSIBLE, select=("SL518",)))
    assert [one.certainty for file in report.reports for one in file.findings] == (
        [certainty] if certainty is not None else []
    )
