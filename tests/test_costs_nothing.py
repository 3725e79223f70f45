"""True findings that cost nothing: a notebook has one process, and an older program does not run on the newest jax."""

from __future__ import annotations

import json

from shardlint.config.certainty import Certainty
from shardlint.engine.results import Options
from shardlint.engine.run import check_paths
from tests.conftest import Write

PUT = "import jax\n\njax.distributed.initialize()\nx = jax.device_put(1.0, jax.devices()[0])\n"
RULES = """
import flax.linen as nn
import jax


def apply(model, params, x, mesh):
    with mesh, nn.logical_axis_rules([("batch", "data")]):
        return model.apply(params, nn.with_logical_constraint(x, ("batch", None)))
"""


def test_a_notebook_has_one_process(write: Write) -> None:
    cell = {"cell_type": "code", "metadata": {}, "source": PUT, "outputs": [], "execution_count": None}
    book = {"cells": [cell], "metadata": {"language_info": {"name": "python"}}, "nbformat": 4, "nbformat_minor": 4}
    root = write({"book.ipynb": json.dumps(book), "train.py": PUT, "pyproject.toml": ""})
    report = check_paths([root], Options(select=("SL808",)))
    assert {file.path.name: len(file.findings) for file in report.reports if file.findings} == {"train.py": 1}


def test_a_program_that_cannot_run_on_the_assumed_release(write: Write) -> None:
    found = {}
    for name, use in (("newer", ""), ("older", "\n\ndef double(tree):\n    return jax.tree_map(lambda x: 2 * x, tree)\n")):
        root = write({f"{name}/train.py": RULES + use, f"{name}/pyproject.toml": ""}) / name
        report = check_paths([root], Options(select=("SL501",), certainty=Certainty.POSSIBLE))
        found[name] = {(one.certainty, one.form) for file in report.reports for one in file.findings}
    assert found == {"newer": {(Certainty.PROVEN, "")}, "older": {(Certainty.POSSIBLE, "older-program")}}
