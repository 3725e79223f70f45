"""Logical axis rules from code and from YAML."""

from __future__ import annotations

from pathlib import Path

import pytest

from shardlint.facts.logical_rules import project_rules
from shardlint.model import Program
from tests.conftest import Write

TRAIN = """
    import flax.linen as nn

    def train(config, mesh, step):
        with mesh, nn.logical_axis_rules({given}):
            step()
    """


def rules(root: Path) -> list[tuple[str, tuple[str, ...]]] | None:
    found = project_rules(Program(root), root / "train.py")
    return None if found is None else [rule for one in found for rule in one.rules]


@pytest.mark.parametrize(
    ("given", "found"),
    [
        ("[('batch', 'data'), ('embed', None)]", [("batch", ("data",)), ("embed", ())]),
        ("(('batch', ('data', 'fsdp')),)", [("batch", ("data", "fsdp"))]),
        ("config.rules", None),
        ("[('batch', config.axis)]", None),
        ("{'batch': 'data'}", None),
    ],
)
def test_rules_in_code(write: Write, given: str, found: object) -> None:
    assert rules(write({"train.py": TRAIN.format(given=given)})) == found


def test_rules_in_tests_do_not_count(write: Write) -> None:
    other = TRAIN.format(given="config.rules")
    root = write(
        {
            "train.py": TRAIN.format(given="[('batch', 'data')]"),
            "tests/test_train.py": "import train\n" + other.lstrip(),
        }
    )
    assert rules(root) == [("batch", ("data",))]


@pytest.mark.parametrize(
    ("config", "found"),
    [
        ("logical_axis_rules: [['batch', ['data', 'fsdp']], # rows\n  ['norm', []],\n  ['kv', null]]\n",
         [("batch", ("data", "fsdp")), ("norm", ()), ("kv", ())]),
        ("a: 1\nvae_logical_axis_rules: [['conv', 'fsdp']]\nb: [2]\n", [("conv", ("fsdp",))]),
        ("logical_axis_rules: [[batch, data]]\n", [("batch", ("data",))]),
        ("a: !tag\nb:\n  logical_axis_rules:\n  - [batch, data]\n  # none\n  - - kv\n    - null\nc: [\n",
         [("batch", ("data",)), ("kv", ())]),
        ("logical_axis_rules: {batch: data, kv: null}\n", [("batch", ("data",)), ("kv", ())]),
        ("logical_axis_rules: [['batch', 'data']\n", None),
        ("logical_axis_rules: [['batch']]\n", None),
        ("logical_axis_rules: [['batch', 5]]\n", None),
        ("other: 1\n", None),
    ],
)  # fmt: skip
def test_rules_in_yaml_stand_for_the_attribute_of_their_name(
    write: Write, config: str, found: object
) -> None:
    root = write({"train.py": TRAIN.format(given="config.logical_axis_rules"), "configs/base.yml": config})
    assert rules(root) == found


def test_rules_in_toml(write: Write) -> None:
    config = '[sharding]\nlogical_axis_rules = [["batch", ["data", "fsdp"]], ["kv", []]]\n'
    root = write({"train.py": TRAIN.format(given="config.logical_axis_rules"), "conf/base.toml": config})
    assert rules(root) == [("batch", ("data", "fsdp")), ("kv", ())]


def test_rules_that_another_file_reads_are_not_taken(write: Write) -> None:
    root = write({"train.py": TRAIN.format(given="tuned(config)"), "a.yml": "logical_axis_rules: [[a, b]]\n"})
    assert rules(root) is None
    root = write({"train.py": TRAIN.format(given="tuned(config['logical_axis_rules'])")})
    assert rules(root) == [("a", ("b",))]
