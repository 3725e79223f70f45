"""`check --profile` says where the time went, and changes nothing else."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess

from shardlint.source.timing import Clock
from tests.conftest import Write

Start = Callable[..., CompletedProcess[bytes]]


def test_what_is_inside_is_counted_for_itself() -> None:
    clock = Clock()
    clock.start_clock()
    clock.begin_task("outer")
    clock.begin_task("inner")
    clock.end_task()
    clock.begin_task("inner")
    clock.end_task()
    clock.end_task()
    assert (clock.times["outer"], clock.times["inner"]) == (1, 2)
    assert set(clock.seconds) == {"the rest", "outer", "inner"}
    lines = list(clock.format_table())
    assert lines[-1].endswith("in all, by one process")
    assert len(lines) == 5


def test_the_table_goes_to_standard_error(write: Write, start: Start) -> None:
    root: Path = write({"a.py": "import jax\n\n\ndef f(x, s):\n    jax.device_put(x, s)\n"})
    plain = start("check", "--no-cache", "--select=SL203", str(root))
    profiled = start("check", "--no-cache", "--profile", "--select=SL203", str(root))
    assert (profiled.returncode, profiled.stdout) == (plain.returncode, plain.stdout) == (1, plain.stdout)
    assert plain.stderr == b""
    table = profiled.stderr.decode()
    assert "SL203 discarded-placement" in table
    assert "parsing" in table
