"""Fixes generated projects of several files, whose mesh contexts move together or not at all, and runs them.

    python scripts/fuzz_projects.py --projects 400 --seed 1 --seconds 1200

The mesh is made in one file, entered in others, and read by functions in more. Of each project: every file parses
after, no import is unused that was used, a second run changes nothing, what reads a mesh has moved with all that enters
one or nothing has, and its `main()` gives the numbers and the shardings that it gave, on 8 simulated devices. Project N
of a seed depends on nothing but the seed. Exit code: 0 nothing failed, 1 something did. `--no-run` leaves the runs out.
"""

from __future__ import annotations

import argparse
import ast
import collections
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from random import Random

from shardlint.engine.results import Options
from shardlint.rewrite.fix import FixReport, fix_files

TARGETS = {"jax": "0.12.0", "flax": "0.12.12", "equinox": "0.13.8"}
OPTIONS = Options(targets=TARGETS, select=("SL307", "SL315", "SL9"))
Counts = collections.Counter[str]
Files = dict[str, str]
_BATCH = 20
_DEVICES = "np.array(jax.devices()).reshape(4, 2)"
_MAKE = f'Mesh({_DEVICES}, ("data", "model"))'
_PARTS = {
    section.partition(":")[0]: section.partition("\n")[2].split("---\n")
    for section in Path(__file__).with_suffix(".txt").read_text("utf-8").split("=== ")[1:]
}
_SPECS = ('P("data")', 'P("data", None)', 'P(None, "model")', "P()", 'P(("data", "model"))', 'P("data", "model")')
_HEAD = (
    "import contextlib\nimport dataclasses\nimport time\nfrom functools import partial\n\nimport jax\n"
    "import jax.numpy as jnp\nimport numpy as np\nfrom jax.sharding import Mesh, NamedSharding, PartitionSpec as P\n"
)
_X = "np.arange(64, dtype=np.float32).reshape(8, 8)"
_OLD = re.compile(r"\bpjit\b|thread_resources|\bwith (?!jax\.set_mesh|contextlib)[\w.]*(?:mesh|Mesh|MESH)")
_RUN = """\
import importlib, json, sys, warnings
import jax, numpy as np
warnings.simplefilter("ignore")
def shown(leaf):
    if not isinstance(leaf, jax.Array):
        return [np.asarray(leaf).tolist(), {}]
    whole = leaf.sharding.is_fully_replicated or len(leaf.sharding.device_set) == 1
    slices = {} if whole else {d.id: str(i) for d, i in leaf.sharding.devices_indices_map(leaf.shape).items()}
    return [np.asarray(leaf).tolist(), slices]
found = {}
for folder in sys.argv[1:]:
    sys.path.insert(0, folder)
    known = set(sys.modules)
    try:
        found[folder] = [shown(leaf) for leaf in jax.tree.leaves(importlib.import_module("main").main())]
    except Exception as error:
        found[folder] = f"{type(error).__name__}: {error}"[:300]
    sys.path.remove(folder)
    for name in set(sys.modules) - known:
        if getattr(sys.modules[name], "__file__", None) and str(sys.modules[name].__file__).startswith(folder):
            del sys.modules[name]
    importlib.invalidate_caches()
print(json.dumps(found))
"""


