"""Goldens, HTML and JUnit as a person meets them: real programs, real options."""

from __future__ import annotations

import json
from collections.abc import Callable
from importlib.metadata import entry_points
from pathlib import Path
from xml.etree import ElementTree

import pytest
from click.testing import CliRunner, Result

from shardlint.cli.verify import verify
from shardlint.verify.golden import compare_with_goldens
from shardlint.verify.plan import Request, verify_fixtures
from shardlint.verify.runner import Runner
from tests.programs import skip_without

from .test_verify_command import FIX, FIXTURES, TRAIN

skip_without("jax")
pytestmark = pytest.mark.longer

pytest_plugins = ["pytester"]

Invoke = Callable[..., Result]
SOUND = TRAIN.replace("\n    return jax.grad(loss)(p, x)\n", FIX)


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "proj"
    folder.mkdir()
    (folder / "train.py").write_text(SOUND)
    (folder / "fx.py").write_text(FIXTURES.replace("proj.train", "train"))
    monkeypatch.chdir(tmp_path)
    return folder


@pytest.fixture
def run(project: Path) -> Invoke:
    return lambda *arguments: CliRunner().invoke(verify, ["proj", "--level", "compile", *arguments])


def test_from_golden_to_drift(run: Invoke, project: Path, runner: Runner) -> None:
    golden = project / "fx.golden" / "grads.toml"

    def held(update: bool = False) -> tuple[list[str], list[str]]:
        """Return the messages and the failures of one verification."""
        request = Request({project / "fx.py": []}, levels=["compile"])
        results = verify_fixtures(runner, request)
        said = compare_with_goldens(results, runner.releases, update=update, whole=True)
        return said, [failure.failure_text() for result in results for failure in result.failures]

    assert held(update=True) == ([f"wrote {golden}: 1 run"], [])
    kept = golden.read_text()
    assert 'axes = "data"' in kept and "all-reduce" in kept
    assert str(project.parent) not in kept

    # Lines move, nothing else: no drift.
    (project / "train.py").write_text("# a line more\n" + SOUND)
    assert held() == ([], [])

    # A leaf lies elsewhere, and a line moves more.
    changed = SOUND.replace('"b": jax.sharding.PartitionSpec()}', '"b": jax.sharding.PartitionSpec("data")}')
    changed = changed.replace(
        'jnp.mean((x @ p["w"] + p["b"]) ** 2)', 'jnp.mean((x.T @ x @ p["w"] + p["b"]) ** 2)'
    )
    assert changed.count('PartitionSpec("data")') == 2
    (project / "train.py").write_text(changed)
    drifted = run("--report", "out.html", "--junit", "out.xml", "--output-format", "json")
    assert drifted.exit_code == 1, drifted.output
    (result,) = json.loads(drifted.output)["results"]
    assert {failure["kind"] for failure in result["failures"]} == {"golden"}
    by_where = {failure["where"]: failure["message"] for failure in result["failures"]}
    assert (
        by_where["out['b']"]
        == "differs from proj/fx.golden/grads.toml\n- P()  32 B/device\n+ P('data')  4 B/device  (0.125x)"
    )
    (line,) = (message for where, message in by_where.items() if where.startswith("train.py:"))
    assert "\n- over data: " in line or "\n+ over data: " in line

    page = Path("out.html").read_text()
    assert "- P()  32 B/device" in page and "x.T @ x @ p[" in page.replace("&quot;", '"')
    (failure,) = ElementTree.parse("out.xml").getroot().iter("failure")
    assert failure.attrib["type"] == "golden"

    # It is taken in, and then holds.
    assert held(update=True) == ([f"wrote {golden}: 1 run"], [])
    assert held() == ([], [])


def test_reports_that_cannot_be_written_are_told_before_the_work(run: Invoke, project: Path) -> None:
    for option in ("--report", "--junit"):
        result = run(option, "nowhere/out")
        assert result.exit_code == 2
        assert result.output == "shardlint verify: nowhere/out: the folder nowhere does not exist\n"
    assert run("--report", "proj").exit_code == 2


def test_under_pytest(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(train=SOUND)
    pytester.makepyfile(test_fx=FIXTURES.replace("proj.train", "train").replace(', "b": P()', ', "b": P()'))
    options = ["--shardlint-level", "compile", "-p", "no:cacheprovider"]
    if not entry_points(group="pytest11", name="shardlint"):  # installed before there was a plugin
        options += ["-p", "shardlint.pytest_plugin"]
    pytester.runpytest_subprocess(*options, "--shardlint-update").assert_outcomes(passed=1)
    golden = pytester.path / "test_fx.golden" / "grads.toml"
    golden.write_text(
        golden.read_text().replace(
            '"out[\'b\']" = {array = "f32[8]", spec = "P()"',
            '"out[\'b\']" = {array = "f32[8]", spec = "P(\'data\')"',
        )
    )
    drifted = pytester.runpytest_subprocess(*options)
    drifted.assert_outcomes(failed=1)
    drifted.stdout.fnmatch_lines(
        ["*differs from test_fx.golden/grads.toml*", "*- P('data')  32 B/device*", "*+ P()  32 B/device*"]
    )
