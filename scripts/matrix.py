"""The proofs of all rules on several releases of jax and the frameworks, each in an environment under .matrix/.

`python scripts/matrix.py` makes the environments that are not there yet, runs `shardlint verify --rules`
with each, and writes evaluation/matrix.md. `--only 0.8.3` runs one release and writes nothing; `--codes SL212,SL319`
runs these rules alone on all releases and writes their rows.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
TABLE = ROOT / "evaluation" / "matrix.md"
_SHOWN = ("jax", "equinox", "flax", "haliax", "einshard", "python")


@dataclass(frozen=True)
class Release:
    """A column of the matrix. `pythons` are tried in order, and the first one present is used. `codes` are the rules
    that are proven there.
    """

    jax: str
    others: tuple[str, ...]
    pythons: tuple[str, ...] = ("3.12", "3.13")
    codes: str = "all"

    @property
    def release_name(self) -> str:
        """How the table heads it."""
        return ", ".join(requirement.replace("==", " ") for requirement in (f"jax=={self.jax}", *self.others))

    @property
    def environment_folder(self) -> Path:
        """Its environment."""
        flax = next((f"-flax-{one[6:]}" for one in self.others if one.startswith("flax==")), "")
        return ROOT / ".matrix" / f"jax-{self.jax.removesuffix('.*')}{flax}"

    def pip_requirements(self) -> list[str]:
        """Return the requirements for pip."""
        return [f"jax=={self.jax}", f"jaxlib=={self.jax}", *self.others, "optax"]


# einshard needs Python 3.12. Of flax there is a row for each release that changed what a sharding mistake does.
RELEASES = (
    Release("0.4.38", ("equinox==0.11.11", "einshard==0.2.0", "numpy<2.3")),
    Release("0.5.3", ("flax==0.10.4",), ("3.11", "3.12"), "SL5"),
    Release("0.6.2", ("equinox==0.12.2", "haliax==1.4.dev453"), ("3.11", "3.12", "3.13")),
    Release("0.7.2", ("flax==0.11.2",), ("3.11", "3.12", "3.13"), "SL5"),
    Release("0.8.1", ("flax==0.12.0",), ("3.11", "3.12", "3.13"), "SL5"),
    Release("0.8.3", ("equinox==0.13.8",), ("3.11", "3.12", "3.13")),
    Release("0.8.3", ("flax==0.12.4",), ("3.11", "3.12", "3.13"), "SL5"),
    Release("0.8.3", ("flax==0.12.6",), ("3.11", "3.12", "3.13"), "SL5"),
    Release("0.10.2", ("equinox==0.13.8",), ("3.11", "3.12", "3.13")),
    Release(
        "0.12.*",
        ("equinox==0.13.8", "flax==0.12.12", "haliax==1.4.dev453", "einshard==0.2.0"),
        ("3.13", "3.12"),
    ),
)


def prepare_environment(release: Release) -> Path:
    """The Python of a release's environment, made anew where it is missing or holds something else."""
    stamp = release.environment_folder / "ready"
    wanted = "\n".join(release.pip_requirements())
    python = release.environment_folder / "bin" / "python"
    if not (stamp.is_file() and stamp.read_text("utf-8") == wanted):
        found = subprocess.run(
            ["sh", "scripts/python.sh", *release.pythons], cwd=ROOT, text=True, stdout=subprocess.PIPE
        )
        if found.returncode:
            raise SystemExit(f"no Python for {release.release_name}")
        if python.exists() and _python_version(python) != _python_version(found.stdout.strip()):
            shutil.rmtree(release.environment_folder)
        environment = {**os.environ, "PYTHON": found.stdout.strip()}
        command = ["sh", "scripts/environment.sh", str(release.environment_folder.relative_to(ROOT)), "ready"]
        if subprocess.run([*command, *release.pip_requirements()], cwd=ROOT, env=environment).returncode:
            raise SystemExit(f"no environment for {release.release_name}")
        stamp.write_text(wanted, "utf-8")
    return python


def _python_version(python: str | Path) -> str:
    return subprocess.run([python, "-V"], capture_output=True, text=True).stdout


