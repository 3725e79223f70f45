"""Run several programs under the environment of `shardlint run` with one import of jax, and report on each."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from shardlint.run import launch
from shardlint.run.dumps import collect_dumps
from shardlint.run.examine import examine_run, least_reported_bytes
from shardlint.run.findings import Facts
from shardlint.run.observed.events import load_events

PYTHON = os.environ.get("SHARDLINT_TEST_PYTHON", sys.executable)
_FORKS = """
import atexit, json, os, runpy, sys
todo, done, running = json.loads(sys.argv[1]), [], {}
for name in ("jax", "jax.numpy", "optax", "equinox", "flax.linen", "flax.jax_utils"):
    try:
        __import__(name)
    except ImportError:
        pass
def wait():
    pid, status = os.wait()
    done.append([running.pop(pid), pid, os.waitstatus_to_exitcode(status)])
for path in todo:
    if len(running) == int(sys.argv[2]):
        wait()
    pid = os.fork()
    if pid == 0:
        os.dup2(os.open(os.path.join(os.environ["SHARDLINT_RUN_FOLDER"], f"{os.getpid()}.log"), os.O_WRONLY | os.O_CREAT), 1)
        os.dup2(1, 2)
        code = 1
        try:
            sys.argv[:] = [path]
            runpy.run_path(path, run_name="__main__")
            code = 0
            atexit._run_exitfuncs()
        except BaseException:
            import traceback
            traceback.print_exc()
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(code)
    running[pid] = path
while running:
    wait()
print(json.dumps(done))
"""


@dataclass
class Ran:
    """How a program ended, what it wrote, and what its report says."""

    code: int
    output: str
    facts: Facts

    def at(self, file: Path) -> dict[int, set[str]]:
        """The kinds of what was found, by each line of the file that a finding names."""
        lines: dict[int, set[str]] = {}
        for found in self.facts.found:
            for line in (found.line, *(line for _, line in found.see)):
                if Path(line.file) == file:
                    lines.setdefault(line.line, set()).update((found.kind, found.code))
        return lines


def run(programs: Sequence[Path], folder: Path, at_once: int = 2) -> dict[Path, Ran]:
    """Each of the programs, in a process of its own."""
    apart = [path for path in programs if "os.environ" in path.read_text()]
    ran = {}
    together = [path for path in programs if path not in apart]
    for number, group in enumerate(([together] if together else []) + [[path] for path in apart]):
        place = folder / f"group{number}"
        place.mkdir(parents=True)
        env = launch.run_environment(place, 8, False, dict(os.environ))
        if group is together:
            words = [PYTHON, "-c", _FORKS, json.dumps([str(path) for path in group]), str(at_once)]
            ended = subprocess.run(words, env=env, capture_output=True, text=True, check=True)
            done = json.loads(ended.stdout.splitlines()[-1])
        else:
            words = [PYTHON, str(group[0])]
            with subprocess.Popen(
                words, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
            ) as child:
                output = child.communicate()[0]
            (place / f"{child.pid}.log").write_text(output)
            done = [[str(group[0]), child.pid, child.returncode]]
        for path, pid, code in done:
            compiled, _ = collect_dumps(place / str(pid))
            events = load_events(place, f"{pid}.jsonl")
            facts = examine_run(compiled, least_reported_bytes(compiled, events), events)
            facts.notes += events.failed
            ran[Path(path)] = Ran(code, (place / f"{pid}.log").read_text(), facts)
    return ran