def make_project(seed: int, number: int) -> Files:
    """The files of a project, by their paths."""
    chance = Random(f"{seed}/project/{number}")
    package = chance.random() < 0.4
    folder = "pkg/" if package else ""
    files: Files = {"setup.cfg": "", **({"pkg/__init__.py": ""} if package else {})}
    how, _, making = chance.choice(_PARTS["meshes"]).partition("\n")
    taken, _, entered = how.removeprefix("# ").partition(": ")
    files[f"{folder}meshes.py"] = _remove_unused_imports(f"{_HEAD}\n{making.replace('{make}', _MAKE)}")
    functions: list[tuple[str, str]] = []
    for part in range(chance.choice((1, 1, 2))):
        text, imports = "", set()
        for _ in range(chance.choice((1, 2, 2, 3))):
            body = chance.choice(_PARTS["readers"] if chance.random() < 0.6 else _PARTS["others"])
            if body.startswith("from"):
                extra, _, body = body.partition("\n")
                imports.add(extra)
            k = str(len(functions))
            told = {"k": k, "n": str(chance.randint(1, 9)), "s": chance.choice(_SPECS), "t": chance.choice(_SPECS)}
            text += "\n\n" + _fill_placeholders(body, told)
            functions.append((f"parts{part}", f"f{k}"))
        head = _HEAD + "".join(f"{one}\n" for one in sorted(imports))
        files[f"{folder}parts{part}.py"] = _remove_unused_imports(head + text)
    runs = []
    for user in range(chance.choice((1, 2, 2, 3))):
        k = str(user)
        lines, mesh = _import_line("meshes", taken, package, chance)
        calls = _X
        for module, name in chance.sample(functions, k=min(len(functions), chance.choice((1, 1, 2)))):
            line, written = _import_line(module, name, package, chance)
            lines, calls = lines + line, f"{written}({calls})"
        body = _fill_placeholders(
            chance.choice(_PARTS["enters"]), {"k": k, "m": entered.format(o=mesh), "c": calls}
        )
        files[f"{folder}use{k}.py"] = _remove_unused_imports(f"{_HEAD}{lines}\n\n{body}")
        runs.append(k)
    root = "pkg." if package else ""
    imports = "".join(f"from {root}use{k} import run{k}\n" for k in runs)
    users = [text for path, text in files.items() if "/use" in f"/{path}"]
    for module in sorted({module for module, _ in functions}):
        if not any(re.search(rf"\b{module}\b", text) for text in users):  # nothing joins it to what runs
            imports += f"import {root}{module}  # noqa: F401\n"
    files["main.py"] = f"{imports}\n\ndef main():\n    return [{', '.join(f'run{k}()' for k in runs)}]\n"
    return files


def _fill_placeholders(text: str, told: dict[str, str]) -> str:
    for key, value in told.items():
        text = text.replace(f"{{{key}}}", value)
    return text


def _import_line(module: str, name: str, package: bool, chance: Random) -> tuple[str, str]:
    """The line that takes a name of a module, and how it is written then."""
    ways = [
        (f"from {module} import {name}", name),
        (f"import {module}", f"{module}.{name}"),
        (f"import {module} as _{module}", f"_{module}.{name}"),
    ]
    if package:
        ways = [
            (f"from .{module} import {name}", name),
            (f"from pkg.{module} import {name}", name),
            (f"from . import {module}", f"{module}.{name}"),
            (f"import pkg.{module}", f"pkg.{module}.{name}"),
        ]
    line, written = chance.choice(ways)
    return f"{line}\n", written


def _remove_unused_imports(text: str) -> str:
    """The text without the imports that it does not use."""
    head, _, body = text.partition("PartitionSpec as P\n")
    kept = []
    for line in f"{head}PartitionSpec as P".split("\n"):
        if line.startswith("from jax.sharding"):
            said = [name for name in ("Mesh", "NamedSharding") if re.search(rf"\b{name}\b", body)]
            said += ["PartitionSpec as P"] if re.search(r"\bP\(", body) else []
            kept += [f"from jax.sharding import {', '.join(said)}"] if said else []
        elif not line or re.search(rf"\b{line.split()[-1]}\b", body):
            kept.append(line)
    return "\n".join(kept).strip("\n") + f"\n{body}"


def explain_wrong_fix(files: Files, after: Files, report: FixReport) -> str:
    """Return the fault of a fixed project; empty if there is none."""
    for outcome in report.fixed:
        if outcome.problem:
            return outcome.problem
    for name, text in after.items():
        if name.endswith(".py"):
            try:
                ast.parse(text)
            except SyntaxError as error:
                return f"{name} does not parse: {error}"
    reads = any(re.search(r"\bpjit\b|thread_resources", text) for text in files.values())
    old = sum(len(_OLD.findall(text)) for text in files.values())
    left = sum(len(_OLD.findall(text)) for text in after.values())
    if reads and left not in (0, old):
        return f"moved in parts: {left} of {old} left"
    return ""


def read_texts(folder: Path) -> Files:
    """The files of a folder, by their paths in it."""
    paths = (path for path in sorted(folder.rglob("*")) if path.is_file())
    return {path.relative_to(folder).as_posix(): path.read_text() for path in paths}


