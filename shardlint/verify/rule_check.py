"""Check that a rule reports its own proof: `check` on bad.py and good.py, each as a project, in a process without jax.

A proof shows that the mistake is one. That the rule sees it is another matter, and told in the same run.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from shardlint.source.patterns import compile_lazily
from shardlint.verify.proofs import ProofFolder
from shardlint.verify.report import FAIL, PASS, SKIP, Failure, Result
from shardlint.verify.working_directory import shown_path

LEVEL = "check"
_MARKER = compile_lazily(r"#\s*([A-Z]+\d+(?:\s*,\s*[A-Z]+\d+)*)\s*$")
_START_SECONDS, _SECONDS = 60.0, 20.0


def check_rules(proofs: Sequence[ProofFolder], results: Sequence[Result]) -> list[Result]:
    """The results of proofs, with those of what their rules find; of a rule whose proof is for other releases only
    what it fails in.
    """
    told = {result.target: result for result in _check_proofs(proofs)} if proofs else {}
    found: list[Result] = []
    for proof in proofs:
        mine = [result for result in results if result.target == proof.code]
        found += mine
        checked = told[proof.code]
        if checked.status == FAIL or any(result.status != SKIP for result in mine):
            found.append(checked)
    return found


def _check_proofs(proofs: Sequence[ProofFolder]) -> Iterator[Result]:
    """One process checks them all, for starting one costs more than checking two files."""
    asked = json.dumps([[proof.code, str(proof.folder)] for proof in proofs])
    command = [sys.executable, "-m", "shardlint.verify.rule_check"]
    seconds = _START_SECONDS + _SECONDS * len(proofs)
    try:
        done = subprocess.run(
            command, input=asked, capture_output=True, text=True, encoding="utf-8", timeout=seconds
        )
        out, end, errors = done.stdout, f"exited with code {done.returncode}", done.stderr
    except subprocess.TimeoutExpired as error:
        out = (error.stdout or b"").decode("utf-8", "replace") if isinstance(error.stdout, bytes) else ""
        end, errors = f"killed at the time limit of {seconds:g} s", ""
    said = {}
    for line in out.splitlines():
        if line.startswith('{"code"'):
            one = json.loads(line)
            said[one["code"]] = one
    for proof in proofs:
        one = said.get(proof.code, {"failures": [f"checking its proof {end}"], "seconds": 0.0})
        failures = [Failure("rule", text) for text in one["failures"]]
        yield Result(
            proof.code,
            LEVEL,
            FAIL if failures else PASS,
            checked=0 if failures else 2,
            failures=failures,
            line=shown_path(str(proof.folder)),
            output=errors.splitlines()[-8:] if proof.code not in said else [],
            rerun=f"shardlint verify --rules {proof.code}",
            seconds=one["seconds"],
        )


def marked_lines(text: str, code: str) -> list[int]:
    """The lines of a program that end in a comment with a code."""
    found = []
    for number, line in enumerate(text.splitlines(), 1):
        match = _MARKER.search(line)
        if match is not None and code in (one.strip() for one in match[1].split(",")):
            found.append(number)
    return found


def proof_faults(code: str, folder: Path) -> list[str]:
    """Return the violated expectations. Each program is checked for this rule alone, as the only file of its
    project.
    """
    bad, good = _rule_findings(code, folder / "bad.py"), _rule_findings(code, folder / "good.py")
    found = [one for one in (bad, good) if isinstance(one, str)]
    if not isinstance(bad, str):
        wanted = marked_lines((folder / "bad.py").read_text("utf-8"), code)
        if not wanted:
            found.append(f"bad.py marks no line: write `# {code}` at the end of the line with the mistake")
        elif bad != wanted:
            seen = f"finds it on {_format_lines(bad)}" if bad else "does not find it"
            found.append(f"bad.py marks {_format_lines(wanted)}, and the rule {seen}")
    if good and not isinstance(good, str):
        found.append(f"the rule finds the mistake in good.py too, on {_format_lines(good)}")
    return found


def _format_lines(numbers: Sequence[int]) -> str:
    return f"line{'s' if len(numbers) > 1 else ''} {', '.join(map(str, numbers))}"


def _rule_findings(code: str, program: Path) -> list[int] | str:
    """The lines a rule finds, or why the program could not be checked."""
    from shardlint.config.certainty import Certainty
    from shardlint.config.targets import KNOWN, parse_targets
    from shardlint.engine.results import Options
    from shardlint.engine.run import check_paths
    from shardlint.rules_api.headers import parse_header

    said = parse_header(program.read_text("utf-8"))
    newest = {package: releases[-1] for package, releases in KNOWN.items()}
    options = Options(
        select=(code,),
        certainty=Certainty.POSSIBLE if "pedantic" in said.options else None,
        targets={**newest, **parse_targets(said.targets)},
    )
    with tempfile.TemporaryDirectory(prefix="shardlint-") as folder:
        Path(folder, "setup.cfg").touch()  # a project of its own
        if said.settings:
            Path(folder, "shardlint.toml").write_text(said.settings_as_toml, "utf-8")
        copy = Path(folder, program.name)
        shutil.copyfile(program, copy)
        report = check_paths([copy], options)
        if report.skipped or not report.files:
            why = [reason.partition("please report it: ")[2] or reason for _, reason in report.skipped]
            reasons = "; ".join(why) or "it could not be read"
            return f"{program.name} was not checked: {reasons}"
        if report.faults:
            reasons = "; ".join(
                fault.reason.partition("please report it: ")[2] or fault.reason for _, fault in report.faults
            )
            return f"{program.name} was not checked: {reasons}"
        return sorted(
            file.source.position_of(finding.start)[0]
            for file in report.reports
            for finding in file.findings
            if finding.rule.code == code
        )


def main() -> None:
    """Check the proofs that standard input lists, and write a line of JSON for each."""
    import time

    for code, folder in json.load(sys.stdin):
        began = time.monotonic()
        try:
            found = proof_faults(code, Path(folder))
        except Exception as error:
            found = [f"raised {type(error).__name__}: {error}"]
        if "jax" in sys.modules:
            found.append("it imports jax: a rule must not")
            _forget_jax()
        said: dict[str, Any] = {"code": code, "failures": found, "seconds": time.monotonic() - began}
        print(json.dumps(said), flush=True)


def _forget_jax() -> None:
    """So that the next rule is not blamed."""
    for name in [name for name in sys.modules if name.partition(".")[0] in ("jax", "jaxlib")]:
        del sys.modules[name]


if __name__ == "__main__":
    main()
