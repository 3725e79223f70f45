"""Runs the programs of the recall test set: each bad one must show its consequence, each good one must not.

    python tests/mistakes/run.py            # all of them
    python tests/mistakes/run.py 03 17 40   # those whose names begin so

Needs jax, flax, equinox, optax, haliax and einshard. Devices are simulated: eight in one process, or four in each of two.
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

HERE = Path(__file__).parent
IGNORED = shutil.ignore_patterns("__pycache__", ".pytest_cache")


def _port() -> int:
    with socket.socket() as free:
        free.bind(("localhost", 0))
        return int(free.getsockname()[1])


def _environment(case: dict[str, object], number: int, port: int) -> dict[str, str]:
    processes = int(str(case.get("processes", 1)))
    env = {name: value for name, value in os.environ.items() if not name.startswith(("JAX_", "XLA_"))}
    env |= {"JAX_PLATFORMS": "cpu", "PYTHONPATH": ".", "PYTHONDONTWRITEBYTECODE": "1"}
    if case.get("simulate", True):
        env["XLA_FLAGS"] = f"--xla_force_host_platform_device_count={8 // processes}"
    if processes > 1:
        env |= {
            "COORDINATOR": f"localhost:{port}",
            "NUM_PROCESSES": str(processes),
            "PROCESS_ID": str(number),
        }
    return env


def output(case: dict[str, object], project: Path, seconds: float = 120) -> str:
    """What the program prints, all of its processes together. A process that does not end says `did not end`."""
    port = _port()
    with tempfile.TemporaryDirectory() as temporary:
        root = Path(shutil.copytree(project, Path(temporary) / "project", ignore=IGNORED))
        probe = case.get("probe")
        command = ["-c", str(probe)] if probe else str(case["run"]).split()[1:]
        started = []
        for number in range(int(str(case.get("processes", 1)))):
            log = (Path(temporary) / f"log{number}").open("w+")
            started.append(
                (
                    subprocess.Popen(
                        [sys.executable, *command],
                        cwd=root,
                        stdout=log,
                        stderr=subprocess.STDOUT,
                        env=_environment(case, number, port),
                    ),
                    log,
                )
            )
        text = ""
        for process, _ in started:
            try:
                process.wait(timeout=float(str(case.get("seconds", seconds))))
            except subprocess.TimeoutExpired:
                text += "did not end\n"
        for process, log in started:
            if process.poll() is None:
                process.kill()
                process.wait()
            log.seek(0)
            text += log.read()
            log.close()
        return text


def main(names: list[str]) -> int:
    """Run the cases whose names begin with one of `names`, or all; the number of cases that did not do as they say."""
    wrong = 0
    for folder in sorted(path.parent for path in HERE.glob("*/case.toml")):
        if names and not folder.name.startswith(tuple(names)):
            continue
        case = tomllib.loads((folder / "case.toml").read_text())
        for which, other in (("bad", "good"), ("good", "bad")):
            text = output(case, folder / which)
            says, not_says = str(case[f"{which}_shows"]), str(case[f"{other}_shows"])
            right = says in text and not_says not in text
            wrong += not right
            print(f"{folder.name}/{which}: {'shows' if right else 'DOES NOT SHOW'} {says!r}", flush=True)
            if not right or "-v" in sys.argv:
                print("\n".join("    " + line for line in text.splitlines()[-25:]), flush=True)
    return wrong


if __name__ == "__main__":
    sys.exit(min(main([name for name in sys.argv[1:] if name != "-v"]), 1))