def verify_rules(python: Path, codes: str) -> dict[str, Any]:
    """The report of `shardlint verify --rules CODES` with this Python."""
    command = [sys.executable, "-m", "shardlint", "verify", "--rules", codes, "--python", str(python)]
    done = subprocess.run([*command, "--output-format", "json"], cwd=ROOT, text=True, stdout=subprocess.PIPE)
    if done.returncode not in (0, 1) or not done.stdout.startswith("{"):
        raise SystemExit(f"shardlint verify could not be run with {python}")
    report: dict[str, Any] = json.loads(done.stdout)
    return report


def cells_by_rule(report: Mapping[str, Any]) -> dict[str, str]:
    """Rule to what its proof showed: "holds", "-" (not claimed for these releases) or "FAILS"."""
    found: dict[str, str] = {}
    rank = ("-", "holds", "FAILS")
    for result in report["results"]:
        cell = {"pass": "holds", "skip": "-", "fail": "FAILS"}[result["status"]]
        found[result["target"]] = max(cell, found.get(result["target"], "-"), key=rank.index)
    return found


def matrix_table(reports: Sequence[tuple[Release, Mapping[str, Any]]]) -> str:
    """evaluation/matrix.md."""
    columns = []
    for _, report in reports:
        shown = [(name, report["releases"].get(name)) for name in _SHOWN]
        columns.append(", ".join(f"{name} {version}" for name, version in shown if version))
    found = [cells_by_rule(report) for _, report in reports]
    codes = sorted({code for column in found for code in column})
    lines = [
        "# Proofs by release",
        "",
        "`make matrix` runs `shardlint verify --rules all` in an environment for each release. Each rule's `bad.py`",
        "must show its mistake there, and its `good.py` must not, with the same numbers. A dash: the proof claims",
        "nothing for these releases. Empty: not run there.",
        "",
        f"| rule | {' | '.join(columns)} |",
        f"|---|{'---|' * len(columns)}",
    ]
    for code in codes:
        lines.append(table_row(code, found))
    return "\n".join(lines) + "\n"


def table_row(code: str, found: Sequence[Mapping[str, str]]) -> str:
    """The line of a rule in the table."""
    return f"| [{code}](../docs/rules/{code}.md) | {' | '.join(column.get(code, '') for column in found)} |"


def merge_table(text: str, codes: Sequence[str], found: Sequence[Mapping[str, str]]) -> str:
    """The table with the lines of these rules made anew."""
    head, _, body = text.partition("|---|")
    first, *kept = body.splitlines()
    rows = {line.partition("]")[0].removeprefix("| ["): line for line in kept}
    rows |= {code: table_row(code, found) for code in codes}
    return "\n".join([f"{head}|---|{first}", *(rows[code] for code in sorted(rows))]) + "\n"


def main() -> int:
    """Run the matrix."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", metavar="JAX", help="one release of jax")
    parser.add_argument("--codes", metavar="CODES", help="these rules alone, with commas between")
    asked = parser.parse_args()
    only, codes = asked.only, asked.codes.split(",") if asked.codes else []
    chosen = [release for release in RELEASES if only in (None, release.jax)]
    if not chosen:
        parser.error(f"there is no {only}; there are {', '.join(release.jax for release in RELEASES)}")
    reports = []
    failed = False
    for release in chosen:
        started = time.monotonic()
        here = [code for code in codes if release.codes == "all" or code.startswith(release.codes)]
        if codes and not here:
            reports.append((release, {"results": []}))
            continue
        report = verify_rules(prepare_environment(release), ",".join(here) or release.codes)
        reports.append((release, report))
        seconds = time.monotonic() - started
        counts = f"{report['passed']} passed, {report['failed']} failed, {report['skipped']} skipped"
        print(f"{release.release_name}: {counts} ({seconds:.0f} s)", flush=True)
        for result in report["results"]:
            if result["status"] == "fail":
                failed = True
                said = "; ".join(failure["message"] for failure in result["failures"])
                print(f"  {result['target']} {result['level']}: {said}", flush=True)
    if only is None:
        found = [cells_by_rule(report) for _, report in reports]
        text = merge_table(TABLE.read_text("utf-8"), codes, found) if codes else matrix_table(reports)
        TABLE.write_text(text, "utf-8")
        print(f"{TABLE.relative_to(ROOT)} written")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
