"""The example of a rule pack, installed from its own wheel: its rule is like any other."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

pytest.importorskip("build")
pytestmark = [pytest.mark.packaging, pytest.mark.xdist_group("packaging")]
PACK = Path(__file__).parent.parent / "fixtures" / "pack"
TEXT = "import jax\n\nx = jax.device_put(1)\n"


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with what the pack's wheel holds, as pip installs it."""
    top = tmp_path_factory.mktemp("pack")
    command = [sys.executable, "-m", "build", "--wheel", "--outdir", str(top), str(PACK)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stdout + done.stderr
    (wheel,) = top.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
    assert {name.partition("/")[0] for name in names} == {"acme_shardlint", "acme_shardlint-1.0.dist-info"}
    install = [
        sys.executable,
        "-m",
        "pip",
        "install",
        "--no-deps",
        "--no-index",
        "--target",
        str(top / "site"),
        str(wheel),
    ]
    done = subprocess.run(install, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    return top / "site"


def run(
    site: Path, folder: Path, *arguments: str, python: tuple[str, ...] = ("-m", "shardlint")
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *python, *arguments],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(site), "CI": ""},
        capture_output=True,
        text=True,
        timeout=300,
    )  # fmt: skip


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "setup.cfg").touch()
    (tmp_path / "x.py").write_text(TEXT)
    return tmp_path


def test_its_rule_is_listed_and_has_a_page(site: Path, project: Path) -> None:
    assert "AC101  cost     placed-nowhere" in run(site, project, "rules").stdout
    page = run(site, project, "rule", "placed-nowhere").stdout
    assert page.startswith("# AC101 placed-nowhere\n")
    assert "## Example" in page
    assert "`shardlint verify --rules AC101`." in page


@pytest.mark.parametrize(
    ("arguments", "found"),
    [
        ([], True),
        (["--select", "AC"], True),
        (["--select", "placed-nowhere"], True),
        (["--select", "SL"], False),
        (["--ignore", "AC1"], False),
        (["--harm", "cost"], True),
    ],
)
def test_it_is_selected_like_any_other(site: Path, project: Path, arguments: list[str], found: bool) -> None:
    ran = run(site, project, "check", *arguments)
    assert ("x.py:3:5: AC101 placed-nowhere  [cost, proven]" in ran.stdout) is found
    assert ran.returncode == int(found), ran.stderr


def test_comments_and_baselines_know_it(site: Path, project: Path) -> None:
    (project / "x.py").write_text(TEXT.replace("(1)", "(1)  # shardlint: ignore[AC] house rule"))
    assert run(site, project, "check").returncode == 0
    (project / "x.py").write_text(TEXT)
    assert run(site, project, "baseline").returncode == 0
    assert run(site, project, "check").returncode == 0


def test_reports_lead_to_its_page(site: Path, project: Path) -> None:
    ran = run(site, project, "check", "--output-format", "sarif")
    (rule,) = json.loads(ran.stdout)["runs"][0]["tool"]["driver"]["rules"]
    assert rule["helpUri"] == "https://acme.example/shardlint/AC101.html"
    assert rule["help"]["markdown"].startswith("# AC101 placed-nowhere")


def test_its_own_tests_and_its_proof_pass(site: Path, tmp_path: Path) -> None:
    tests = run(site, tmp_path, "-q", "-p", "no:cacheprovider", str(PACK / "tests"), python=("-m", "pytest"))
    assert tests.returncode == 0, tests.stdout
    proof = run(site, tmp_path, "verify", "--rules", "AC101", "--no-cache")
    assert proof.returncode == 0, proof.stdout + proof.stderr
