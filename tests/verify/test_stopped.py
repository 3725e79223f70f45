"""A program that hangs or crashes is told with the line it stood at, and one that lacks a package with what to do."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from shardlint.verify.environments import describe_other_environment, import_advice
from shardlint.verify.inside import stacks
from shardlint.verify.plan import Request, verify_fixtures
from shardlint.verify.report import FAIL, Result
from shardlint.verify.runner import Runner
from tests.programs import skip_without

from .conftest import PRELUDE

skip_without("jax")
pytestmark = pytest.mark.longer


def run(folder: Path, source: str, fork: bool = True, seconds: float = 6) -> Result:
    file = folder / "fx.py"
    file.write_text(PRELUDE + source)
    if fork and sys.platform != "linux":
        pytest.skip("jobs are forked on Linux only")
    with Runner(seconds=seconds, fork=fork) as runner:
        results = verify_fixtures(runner, Request({file: ()}))
    return next(result for result in results if result.status == FAIL)


def line_of(folder: Path, text: str) -> int:
    return 1 + (folder / "fx.py").read_text().splitlines().index(text)


@pytest.mark.parametrize("fork", [True, False])
def test_a_program_that_waits_is_told_with_its_line(tmp_path: Path, fork: bool) -> None:
    source = """
import threading
def waits(x):
    threading.Event().wait()
    return x
fx = Fixture(waits, [MESH], [X], out={"": P("data")})
"""
    result = run(tmp_path, source, fork, 6 if fork else 20)
    (failure,) = result.failures
    assert failure.message.startswith("killed at the time limit of")
    line = line_of(tmp_path, "    threading.Event().wait()")
    assert failure.where.endswith(f"fx.py:{line} in waits")
    assert any(f"fx.py:{line} in waits" in text for text in result.output)
    assert not any("shardlint/verify/inside" in text for text in result.output)


def test_a_loop_that_never_ends_is_told_with_its_function(tmp_path: Path) -> None:
    source = """
def endless(x):
    return jax.lax.while_loop(lambda c: jnp.abs(c).max() > -1, lambda c: c * 0.5, x)
fx = Fixture(jax.jit(endless), [MESH], [X], out={"": P("data")})
"""
    result = run(tmp_path, source)
    (failure,) = result.failures
    line = line_of(tmp_path, "def endless(x):")
    assert failure.where.endswith(f"fx.py:{line}")
    assert "fn was not running Python" in failure.message
    assert f"loops whose length depends on data are at {failure.where.rpartition(':')[0]}:{line + 1}" in failure.message


@pytest.mark.parametrize("fork", [True, False])
def test_a_crash_is_told_with_its_line(tmp_path: Path, fork: bool) -> None:
    source = """
import ctypes
def host(a):
    ctypes.string_at(0)
    return a
def calls(x):
    return jax.pure_callback(host, jax.ShapeDtypeStruct(x.shape, x.dtype), x)
fx = Fixture(jax.jit(calls), [MESH], [X], replicated_bytes_max="1MiB")
"""
    result = run(tmp_path, source, fork, 60)
    (failure,) = result.failures
    assert failure.message == "crashed with SIGSEGV"
    assert failure.where.endswith(f"fx.py:{line_of(tmp_path, '    ctypes.string_at(0)')} in host")


def test_the_thread_that_crashed_counts() -> None:
    dump = (
        "Fatal Python error: Segmentation fault\n\n"
        'Current thread 0x1 (most recent call first):\n  File "/p/a.py", line 3 in host\n\n'
        'Thread 0x2 (most recent call first):\n  File "/p/b.py", line 4 in main\n'
    )
    assert stacks.users_line(dump) == "/p/a.py:3 in host"
    assert stacks.users_line(dump.partition("\n\n")[2].replace("Current thread", "Thread")) == "/p/b.py:4 in main"
    assert stacks.shown_frames(dump) == ["/p/a.py:3 in host"]
    assert stacks.users_line("") == ""
    assert stacks.shown_frames("") == []


def environment(folder: Path) -> Path:
    python = folder / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.write_text("")
    (folder / "pyvenv.cfg").write_text("")
    return python


def test_an_import_error_says_which_python_to_use(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in ("VIRTUAL_ENV", "CONDA_PREFIX"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.chdir(tmp_path)
    project = tmp_path / "proj"
    (project / "tests").mkdir(parents=True)
    (project / ".git").mkdir()
    file = project / "tests" / "fx.py"
    file.write_text(PRELUDE + 'import no_such_package\nfx = Fixture(lambda x: x, [MESH], [X], out={"": P()})\n')
    with Runner(seconds=60) as runner:
        (result,) = verify_fixtures(runner, Request({file: ()}))
        assert "No module named 'no_such_package'" in result.failures[0].message
        assert "--python PATH/TO/project/.venv/bin/python" in result.failures[0].message
        python = environment(project / ".venv")
        (result,) = verify_fixtures(runner, Request({file: ()}))
        assert "--python proj/.venv/bin/python" in result.failures[0].message
        (tmp_path / "late.py").write_text(PRELUDE + """
def fn(x):
    import no_such_package
fx = Fixture(fn, [MESH], [X], out={"": P()})
""")
        late = verify_fixtures(runner, Request({tmp_path / "late.py": ()}))
        (failed,) = (result for result in late if result.status == FAIL)
        assert "--python PATH/TO" in failed.failures[0].message
    # It is that one already, or it is another error.
    assert "--python" not in import_advice("raised ImportError: x", str(python), file)
    assert import_advice("raised ValueError: x", sys.executable, file) == ""
    monkeypatch.setenv("VIRTUAL_ENV", str(environment(tmp_path / "active").parent.parent))
    assert "--python active/bin/python" in describe_other_environment(sys.executable, tmp_path / "late.py")
