"""Programs with jax that tests start: each a fork of one warmed process of the session, and within limits."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

import pytest


def skip_without(*packages: str) -> None:
    """Skip a module where a package is not installed. `pytest.importorskip` would import it: jax takes a second."""
    for name in packages:
        if importlib.util.find_spec(name) is None:
            pytest.skip(f"{name} is not installed", allow_module_level=True)


def release(package: str) -> tuple[int, ...]:
    """The first two numbers of the installed release; (0, 0) where there is none."""
    try:
        return tuple(map(int, importlib.metadata.version(package).split(".")[:2]))
    except importlib.metadata.PackageNotFoundError:
        return 0, 0


since_jax_0_12 = pytest.mark.skipif(release("jax") < (0, 12), reason="runs what is written for jax 0.12")
PYTHON = os.environ.get("SHARDLINT_TEST_PYTHON", sys.executable)
# More than any program takes on a busy machine; one that waits for ever is ended by it.
SECONDS = 200


def simulated(devices: int = 8, **more: str) -> dict[str, str]:
    """The environment of this process without what configures jax, with simulated devices."""
    found = {name: value for name, value in os.environ.items() if not name.startswith(("JAX_", "XLA_"))}
    flags = f"--xla_force_host_platform_device_count={devices}"
    quick = {"JAX_PLATFORMS": "cpu", "JAX_DISABLE_MOST_OPTIMIZATIONS": "1"}
    return {**found, "XLA_FLAGS": flags, **quick, **more}


class Warmed:
    """Runs programs by forking a process that has imported jax; where nothing can be forked, in new interpreters."""

    def __init__(self) -> None:
        self._parent: subprocess.Popen[bytes] | None = None

    def run(
        self, *arguments: str | Path, folder: Path | None = None, environment: Mapping[str, str] | None = None
    ) -> subprocess.CompletedProcess[str]:
        """Run a file with arguments, or `-c` with a text, on eight devices unless the environment says otherwise.

        A program that takes more than SECONDS has a return code below zero.
        """
        words = list(map(str, arguments))
        environ = dict(simulated() if environment is None else environment)
        if not hasattr(os, "fork") or sys.platform == "darwin":
            return subprocess.run(
                [PYTHON, *words],
                cwd=folder,
                env=environ,
                capture_output=True,
                text=True,
                timeout=SECONDS,
                check=False,
            )
        with tempfile.NamedTemporaryFile() as out, tempfile.NamedTemporaryFile() as err:
            request = {
                "arguments": words, "folder": str(folder or Path.cwd()), "environment": environ, "seconds": SECONDS,
                "out": out.name, "err": err.name,
            }  # fmt: skip
            code = self._ask(request)
            return subprocess.CompletedProcess(
                [PYTHON, *words], code, *(file.read().decode("utf-8", "replace") for file in (out, err))
            )

    def _ask(self, request: Mapping[str, object]) -> int:
        if self._parent is None:
            self._parent = subprocess.Popen(
                [PYTHON, str(Path(__file__).with_name("warmed.py"))], env=simulated(),
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True,
            )  # fmt: skip
        assert self._parent.stdin is not None and self._parent.stdout is not None
        try:
            self._parent.stdin.write(json.dumps(request).encode() + b"\n")
            self._parent.stdin.flush()
            return int(self._parent.stdout.readline())
        except BaseException:
            self.close()  # it may be within a program, whose answer nobody would take
            raise

    def close(self) -> None:
        """End the process, and the program that it may be running."""
        parent, self._parent = self._parent, None
        if parent is not None:
            os.killpg(parent.pid, signal.SIGKILL)
            parent.communicate()
