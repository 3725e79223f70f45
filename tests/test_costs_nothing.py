"""True findings that cost nothing: a notebook has one process."""

from __future__ import annotations

import json

from shardlint.engine.results import Options
from shardlint.engine.run import check_paths
from tests.conftest import Write

PUT = "import jax\n\njax.distributed.initialize()\nx = jax.device_put(1.0, jax.devices()[0])\n"

def test_a_notebook_has_one_process(write: Write) -> None:
    cell = {"cell_type": "code", "metadata": {}, "source": PUT, "outputs": [], "execution_count": None}
    book = {"cells": [cell], "metadata": {"language_info": {"name": "python"}}, "nbformat": 4, "nbformat_minor": 4}
    root = write({"book.ipynb": json.dumps(book), "train.py": PUT, "pyproject.toml": ""})
    report = check_paths([root], Options(select=("SL808",)))
    assert {file.path.name: len(file.findings) for file in report.reports if file.findings} == {"train.py": 1}