def fix_batch(seed: int, numbers: Sequence[int], folder: Path, keep: Path, run: bool) -> Counts:
    """Fix some projects and look at what came of them."""
    counts: Counts = collections.Counter()
    said: dict[str, str] = {}
    made = {f"p{number}": make_project(seed, number) for number in numbers}
    for state in ("before", "after"):
        for name, files in made.items():
            for path, text in files.items():
                (folder / state / name / path).parent.mkdir(parents=True, exist_ok=True)
                (folder / state / name / path).write_text(text)
    for name, files in made.items():
        here = folder / "after" / name
        report = fix_files([here], OPTIONS, unsafe=True, write=True)
        after = read_texts(here)
        counts["projects"] += 1
        counts["files"] += len(files)
        counts["changed"] += after != files
        counts["moved"] += any("set_mesh" in text for text in after.values())
        counts["places"] += sum(len(outcome.done) for outcome in report.fixed)
        said[name] = explain_wrong_fix(files, after, report)
        again = fix_files([here], OPTIONS, unsafe=True, write=True)
        if any(outcome.is_changed for outcome in again.fixed) and not said[name]:
            said[name] = "a second run changes it"
    for path in _unused_imports(folder / "after") - _unused_imports(folder / "before"):
        name = path.partition("/")[0]
        said[name] = said[name] or f"an unused import: {path}"
    if run:
        was, now = (_run_projects(folder / state, list(made)) for state in ("before", "after"))
        for name in made:
            counts["ran"] += not isinstance(was[name], str)
            if not isinstance(was[name], str) and was[name] != now[name]:
                said[name] = said[name] or f"gives another result: {str(now[name])[:300]}"
    for name, why in said.items():
        if why:
            counts["failures"] += 1
            shutil.copytree(folder / "before" / name, keep / name, dirs_exist_ok=True)
            print(f"{name}: {why}", flush=True)
    return counts


def _unused_imports(folder: Path) -> set[str]:
    """Imports that nothing uses, and names that nothing defines, with their files."""
    what = ["--isolated", "--select", "F401,F811,F821", "--output-format", "json"]
    command = [sys.executable, "-m", "ruff", "check", *what, "."]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    base = f"{folder.resolve()}/"
    found = ((one["filename"].removeprefix(base), one["message"]) for one in json.loads(done.stdout))
    return {f"{name} {re.sub(r' from line [0-9]+', '', message)}" for name, message in found}  # a fix moves lines


def _run_projects(folder: Path, names: Sequence[str]) -> dict[str, object]:
    """Return the result of main() of each project; an error as text."""
    environment = {key: value for key, value in os.environ.items() if not key.startswith(("JAX_", "XLA_"))}
    environment |= {"XLA_FLAGS": "--xla_force_host_platform_device_count=8", "JAX_PLATFORMS": "cpu"}
    command = [sys.executable, "-c", _RUN, *(str(folder / name) for name in names)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=600, check=False)
    if done.returncode:
        raise SystemExit(done.stderr[-2000:])
    return {Path(path).name: result for path, result in json.loads(done.stdout).items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--projects", type=int, default=400)
    parser.add_argument("--start", type=int, default=0, help="number of the first project")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=float("inf"), help="end after so long and say how far it came")
    parser.add_argument("--keep", type=Path, default=Path("fuzz-failures"), help="folder for what fails")
    parser.add_argument("--no-run", action="store_true", help="run no program")
    given = parser.parse_args()
    scratch = Path(tempfile.mkdtemp(prefix="shardlint-fuzz-"))
    begun = time.monotonic()
    counts: Counts = collections.Counter()
    try:
        for first in range(given.start, given.start + given.projects, _BATCH):
            if time.monotonic() - begun > given.seconds:
                break
            numbers = range(first, min(first + _BATCH, given.start + given.projects))
            counts += fix_batch(given.seed, numbers, scratch / "projects", given.keep, not given.no_run)
            shutil.rmtree(scratch / "projects")
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    print(json.dumps({"seed": given.seed, "seconds": round(time.monotonic() - begun), **dict(sorted(counts.items()))}))
    raise SystemExit(1 if counts["failures"] else 0)


if __name__ == "__main__":
    main()
