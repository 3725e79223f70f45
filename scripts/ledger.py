"""Findings on public code that nobody has judged yet, and a way to enter verdicts.

`python scripts/ledger.py unjudged FOLDER` checks every repository in FOLDER (bare mirrors, OWNER+NAME/repo, as they are
at their HEAD, or checkouts with a .git) and prints, one JSON object a line, what the ledger does not hold: the fields
of a verdict, with `verdict` and `reason` empty, and `message` and `text` for whoever judges. `add FILE` enters such
lines once they say right, harmless or wrong, and why. `--repository` (OWNER/NAME) and `--select` narrow the list.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))
import checkouts

from shardlint.config.certainty import Certainty
from shardlint.engine.results import Options
from shardlint.engine.run import check_paths
from shardlint.rules_api import ledger

LEDGER = Path(__file__).resolve().parent.parent / "rules" / "shardlint_rules" / "ledger"
_SHOWN = ("message", "text")


def find_unjudged(repository: str, commit: str, folder: Path, options: Options) -> Iterator[dict[str, Any]]:
    """The findings in a checkout that the ledger does not hold."""
    known: dict[str, set[tuple[str, str, str, str, int]]] = {}
    for file in check_paths([folder], options).reports:
        for finding in file.findings:
            line, _ = file.source.position_of(finding.start)
            code, path = finding.rule.code, file.path.relative_to(folder).as_posix()
            if code not in known:
                known[code] = {one.place_key for one in ledger.judged_findings(code)}
            if code.startswith("SL00") or (code, repository, commit, path, line) in known[code]:
                continue
            yield {
                "rule": code,
                "form": finding.form,
                "verdict": "",
                "repository": repository,
                "commit": commit,
                "path": path,
                "line": line,
                "reason": "",
                "message": f"{finding.certainty}: {finding.message}",
                "text": file.source.line_text(line).strip(),
            }


def iterate_repositories(folder: Path, wanted: Sequence[str]) -> Iterator[tuple[str, str, Path]]:
    """Repositories as OWNER/NAME, commit, and the folder that they are laid out in while this is looked at."""
    for mirror in checkouts.all_mirrors(folder):
        if wanted and mirror.repository not in wanted:
            continue
        with tempfile.TemporaryDirectory() as laid_out:
            try:
                commit = mirror.head_commit()
                mirror.lay_out(commit, Path(laid_out))
            except checkouts.NotAvailable as error:
                print(f"{mirror.repository}: not available: {error}", file=sys.stderr)
                continue
            yield mirror.repository, commit, Path(laid_out)
    for git in sorted(folder.resolve().glob("*/.git")):
        command = ["git", f"--git-dir={git}"]
        address = subprocess.run([*command, "remote", "get-url", "origin"], capture_output=True, text=True)
        commit = subprocess.run(
            [*command, "rev-parse", "HEAD"], capture_output=True, text=True
        ).stdout.strip()
        name = "/".join(address.stdout.strip().removesuffix(".git").replace(":", "/").split("/")[-2:])
        if not name or not commit:
            print(f"{git.parent}: its origin or its commit cannot be told", file=sys.stderr)
        elif not wanted or name in wanted:
            yield name, commit, git.parent


def add_verdicts(rows: Sequence[dict[str, Any]], folder: Path) -> int:
    """Enter verdicts; returns how many were new. Raises `BadLedger` and enters nothing when one cannot be used."""
    judged = []
    for number, row in enumerate(rows, 1):
        try:
            judged.append(ledger.parse_judgement({key: value for key, value in row.items() if key not in _SHOWN}))
        except (ValueError, TypeError) as error:
            raise ledger.BadLedger(f"verdict {number}: {error}") from None
    added = 0
    for code in sorted({one.rule for one in judged}):
        path = folder / f"{code}.jsonl"
        known = {one.place_key: one for one in ledger.read_judgements(path)}
        before = len(known)
        known.update((one.place_key, one) for one in judged if one.rule == code)
        added += len(known) - before
        order = sorted(known.values(), key=lambda one: (one.repository, one.commit, one.path, one.line))
        folder.mkdir(exist_ok=True)
        path.write_text("".join(json.dumps(asdict(one), ensure_ascii=False) + "\n" for one in order), "utf-8")
    return added


def main() -> int:
    """List what is not judged, or add verdicts."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("command", choices=("unjudged", "add"))
    parser.add_argument("path", type=Path, help="the folder to look at, or the file of verdicts")
    parser.add_argument("--repository", action="append", default=[], metavar="OWNER/NAME")
    parser.add_argument("--select", action="append", default=[], metavar="RULES")
    parser.add_argument("--certainty", type=Certainty, default=Certainty.POSSIBLE)
    options = parser.parse_args()
    if options.command == "add":
        rows = [json.loads(line) for line in options.path.read_text("utf-8").splitlines() if line.strip()]
        try:
            print(f"{add_verdicts(rows, LEDGER)} new, {len(rows)} verdicts; run scripts/docs.py")
        except ledger.BadLedger as error:
            print(error, file=sys.stderr)
            return 1
        return 0
    asked = Options(certainty=options.certainty, select=tuple(options.select))
    for repository, commit, folder in iterate_repositories(options.path, options.repository):
        for row in find_unjudged(repository, commit, folder, asked):
            print(json.dumps(row, ensure_ascii=False), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
