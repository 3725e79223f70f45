"""Has the fixtures verified, and takes out what does not hold until they pass; then writes their goldens.

What the program did with its own arrays need not be what it does with arrays of the same form, placed as a fixture
places them. What is taken out is said in the file.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from shardlint.run.init.recorded_calls import Function
from shardlint.run.init.write import fixture_file
from shardlint.verify.cannot_run import CannotRun

_ROUNDS = 6


def keep_passing_fixtures(functions: Sequence[Function], file: Path, command: str, options: Sequence[str]) -> None:
    """Write the file, and leave in it what passes. Raises `CannotRun` where nothing could be verified."""
    for _ in range(_ROUNDS):
        file.write_text(fixture_file(functions, command), "utf-8")
        if all(one.broken for one in functions):
            return
        report = _verify_file(file, [*options, "--update"])
        if not _remove_failed(functions, report["results"]):
            return
    for one in functions:  # still not settled: the next to fail is not to be a surprise
        one.broken = one.broken or "its properties differ from run to run"
    file.write_text(fixture_file(functions, command), "utf-8")


def _verify_file(file: Path, options: Sequence[str]) -> dict[str, Any]:
    words = [sys.executable, "-m", "shardlint", "verify", str(file), "--output-format", "json", *options]
    ended = subprocess.run(words, capture_output=True, text=True, check=False)
    if ended.returncode not in (0, 1):
        raise CannotRun(ended.stderr.strip() or f"{' '.join(words)} ended with {ended.returncode}")
    found: dict[str, Any] = json.loads(ended.stdout)
    for result in found["results"]:
        if (
            not result["fixture"] and result["failures"]
        ):  # the file as a whole: its program cannot be imported
            raise CannotRun(f"{file}: {result['failures'][0]['message']}")
    return found


def _remove_failed(functions: Sequence[Function], results: Sequence[Mapping[str, Any]]) -> bool:
    """Take out what failed; whether anything did."""
    changed = False
    for one in functions:
        if one.broken:
            continue
        mine = [result for result in results if result["fixture"].endswith(f"::{one.name}")]
        failures = [failure for result in mine for failure in result["failures"]]
        passed = any(result["status"] == "pass" for result in mine)
        if one.explicit and one.places and any(result["level"] == "trace" and result["failures"] for result in mine):
            # What places arrays by itself says little of them in types.
            one.explicit = False
            changed = True
        elif failures:
            _take_out(one, failures)
            changed = True
        elif not passed:
            reasons = [result["reason"] for result in mine if result["reason"]]
            one.broken = reasons[0] if reasons else "no level could check it"
            changed = True
    return changed


def _take_out(function: Function, failures: Sequence[Mapping[str, Any]]) -> None:
    """The least that has to go for these failures not to come again."""
    before = _declared_counts(function)
    for failure in failures:
        kind, path = failure["kind"], failure["path"]
        if kind == "sharding" and path in function.out:
            spec = function.out.pop(path)
            function.unplaced.append(path)
            function.dropped.append(
                f"out {path!r} as {spec}: the sharding in the program's run, but here it is {failure['actual']}"
            )
        elif kind == "sharding" and path not in function.unplaced:  # a glob takes it, and the run said nothing of it
            function.unplaced.append(path)
        elif kind == "donation":
            index = re.match(r"args\[(\d+)\]", failure["where"])
            if index is not None and int(index[1]) in function.donate:
                function.donate.remove(int(index[1]))
                function.dropped.append(f"donate {index[1]}: {_first_line(failure)}")
        elif kind in ("numbers", "raised", "stopped", "replicas", "distrust") and function.reference:
            function.reference = False
            function.dropped.append(f"reference: {_first_line(failure)}")
    if before == _declared_counts(function):
        function.broken = _first_line(failures[0])


def _declared_counts(function: Function) -> tuple[int, ...]:
    return len(function.out), len(function.unplaced), len(function.donate), function.reference


def _first_line(failure: Mapping[str, Any]) -> str:
    text = " ".join(part for part in (failure["where"], failure["message"]) if part)
    return text.splitlines()[0][:200] if text else str(failure["kind"])
