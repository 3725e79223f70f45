"""The proof of a rule runs the rule: `check` finds bad.py where it is marked, and is silent on good.py."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from shardlint.verify.proofs import read_proof
from shardlint.verify.report import Result
from shardlint.verify.rule_check import check_rules, marked_lines

pytest.importorskip("packaging")
pytestmark = pytest.mark.longer
PROOF = '[bad]\nshows = "raises"\nerror = "Exception"\n[good]\n'
BAD = "import jax\nfrom jax import device_put\n\ndef main(x):\n    return device_put(x)  # XR101\n"
GOOD = "def main(x):\n    return x  # XR101\n"
RULE = '''
from shardlint.rules_api.rule import Calls, Harm, Rule


class Told(Rule):
    """Told."""

    code, name, harm = "XR101", "device-put-seen", Harm.SILENT
    triggers = (Calls("jax.device_put"),)

    def check(self, site):
        {body}
'''
FINDS = 'yield site.finding(site.call, "It is.")'


@pytest.fixture
def pack(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A pack of rules as anyone could install one, with a rule and its proof."""
    info = tmp_path / "xr_pack-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: xr-pack\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[shardlint.rules]\nxr = xr_pack\n")
    (tmp_path / "xr_pack.py").write_text('RULES = {"XR101": "xr_rule:Told"}\nPROOFS = []\n')
    write(tmp_path, FINDS)
    path = os.pathsep.join([str(tmp_path), *sys.path[:1], os.environ.get("PYTHONPATH", "")])
    monkeypatch.setenv("PYTHONPATH", path)
    return tmp_path


def write(pack: Path, body: str, bad: str = BAD, good: str = GOOD) -> None:
    (pack / "xr_rule.py").write_text(RULE.replace("{body}", body))
    folder = pack / "XR101"
    folder.mkdir(exist_ok=True)
    for name, text in (("bad.py", bad), ("good.py", good), ("proof.toml", PROOF)):
        (folder / name).write_text(text)


def told(pack: Path) -> Result:
    proof = read_proof("XR101", pack / "XR101")
    ran = Result("XR101", "execute", "pass", checked=2)
    first, checked = check_rules([proof], [ran])
    assert first is ran
    assert (checked.target, checked.level) == ("XR101", "check")
    return checked


def test_a_rule_that_finds_its_proof_passes(pack: Path) -> None:
    result = told(pack)
    assert (result.status, result.checked, result.failures) == ("pass", 2, [])


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (
            'raise NotImplementedError("not yet")',
            "bad.py was not checked: XR101 (rule pack 'xr_pack' of xr-pack 1.0) failed at line 5: NotImpl",
        ),
        ("return iter(())", "bad.py marks line 5, and the rule does not find it"),
        ("import jax\n        " + FINDS, "it imports jax"),
        ("import os\n        os._exit(0)", "checking its proof exited with code 0"),
    ],
)
def test_a_rule_that_does_not_work_fails(pack: Path, body: str, message: str) -> None:
    write(pack, body)
    result = told(pack)
    assert (result.status, result.checked) == ("fail", 0)
    assert message in result.failures[0].message


@pytest.mark.parametrize(
    ("bad", "good", "message"),
    [
        (
            BAD.replace("  # XR101", ""),
            GOOD,
            "bad.py marks no line: write `# XR101` at the end of the line with the mistake",
        ),
        (BAD, BAD, "the rule finds the mistake in good.py too, on line 5"),
        (
            BAD + "    # elsewhere  # XR101\n",
            GOOD,
            "bad.py marks lines 5, 6, and the rule finds it on line 5",
        ),
        (BAD + "def f(:\n", GOOD, "bad.py was not checked: "),
    ],
)
def test_a_proof_that_the_rule_does_not_bear_out_fails(pack: Path, bad: str, good: str, message: str) -> None:
    write(pack, FINDS, bad, good)
    assert message in " ".join(failure.message for failure in told(pack).failures)


def test_a_proof_for_other_releases_is_no_less_skipped(pack: Path) -> None:
    proof = read_proof("XR101", pack / "XR101")
    skipped = Result("XR101", "", "skip", reason="not for these releases")
    assert check_rules([proof], [skipped]) == [skipped]
    write(pack, "raise NotImplementedError")
    assert [result.status for result in check_rules([proof], [skipped])] == ["skip", "fail"]


def test_the_command_runs_the_rule(pack: Path) -> None:
    """From the scaffold's own rule, which raises, to one that is written."""
    good = GOOD.replace("def main(x):\n    return x", "def main():\n    pass")
    bad = "import jax\nimport numpy\n\ndef main():\n    return jax.device_put('text')  # XR101\n"
    (pack / "xr_pack.py").write_text(f'RULES = {{"XR101": "xr_rule:Told"}}\nPROOFS = [{str(pack)!r}]\n')
    command = [sys.executable, "-m", "shardlint", "verify", "--rules", "XR101", "--no-cache"]
    for body, code, last in (
        (FINDS, 0, "2 passed, 0 failed"),
        ("raise NotImplementedError", 1, "1 passed, 1 failed"),
    ):
        write(pack, body, bad, good)
        done = subprocess.run(command, capture_output=True, text=True, cwd=pack, timeout=120)
        assert (done.returncode, last in done.stdout) == (code, True), done.stdout + done.stderr


def test_markers() -> None:
    assert marked_lines("a  # SL201\nb  # SL202, SL201\nc  # SL2011\n# SL201 is no marker\n", "SL201") == [
        1,
        2,
    ]
