"""The extension for VS Code: it is checked, built, and its own tests pass, with the server of this checkout."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("pygls")
EXTENSION = Path(__file__).parent.parent / "editors" / "vscode"
NPM = shutil.which("npm")


@pytest.mark.packaging
@pytest.mark.xdist_group("packaging")
@pytest.mark.skipif(NPM is None, reason="npm")
def test_it_builds_and_passes_its_tests(tmp_path: Path) -> None:
    folder = tmp_path / "vscode"
    shutil.copytree(EXTENSION, folder, ignore=shutil.ignore_patterns("node_modules", "out", "dist"))
    environ = {**os.environ, "SHARDLINT_PYTHON": sys.executable}
    for command in (["ci", "--no-audit", "--no-fund"], ["run", "check"], ["run", "build"], ["test"]):
        done = subprocess.run(
            [str(NPM), *command], cwd=folder, env=environ, capture_output=True, text=True, timeout=600
        )
        assert done.returncode == 0, f"{command}\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}"
    assert "# fail 0" in done.stdout and "# skipped 0" in done.stdout
    assert (folder / "dist" / "extension.js").stat().st_size > 100_000
