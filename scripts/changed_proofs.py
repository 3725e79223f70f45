"""Runs the proofs of the rules that changed since they last held, and a few of the others.

    scripts/changed_proofs.py          # those whose rule, helpers or programs changed, and a few others
    scripts/changed_proofs.py --rest   # all others that do not hold yet on this shardlint and these releases

`build/proofs.json` records what held: the next run begins there.
"""

from __future__ import annotations

import argparse
import ast
import hashlib
import importlib.metadata
import json
import os
import subprocess
import sys
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import NamedTuple

import shardlint
from shardlint.rules_api.registry import proof_folders, rule_entries

ROOT = Path(__file__).resolve().parent.parent
RECORD = ROOT / "build" / "proofs.json"
# How many proofs a run without --rest has at least and at most.
FEW, MOST = 8, 48
ENGINE = Path(shardlint.__file__).parent
# Packages whose modules are read for a rule that imports them; a change of any other module concerns all rules.
READ = ("shardlint_rules", "shardlint.facts", "shardlint.libraries")
RELEASES = ("jax", "jaxlib", "numpy", "equinox", "flax", "haliax", "einshard", "optax", "orbax-checkpoint")


class State(NamedTuple):
    """Digests of what a proof rests on: `near` its rule, helpers and programs, `far` shardlint and the releases."""

    near: str
    far: str


def main(arguments: Sequence[str] = ()) -> int:
    """Run proofs and record what holds; the exit code of `shardlint verify`."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--rest", action="store_true", help="all proofs that do not hold yet")
    rest = parser.parse_args(arguments or None).rest
    states, proven = current_states(), read_record()
    pending = [code for code, state in states.items() if proven.get(code) != state]
    chosen = pending if rest else choose_codes(states, proven)
    if not chosen:
        print("All proofs hold, and nothing they rest on has changed.")
        return 0
    left = len(pending) - len(chosen)
    print(f"{len(chosen)} of {len(states)} proofs; {left} are left for `make test-all`.", flush=True)
    command = [sys.executable, "-m", "shardlint", "verify", "--jobs", "2", "--rules", ",".join(chosen)]
    # What proofs show does not depend on how good the code for the CPU is.
    environment = {**os.environ, "JAX_DISABLE_MOST_OPTIMIZATIONS": "1"}
    code = subprocess.run(command, cwd=ROOT, env=environment, check=False).returncode
    if code == 0:
        write_record({**proven, **{one: states[one] for one in chosen}})
    return code


def choose_codes(states: dict[str, State], proven: dict[str, State]) -> list[str]:
    """The codes of the rules that changed, at most MOST, and of other pending ones so many that there are FEW."""
    changed = [code for code, state in states.items() if code in proven and proven[code].near != state.near]
    others = [code for code, state in states.items() if code not in changed and proven.get(code) != state]
    changed = spread_codes(changed, MOST)
    return sorted({*changed, *spread_codes(others, max(FEW - len(changed), 0))})


def spread_codes(codes: Sequence[str], most: int) -> list[str]:
    """At most so many of them, at even distances."""
    if len(codes) <= most:
        return list(codes)
    return [codes[number * len(codes) // most] for number in range(most)]


def current_states() -> dict[str, State]:
    """The state of each rule with a proof, by code."""
    far = digest_files(sorted(ENGINE.rglob("*.py")), (sys.version, *installed_packages()))
    states = {}
    for code, folder in proof_folders().items():
        module = rule_entries()[code].where.partition(":")[0]
        files = [folder / name for name in ("bad.py", "good.py", "proof.toml")]
        states[code] = State(digest_files((*sorted(modules_below(module)), *files)), far)
    return states


def installed_packages() -> Iterator[str]:
    """The packages that programs of proofs use, with their releases."""
    for name in RELEASES:
        try:
            yield f"{name} {importlib.metadata.version(name)}"
        except importlib.metadata.PackageNotFoundError:
            continue


def digest_files(files: Iterable[Path], words: Iterable[str] = ()) -> str:
    """A digest of the contents of files, in order, and of words."""
    found = hashlib.sha256("\n".join(words).encode())
    for file in files:
        found.update(hashlib.sha256(file.read_bytes() if file.is_file() else b"").digest())
    return found.hexdigest()


def modules_below(module: str) -> set[Path]:
    """The files of a module and of all it imports, directly or not, that are in READ."""
    found: set[Path] = set()
    waiting = [module]
    while waiting:
        file = file_of(waiting.pop())
        if file is not None and file not in found:
            found.add(file)
            waiting += imported_modules(file)
    return found


@cache
def file_of(module: str) -> Path | None:
    """The file of a module in READ; None of any other."""
    if not module.startswith(READ):
        return None
    top, *parts = module.split(".")
    base = ROOT / "rules" / top if top == "shardlint_rules" else ENGINE
    path = base.joinpath(*parts)
    return next((file for file in (path.with_suffix(".py"), path / "__init__.py") if file.is_file()), None)


@cache
def imported_modules(file: Path) -> tuple[str, ...]:
    """The names of modules that a file may import; some are names in modules."""
    found: list[str] = []
    for node in ast.walk(ast.parse(file.read_bytes())):
        if isinstance(node, ast.Import):
            found += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            found += [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
    return tuple(found)


def read_record() -> dict[str, State]:
    """Return the results of earlier runs; empty if the record cannot be read."""
    try:
        return {code: State(*state) for code, state in json.loads(RECORD.read_text("utf-8")).items()}
    except (OSError, ValueError, TypeError, AttributeError):
        return {}


def write_record(proven: dict[str, State]) -> None:
    """Record what holds."""
    RECORD.parent.mkdir(exist_ok=True)
    RECORD.write_text(json.dumps(proven, indent=1, sort_keys=True) + "\n", "utf-8")


if __name__ == "__main__":
    sys.exit(main())
