"""Tests of the installed package: the wheel is built from the sdist and used in an environment without jax."""

from __future__ import annotations

import os
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

pytest.importorskip("build")
pytestmark = [pytest.mark.packaging, pytest.mark.xdist_group("packaging")]

ROOT = Path(__file__).parent.parent
BAD = """import jax
from jax.sharding import NamedSharding, PartitionSpec as P

raise SystemExit("the project was run")


@jax.jit
def step(mesh, x):
    return jax.device_put(x, NamedSharding(mesh, P("data"))) * 2
"""
LEFT_OUT = ("JAX_PLATFORMS", "PYTHONPATH", "VIRTUAL_ENV")


@dataclass
class Installed:
    """An environment with the wheel in it."""

    wheel: Path
    sdist: Path
    python: Path

    def run(
        self, folder: Path, *arguments: str, path: Path | None = None, python: Sequence[str] = ()
    ) -> subprocess.CompletedProcess[str]:
        environment = {name: value for name, value in os.environ.items() if name not in LEFT_OUT}
        if path is not None:
            environment["PYTHONPATH"] = str(path)
        return subprocess.run(
            [str(self.python), *python, "-m", "shardlint", *arguments],
            cwd=folder,
            env=environment,
            text=True,
            capture_output=True,
            timeout=120,
        )


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Installed:
    top = tmp_path_factory.mktemp("packaging")
    _done([sys.executable, "-m", "build", "--outdir", str(top), str(ROOT)])
    (wheel,) = top.glob("*.whl")
    (sdist,) = top.glob("*.tar.gz")
    _done([sys.executable, "-m", "venv", str(top / "env")])
    python = top / "env" / "bin" / "python"
    _done([str(python), "-m", "pip", "install", "--disable-pip-version-check", str(wheel)])
    return Installed(wheel, sdist, python)


def _done(command: list[str]) -> None:
    done = subprocess.run(command, text=True, capture_output=True, timeout=600)
    assert done.returncode == 0, f"{command}\n{done.stdout[-2000:]}\n{done.stderr[-2000:]}"


@pytest.fixture
def raising(tmp_path: Path) -> Path:
    """A folder of packages that end the program when imported."""
    folder = tmp_path / "raising"
    for name in ("jax", "jaxlib", "numpy", "equinox"):
        (folder / name).mkdir(parents=True)
        (folder / name / "__init__.py").write_text("raise SystemExit(f'{__name__} was imported')", "utf-8")
    return folder


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "train.py").write_text(BAD, "utf-8")
    (folder / "pyproject.toml").write_text('[project]\nname = "x"\ndependencies = ["jax==0.12.0"]\n', "utf-8")
    return folder


def test_the_wheel_holds_what_the_commands_need_and_no_more(installed: Installed) -> None:
    from shardlint.rules_api.registry import proof_folders

    with zipfile.ZipFile(installed.wheel) as wheel:
        names = set(wheel.namelist())
    tops = {name.partition("/")[0] for name in names}
    assert {top.partition("-")[0] for top in tops} == {"shardlint", "shardlint_rules"}
    assert {"shardlint/py.typed", "shardlint_rules/py.typed"} <= names
    proofs = {name.removeprefix("shardlint_rules/proofs/") for name in names if "/proofs/" in name}
    needed = ("bad.py", "good.py", "proof.toml")
    assert proofs == {f"{code}/{file}" for code in proof_folders() for file in needed}
    license = next(name for name in names if name.endswith("/LICENSE"))
    assert ".dist-info/" in license


def test_the_sdist_holds_the_project(installed: Installed) -> None:
    with tarfile.open(installed.sdist) as sdist:
        names = {name.partition("/")[2] for name in sdist.getnames()}
    for path in (
        "README.md",
        "CHANGELOG.md",
        "LICENSE",
        "Makefile",
        "tests/test_packaging.py",
        "docs/index.md",
    ):
        assert path in names
    assert any(name.startswith("fixtures/projects/") for name in names)
    assert not [
        name for name in names if "__pycache__" in name or name.startswith((".venv", ".matrix", ".git/"))
    ]


def test_it_needs_four_packages(installed: Installed) -> None:
    done = subprocess.run(
        [str(installed.python), "-m", "pip", "show", "shardlint"], text=True, capture_output=True, check=True
    )
    requires = next(line for line in done.stdout.splitlines() if line.startswith("Requires:"))
    assert sorted(requires.removeprefix("Requires:").replace(" ", "").split(",")) == [
        "click",
        "libcst",
        "pathspec",
        "pyyaml",
    ]


def test_it_reads_configurations_in_yaml(installed: Installed, project: Path) -> None:
    (project / "conf.yml").write_text("mesh_axes: [data, fsdp]\n", "utf-8")
    (project / "train.py").write_text(
        "import jax\nimport yaml\nfrom jax.sharding import NamedSharding, PartitionSpec as P\n\n"
        'config = yaml.safe_load(open("conf.yml"))\nmesh = jax.make_mesh((4, 2), tuple(config["mesh_axes"]))\n'
        's = NamedSharding(mesh, P("modle"))\n',
        "utf-8",
    )
    assert "train.py:7:27: SL301" in installed.run(project, "check").stdout


def test_check_and_fix_import_no_jax_and_run_nothing(
    installed: Installed, project: Path, raising: Path
) -> None:
    found = installed.run(project, "check", path=raising)
    assert (found.returncode, found.stderr) == (1, "")
    assert "train.py:9:12: SL201" in found.stdout
    fixed = installed.run(project, "fix", "--unsafe-fixes", path=raising)
    assert (fixed.returncode, fixed.stderr) == (0, "")
    assert "jax.lax.with_sharding_constraint(x," in (project / "train.py").read_text("utf-8")
    clean = installed.run(project, "check", path=raising)
    assert (clean.returncode, clean.stdout) == (0, "No findings in 1 file.\n")


def test_the_raising_packages_would_be_seen(installed: Installed, raising: Path) -> None:
    done = subprocess.run(
        [str(installed.python), "-c", "import jax"],
        env={**os.environ, "PYTHONPATH": str(raising)},
        text=True,
        capture_output=True,
    )
    assert "jax was imported" in done.stderr


def test_check_without_findings_imports_no_libcst(installed: Installed, project: Path) -> None:
    (project / "train.py").write_text("import jax\n\nx = jax.device_put(1)\n", "utf-8")
    done = installed.run(project, "check", python=("-X", "importtime"))
    assert done.returncode == 0
    imported = {line.rpartition("|")[2].strip() for line in done.stderr.splitlines()}
    assert "shardlint.engine.one_file" in imported
    assert imported.isdisjoint({"libcst", "jax", "numpy", "shardlint.verify"})


def test_verify_without_jax_says_in_one_line_what_to_install(installed: Installed, project: Path) -> None:
    (project / "fixtures.py").write_text("import shardlint.verify\n", "utf-8")
    done = installed.run(project, "verify")
    assert done.returncode == 2
    assert done.stdout == ""
    assert len(done.stderr.splitlines()) == 1
    assert 'pip install "shardlint[verify]"' in done.stderr


def test_every_rule_of_the_checkout_is_in_the_wheel(installed: Installed, project: Path) -> None:
    from shardlint.rules_api.registry import import_rules

    done = installed.run(project, "rules")
    assert [line.split()[0] for line in done.stdout.splitlines()] == [rule.code for rule in import_rules()]
