"""The GitHub action, the GitLab template and the hooks: valid by their schemas, and their steps run for real."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import sysconfig
import tomllib
from pathlib import Path
from typing import Any

import pytest

from tests.schemas import jsonschema

yaml = pytest.importorskip("yaml")
ROOT = Path(__file__).parent.parent
ACTION = ROOT / "action.yml"
GITLAB = ROOT / "ci" / "gitlab.yml"
BAD = """import jax
from jax.sharding import NamedSharding, PartitionSpec as P

@jax.jit
def f(mesh, x):
    return jax.device_put(x, NamedSharding(mesh, P("data")))
"""
OUTSIDE = ("PYTHONPATH", "VIRTUAL_ENV", "CI", "NO_COLOR", "FORCE_COLOR")


def vendored(name: str) -> Any:
    package = pytest.importorskip("check_jsonschema")
    folder = Path(package.__file__).parent / "builtin_schemas" / "vendor"
    return json.loads((folder / f"{name}.json").read_text("utf-8"))


def valid(document: Any, schema: Any) -> None:
    kind = jsonschema.validators.validator_for(schema)
    errors = [f"{error.json_path}: {error.message}" for error in kind(schema).iter_errors(document)]
    assert errors == []


def loaded(path: Path) -> Any:
    return yaml.safe_load(path.read_text("utf-8"))


def test_the_action_is_valid() -> None:
    valid(loaded(ACTION), vendored("github-actions"))


def test_the_gitlab_template_is_valid() -> None:
    valid(loaded(GITLAB), vendored("gitlab-ci"))


def test_the_job_of_the_docs_is_valid_and_has_ten_lines() -> None:
    text = (ROOT / "docs" / "ci.md").read_text("utf-8")
    block = re.search(r"```yaml\n(.*?)```", text, re.DOTALL)
    assert block is not None
    job = yaml.load(block[1].replace("OWNER/", "owner/"), Loader=yaml.BaseLoader)
    valid(job, vendored("github-workflows"))
    assert len(block[1].splitlines()) == 10
    inputs = loaded(ACTION)["inputs"]
    assert set(job["jobs"]["shardlint"]["steps"][1]["with"]) <= set(inputs)


def test_the_job_that_verifies_is_valid() -> None:
    text = (ROOT / "docs" / "ci.md").read_text("utf-8")
    blocks = re.findall(r"```yaml\n(name.*?)```", text, re.DOTALL)
    job = yaml.load(blocks[-1].replace("OWNER/", "owner/"), Loader=yaml.BaseLoader)
    valid(job, vendored("github-workflows"))
    assert set(job["jobs"]["verify"]["steps"][1]["with"]) <= set(loaded(ACTION)["inputs"])


def test_this_repository_uses_the_action() -> None:
    job = yaml.load((ROOT / ".github/workflows/shardlint.yml").read_text("utf-8"), Loader=yaml.BaseLoader)
    valid(job, vendored("github-workflows"))
    given = [step["with"] for one in job["jobs"].values() for step in one["steps"] if step["uses"] == "./"]
    assert len(given) == 2 and {name for one in given for name in one} <= set(loaded(ACTION)["inputs"])
    assert f"shardlint check {given[0]['args']} ." in (ROOT / "scripts" / "test.sh").read_text("utf-8")


@pytest.mark.parametrize("name", ["false-finding", "missed-mistake"])
def test_issue_forms_ask_for_code_command_and_releases(name: str) -> None:
    form = loaded(ROOT / ".github" / "ISSUE_TEMPLATE" / f"{name}.yml")
    valid(form, vendored("github-issue-forms"))
    assert {"code", "releases"} <= {field["id"] for field in form["body"]}
    assert any("The command" in field["attributes"]["label"] for field in form["body"])


def test_the_citation_is_valid() -> None:
    valid(loaded(ROOT / "CITATION.cff"), vendored("citation-file-format"))


def test_the_image_copies_what_the_wheel_needs() -> None:
    copied = re.findall(r"^COPY (?!--)(.+) \S+$", (ROOT / "ci" / "Dockerfile").read_text("utf-8"), re.MULTILINE)
    files = {file for line in copied for file in line.split()}
    assert all((ROOT / file).exists() for file in files)
    wheel = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["hatch"]["build"]["targets"]["wheel"]
    assert {one.partition("/")[0] for one in wheel["only-include"]} <= files


def test_the_hooks_are_valid() -> None:
    pytest.importorskip("pre_commit")
    done = subprocess.run(
        [sys.executable, "-m", "pre_commit", "validate-manifest", str(ROOT / ".pre-commit-hooks.yaml")],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout


def test_no_input_is_put_into_a_script() -> None:
    """Inputs reach a script as variables, so that their text cannot be a command."""
    for step in loaded(ACTION)["runs"]["steps"]:
        assert "${{" not in step.get("run", "")
        for name in re.findall(r"\$(INPUT_\w+)", step.get("run", "")):
            assert name in step["env"]


class Runner:
    """Runs the shell steps of the action as GitHub does, with a folder for what it keeps."""

    def __init__(self, top: Path, action: Path, project: Path) -> None:
        self.project, self.action = project, action
        self.files = {name: top / name for name in ("GITHUB_OUTPUT", "GITHUB_ENV", "GITHUB_STEP_SUMMARY")}
        for file in self.files.values():
            file.touch()
        (top / "temp").mkdir()
        self.temp = top / "temp"

    def step(self, name: str, **inputs: str) -> subprocess.CompletedProcess[str]:
        document = loaded(self.action / "action.yml")
        (step,) = [one for one in document["runs"]["steps"] if one["name"] == name]
        defaults = {key: str(one.get("default", "")) for key, one in document["inputs"].items()}
        values = {**defaults, **{key.replace("_", "-"): value for key, value in inputs.items()}}
        environ = {
            key: re.sub(r"\$\{\{ inputs\.([\w-]+) \}\}", lambda match: values[match[1]], value)
            for key, value in step.get("env", {}).items()
        }
        kept = dict(line.split("=", 1) for line in self.files["GITHUB_ENV"].read_text().splitlines())
        return subprocess.run(
            ["bash", "--noprofile", "--norc", "-e", "-o", "pipefail", "-c", step["run"]],
            cwd=self.project,
            env={
                **{key: value for key, value in os.environ.items() if key not in OUTSIDE},
                **{key: str(file) for key, file in self.files.items()},
                "CI": "true",
                "RUNNER_TEMP": str(self.temp),
                "GITHUB_ACTION_PATH": str(self.action),
                **kept,
                **environ,
            },
            text=True,
            capture_output=True,
            timeout=900,
        )


@pytest.fixture(scope="module")
def clone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with the contents of a clean clone of this working tree."""
    folder = tmp_path_factory.mktemp("clone")
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT, check=True, text=True, capture_output=True,
    )  # fmt: skip
    for name in listed.stdout.splitlines():
        if (ROOT / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_bytes((ROOT / name).read_bytes())
    return folder


@pytest.mark.packaging
@pytest.mark.xdist_group("packaging")
@pytest.mark.skipif(os.name != "posix", reason="bash")
def test_the_action_lints_from_a_clean_clone(clone: Path, tmp_path: Path) -> None:
    project = tmp_path / "project"
    project.mkdir()
    (project / "train.py").write_text(BAD)
    (project / "setup.cfg").touch()
    runner = Runner(tmp_path, clone, project)
    installed = runner.step("Install shardlint", python=sys.executable)
    assert installed.returncode == 0, installed.stderr
    ran = runner.step("shardlint check")
    assert ran.returncode == 1, ran.stderr
    assert "::error title=SL201 device-put-in-jit,file=train.py,line=6," in ran.stdout
    assert "sarif=shardlint.sarif" in runner.files["GITHUB_OUTPUT"].read_text()
    sarif = json.loads((project / "shardlint.sarif").read_text())
    assert sarif["runs"][0]["results"][0]["ruleId"] == "SL201"
    assert runner.files["GITHUB_STEP_SUMMARY"].read_text().startswith("### shardlint: 1 finding in 1 file")
    clean = runner.step("shardlint check", args="--ignore SL2", paths="train.py")
    assert (clean.returncode, clean.stdout) == (0, "")


@pytest.mark.packaging
@pytest.mark.xdist_group("packaging")
@pytest.mark.skipif(os.name != "posix", reason="bash")
def test_the_action_verifies_from_a_clean_clone(clone: Path, tmp_path: Path) -> None:
    """In an environment that sees the packages of this one, so that jax need not be installed again."""
    subprocess.run([sys.executable, "-m", "venv", str(tmp_path / "env")], check=True)
    (packages,) = (tmp_path / "env" / "lib").glob("*/site-packages")
    (packages / "outer.pth").write_text(sysconfig.get_paths()["purelib"])
    project = tmp_path / "project"
    project.mkdir()
    (project / "setup.cfg").touch()
    (project / "fixtures.py").write_text(
        "import jax.numpy as jnp\n"
        "from shardlint.verify import Fixture, P, arg\n\n\n"
        "def double(x):\n    return x * 2\n\n\n"
        'step = Fixture(double, meshes=[{"data": 4}], args=[arg(shape=(8,), spec=P("data"))], out={"": P("data")})\n'
    )
    runner = Runner(tmp_path, clone, project)
    ran = runner.step(
        "shardlint verify", python=str(tmp_path / "env" / "bin" / "python"), verify_args="--jobs 1"
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert 'failures="0"' in (runner.temp / "shardlint-verify.xml").read_text()


@pytest.mark.skipif(os.name != "posix", reason="a shell")
def test_the_script_of_the_gitlab_template_runs(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(BAD)
    (tmp_path / "setup.cfg").touch()
    job = loaded(GITLAB)["shardlint"]
    install, check = job["script"]
    assert install == 'python -m pip install --quiet "$SHARDLINT"'
    done = subprocess.run(
        ["sh", "-e", "-c", check],
        cwd=tmp_path,
        env={
            **{key: value for key, value in os.environ.items() if key not in OUTSIDE},
            **job["variables"],
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        },
        text=True,
        capture_output=True,
        timeout=300,
    )
    assert done.returncode == 1, done.stderr
    assert "train.py:6:12: SL201" in done.stdout
    reports = job["artifacts"]["reports"]
    assert json.loads((tmp_path / reports["codequality"]).read_text())[0]["check_name"] == "SL201"
    assert "<testsuites" in (tmp_path / reports["junit"]).read_text()
