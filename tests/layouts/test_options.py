"""Options of a program are unknown, and then what they are by default: what that breaks is likely, not proven."""

from __future__ import annotations

import pytest

from shardlint.engine.results import Options
from shardlint.engine.run import check_paths
from tests.conftest import Write

HEAD = """\
import argparse, os
import click, fire, typer, tyro
import jax
import jax.numpy as jnp
from absl import app, flags
from dataclasses import dataclass
from jax.sharding import NamedSharding, PartitionSpec as P

mesh = jax.make_mesh((8,), ("data",))


def place(size):
    return jax.device_put(jnp.ones((size, 4)), NamedSharding(mesh, P("data")))


"""
ARGPARSE = """\
def main():
    parser = argparse.ArgumentParser()
    group = parser.add_argument_group("sizes")
    group.add_argument("-b", "--batch-size", {})
    args = parser.parse_args()
    place(args.batch_size)


if __name__ == "__main__":
    main()
"""
FUNCTION = """\
def main(batch: int = {}):
    place(batch)


"""
FLAG = """\
flags.DEFINE_integer("batch", {}, "rows")
FLAGS = flags.FLAGS


def main(argv):
    place(FLAGS.batch)


if __name__ == "__main__":
    app.run(main)
"""
CLICK = """\
@click.command()
@click.option("--batch", "batch_size", type=int, default={})
def main(batch_size):
    place(batch_size)


if __name__ == "__main__":
    main()
"""
CONFIG = """\
@dataclass
class Config:
    batch: int = {}


config = tyro.cli(Config)
place(config.batch)
"""
PROGRAMS = {
    "argparse": ARGPARSE.format("type=int, default={}"),
    "text": ARGPARSE.format('default="{}", type=int'),
    "set_defaults": ARGPARSE.format("type=int").replace(
        "    args =", "    parser.set_defaults(batch_size={})\n    args ="
    ),
    "known": ARGPARSE.format("type=int, default={}").replace(
        "args = parser.parse_args", "args, _ = parser.parse_known_args"
    ),
    "absl": FLAG,
    "click": CLICK,
    "fire": FUNCTION + "fire.Fire(main)\n",
    "typer": FUNCTION + "typer.run(main)\n",
    "typer.Option": FUNCTION.replace("{}", 'typer.Option({}, "--rows")') + "typer.run(main)\n",
    "tyro": CONFIG,
    "environment": 'place(int(os.environ.get("BATCH", "{}")))\n',
}


def found(write: Write, text: str) -> list[tuple[str, str, str]]:
    root = write({"main.py": HEAD + text, "pyproject.toml": ""})
    report = check_paths([root / "main.py"], Options(targets={"jax": "0.12.0"}, select=("SL216",)))
    assert not report.failed
    findings = [one for file in report.reports for one in file.findings]
    return [(one.rule.code, one.certainty.name, one.form) for one in findings]


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_default_that_breaks_a_contract_is_likely(write: Write, name: str) -> None:
    (one,) = found(write, PROGRAMS[name].replace("{}", "12"))
    assert one[:2] == ("SL216", "LIKELY")


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_default_that_fits_is_quiet(write: Write, name: str) -> None:
    assert found(write, PROGRAMS[name].replace("{}", "16")) == []


def test_an_option_that_has_to_be_given_is_unknown(write: Write) -> None:
    assert found(write, ARGPARSE.format("type=int, required=True")) == []


def test_what_no_option_decides_stays_proven(write: Write) -> None:
    assert found(write, "place(12)\n" + ARGPARSE.format("type=int, default=16")) == [("SL216", "PROVEN", "")]


def test_hydra_runs_the_main_function(write: Write) -> None:
    main = "import hydra\n\n\n@hydra.main(config_name='main')\ndef main(cfg):\n    place({})\n\n\nmain()\n"
    assert found(write, main.format("cfg.batch")) == []
    assert found(write, main.format("12")) == [("SL216", "PROVEN", "")]
