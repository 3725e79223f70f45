"""`shardlint verify --since REV`: which fixtures a change can touch. Nothing is run."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from shardlint.cli.main import main
from shardlint.config.settings import BadSettings
from shardlint.verify.affected_fixtures import touched_fixtures

FIXTURES = """
from shardlint.verify import Fixture, P, arg

WIDTH = 8

def batch():
    from proj import data
    return data.batch(WIDTH)

step = Fixture(fn="proj.train:step", meshes=["all:8"], args=[arg(batch, spec=P("data"))], out={"": P("data")})
other = Fixture(fn="proj.serve:step", meshes=["all:8"], args=[arg(shape=(WIDTH,))], out={"": P("data")})
"""


def git(folder: Path, *words: str) -> None:
    who = ["-c", "user.name=a", "-c", "user.email=a@b.c", "-c", "commit.gpgsign=false"]
    subprocess.run(["git", *who, *words], cwd=folder, check=True, capture_output=True)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    files = {
        "fx.py": FIXTURES,
        "shardlint.toml": '[[verify]]\nname = "third"\nfn = "proj.third:step"\nmeshes = ["all:8"]\nreference = "single_device"\n',
        "proj/__init__.py": "",
        "proj/train.py": "from proj import model\n",
        "proj/serve.py": "from . import layers\n",
        "proj/third.py": "import numpy\n",
        "proj/model.py": "import jax\n",
        "proj/layers.py": "import jax\n",
        "proj/data.py": "import jax\n",
        "proj/unused.py": "",
        "README.md": "",
        "config.yaml": "",
    }
    for name, text in files.items():
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    git(tmp_path, "init", "-q")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "-qm", "first")
    return tmp_path


def names(project: Path) -> set[str]:
    files: dict[Path, list[str]] = {project / "fx.py": [], project / "shardlint.toml": []}
    found = touched_fixtures(files, "HEAD", project)
    return {
        f"{file.name}{f'::{name}' if name else ''}" for file, each in found.files.items() for name in each or [""]
    }


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        ("README.md", set()),
        ("proj/unused.py", set()),
        ("proj/model.py", {"fx.py::step"}),
        ("proj/train.py", {"fx.py::step"}),
        ("proj/data.py", {"fx.py::step"}),
        ("proj/layers.py", {"fx.py::other"}),
        ("proj/third.py", {"shardlint.toml"}),
        ("proj/__init__.py", {"fx.py", "shardlint.toml"}),
        ("fx.py", {"fx.py"}),
        ("fx.golden/step.toml", {"fx.py"}),
        ("shardlint.toml", {"shardlint.toml"}),
        ("config.yaml", {"fx.py", "shardlint.toml"}),
    ],
)
def test_what_a_change_touches(project: Path, changed: str, expected: set[str]) -> None:
    path = project / changed
    path.parent.mkdir(exist_ok=True)
    path.write_text((path.read_text() if path.exists() else "") + "\n# changed\n")
    assert names(project) == expected


def test_a_module_that_is_gone_touches_all(project: Path) -> None:
    (project / "proj/unused.py").unlink()
    assert names(project) == {"fx.py", "shardlint.toml"}


def test_what_the_text_does_not_tell_is_touched(project: Path) -> None:
    (project / "proj/serve.py").write_text("import importlib\ndef load(name): return importlib.import_module(name)\n")
    git(project, "commit", "-qam", "computed")
    (project / "proj/unused.py").write_text("x = 1\n")
    assert names(project) == {"fx.py::other"}
    (project / "fx.py").write_text(FIXTURES.replace("proj.serve", "elsewhere.serve"))
    git(project, "commit", "-qam", "no file of the project")
    assert names(project) == {"fx.py::other"}


def test_fixtures_made_in_a_loop_go_by_their_file(project: Path) -> None:
    (project / "fx.py").write_text(FIXTURES + "\nfor size in (1, 2):\n    globals()[f'x{size}'] = step\n")
    git(project, "commit", "-qam", "loop")
    (project / "proj/layers.py").write_text("x = 1\n")
    assert names(project) == {"fx.py"}


def test_an_unknown_revision_is_said(project: Path) -> None:
    with pytest.raises(BadSettings, match="no revision"):
        touched_fixtures({project / "fx.py": []}, "nowhere", project)


def test_nothing_to_do_is_no_failure(
    project: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(project)
    monkeypatch.setattr("sys.argv", ["shardlint", "verify", "--since", "HEAD", "fx.py"])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 0
    said = capsys.readouterr()
    assert "no fixture is affected by the changes since HEAD" in said.out
    assert "do not affect fx.py::step, fx.py::other" in said.err
