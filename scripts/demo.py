"""The demo: check, fix and verify on a copy of a small project, ending in one honest line.

Exit code 0 only if everything that was wrong was seen to be wrong before, and everything was right after.
"""

from __future__ import annotations

import difflib
import os
import re
import shutil
import subprocess
import sys
import tempfile
import textwrap
import time
from collections.abc import Callable, Mapping
from pathlib import Path

PROJECT = Path(__file__).resolve().parent.parent / "fixtures" / "projects" / "charlm"

# The mistake no rule finds yet; only running the program shows it. Old text and new, in one file.
BY_HAND = "charlm/optim.py"
REPLACE = (
    ("import optax\n", "import optax\n\nfrom charlm.sharding import weight_shardings\n"),
    ("    return optimizer.init(", "    state = optimizer.init("),
    ("eqx.is_array))\n", "eqx.is_array))\n    return eqx.filter_shard(state, weight_shardings(state))\n"),
)
LEFT_FOR_HAND = "charlm.optim:init_optimizer"

_WIDTH = 150

Outcome = Mapping[str, str]
"""Fixture to "PASS", "FAIL" or "SKIP"."""


def outcome_by_fixture(report: str) -> dict[str, str]:
    """Return the results of `shardlint verify` by fixture: FAIL if a level failed, else PASS if one passed."""
    rank = ("SKIP", "PASS", "FAIL")
    found: dict[str, str] = {}
    for status, target in re.findall(r"^(PASS|FAIL|SKIP) (\S+)", report, re.MULTILINE):
        found[target] = max(status, found.get(target, "SKIP"), key=rank.index)
    return found


def find_problems(before: Outcome, fixed: Outcome, after: Outcome) -> list[str]:
    """Return the deviations: each fixture fails before, and passes after; one may need an edit by hand."""
    found = [f"{target} did not fail before" for target, status in before.items() if status != "FAIL"]
    found += [
        f"{target} still fails after `shardlint fix`"
        for target, status in fixed.items()
        if status != "PASS" and target != LEFT_FOR_HAND
    ]
    found += [f"{target} still fails" for target, status in after.items() if status != "PASS"]
    if not before.keys() == fixed.keys() == after.keys():
        found.append("not the same fixtures were verified each time")
    if LEFT_FOR_HAND not in before:
        found.append(f"{LEFT_FOR_HAND} was not verified")
    return found


def print_paragraph(text: str) -> None:
    """A paragraph of the demo's own words."""
    print("\n" + textwrap.fill(" ".join(text.split()), 110), flush=True)


def shorten_report(report: str) -> str:
    """Return the report of `shardlint verify` with a result for each function and the counts.

    Of a function that fails it is the first failure with its first line, else the last result that is no skip.
    """
    found: dict[str, tuple[str, ...]] = {}
    lines = report.splitlines()
    for line, below in zip(lines, [*lines[1:], ""], strict=True):
        result = re.match(r"(PASS|FAIL) (\S+)", line)
        if result is None or found.get(result[2], ("",))[0].startswith("FAIL"):
            continue
        reason = textwrap.shorten(below.strip(), _WIDTH, initial_indent="  ", placeholder=" ...")
        found[result[2]] = (line, reason) if result[1] == "FAIL" else (line,)
    counts = [line for line in lines if re.match(r"\d+ passed, ", line)]
    return "\n".join([*(line for result in found.values() for line in result), *counts])


def run_command(
    folder: Path, *arguments: str, shorten: Callable[[str], str] = str.rstrip
) -> tuple[int, str]:
    """Run shardlint in the project, and print the command and (most of) what it says.

    Raises `SystemExit` when it breaks down.
    """
    print(f"\n$ {' '.join(('shardlint', *arguments))}", flush=True)
    done = subprocess.run(
        [sys.executable, "-m", "shardlint", *arguments],
        cwd=folder,
        env={**os.environ, "NO_COLOR": "1"},
        text=True,
        capture_output=True,
    )
    # An uncaught exception ends Python with 1 too, as findings do.
    broken = done.returncode not in (0, 1) or "Traceback (most recent call last)" in done.stderr
    text = done.stdout + done.stderr
    print(textwrap.indent(text if broken else shorten(text), "    "), flush=True)
    if broken:
        raise SystemExit(f"The demo failed: shardlint {arguments[0]} broke down ({done.returncode}).")
    return done.returncode, done.stdout


def mend_by_hand(folder: Path) -> None:
    """Make the edit that a person makes after `shardlint verify` pointed at the optimizer, and show it as a diff."""
    path = folder / BY_HAND
    before = after = path.read_text("utf-8")
    for old, new in REPLACE:
        if after.count(old) != 1:
            raise SystemExit(f"demo: {BY_HAND} no longer holds {old!r}")
        after = after.replace(old, new)
    path.write_text(after, "utf-8")
    names = (f"a/{BY_HAND}", f"b/{BY_HAND}")
    diff = difflib.unified_diff(before.splitlines(), after.splitlines(), *names, lineterm="", n=1)
    print("\n" + textwrap.indent("\n".join(diff), "    "), flush=True)


def main() -> int:
    """Run the demo."""
    started = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="shardlint-demo-") as place:
        folder = Path(place) / PROJECT.name
        shutil.copytree(PROJECT, folder, ignore=shutil.ignore_patterns("__pycache__"))
        print_paragraph(
            """charlm is a small Equinox project that trains on 8 devices (here: simulated). It has five
            sharding mistakes that people really make. First, what reading the code finds. Nothing of it is
            run. Reports of verify are shortened here."""
        )
        found, _ = run_command(folder, "check")
        print_paragraph(
            """Is that right? Verify runs the functions on 8 simulated devices and compares with what
            shardlint_fixtures.py declares. All five must fail now:"""
        )
        _, report = run_command(folder, "verify", "--jobs", "2", shorten=shorten_report)
        before = outcome_by_fixture(report)
        print_paragraph("Now fix it, and verify again:")
        run_command(folder, "fix", "--unsafe-fixes")
        code, report = run_command(folder, "verify", "--jobs", "2", shorten=shorten_report)
        fixed = after = outcome_by_fixture(report)
        if fixed.get(LEFT_FOR_HAND) == "FAIL":
            print_paragraph(
                f"""One is left. An optimizer state made under jit is zeros that depend on no input, so
                nothing tells jax to split them. No rule finds it here; verify does, because it ran the
                program. So {BY_HAND} is fixed by hand:"""
            )
            mend_by_hand(folder)
            code, report = run_command(folder, "verify", "--jobs", "2", shorten=shorten_report)
            after = outcome_by_fixture(report)
        clean, _ = run_command(folder, "check")
    wrong = find_problems(before, fixed, after)
    if found != 1:
        wrong.append("`shardlint check` found nothing before")
    if clean != 0:
        wrong.append("`shardlint check` still finds something")
    if code != 0:
        wrong.append(f"the last `shardlint verify` ended with exit code {code}")
    seconds = time.monotonic() - started
    if wrong:
        print_paragraph(f"The demo failed: {'; '.join(wrong)}.")
        return 1
    by_fix = sum(status == "PASS" for status in fixed.values())
    by_hand = f", verify caught {len(before) - by_fix} more, fixed by hand" if fixed != after else ""
    print_paragraph(
        f"""Demo passed in {seconds:.0f} s: {len(before)} of {len(before)} functions were wrong before;
        `shardlint fix` fixed {by_fix}{by_hand}; now {len(after)} of {len(after)} have the declared
        shardings, and the same numbers as plain code on one device."""
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
