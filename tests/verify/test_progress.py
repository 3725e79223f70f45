"""Tests of progress output: continuous on a terminal, rare in a CI log, and none at the very beginning."""

from __future__ import annotations

import io
import sys
import time

import pytest

from shardlint.engine import progress as engine_progress
from shardlint.verify import progress
from shardlint.verify.progress import Progress

JOB = {"task": "fixture", "label": "proj:step", "mesh": {"data": 4}, "levels": ["compile", "execute"]}


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_on_a_terminal_one_line_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    stream = Terminal()
    with Progress(stream) as tell:
        tell(3, 7, [JOB, JOB])
        assert stream.getvalue() == "\r\x1b[K3 of 7 done; proj:step on data=4, execute"
        tell(4, 7, [{**JOB, "label": "x" * 99}])
        assert len(stream.getvalue().rpartition("\x1b[K")[2]) == 59
        tell(5, 7, [{"task": "collect", "file": "a\nb.py"}])
        assert stream.getvalue().endswith("\x1b[K5 of 7 done; reading a\\x0ab.py")
        tell(6, 7, [{"task": "proof", "program": {"code": "SL201", "role": "bad"}}])
        assert stream.getvalue().endswith("SL201, its bad program")
        tell(6, 7, [{"task": "self_test"}])
        tell(7, 7, [])
        assert stream.getvalue().endswith("self-test\r\x1b[K")
    assert "\n" not in stream.getvalue()


def test_a_log_is_told_now_and_then(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 0.0
    monkeypatch.setattr(progress.time, "monotonic", lambda: now)
    stream = io.StringIO()
    with Progress(stream) as tell:
        for second in range(100):
            now = float(second)
            tell(second, 100, [JOB])
    assert stream.getvalue().splitlines() == [
        f"shardlint verify: {second} of 100 done; proj:step on data=4, execute" for second in (30, 60, 90)
    ]


def test_slow_work_is_announced_on_a_terminal_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine_progress, "_SLOW", 0.05)
    for stream, shown in ((Terminal(), "\rfixing\r      \r"), (io.StringIO(), "")):
        monkeypatch.setattr(sys, "stderr", stream)
        with engine_progress.announce_slow("fixing"):
            time.sleep(0.5)
        with engine_progress.announce_slow("nothing"):
            pass
        assert stream.getvalue() == shown
