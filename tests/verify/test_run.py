"""`shardlint run` on real programs: what it finds, what it leaves alone, and how it contains them."""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import sys
import textwrap
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.programs import skip_without

pytestmark = pytest.mark.longer

PYTHON = os.environ.get("SHARDLINT_TEST_PYTHON", sys.executable)
SHARDLINT = [sys.executable, "-m", "shardlint"]
posix = pytest.mark.skipif(os.name != "posix", reason="process groups and signals of this kind are POSIX")

PRELUDE = """\
import functools, os
import jax, jax.numpy as jnp, numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P

def put(x, *spec):
    return jax.device_put(x, NamedSharding(mesh, P(*spec)))

def host(*shape):
    return np.ones(shape, np.float32)
"""


@dataclass
class Ran:
    code: int
    out: str
    err: str
    report: dict[str, Any]

    def kinds(self) -> list[tuple[str, str]]:
        return sorted((found["kind"], found["function"]) for found in self.report["findings"])

    def found(self, kind: str, function: str) -> dict[str, Any]:
        (one,) = [
            found
            for found in self.report["findings"]
            if found["kind"] == kind and found["function"] == function
        ]
        return one


Run = Callable[..., Ran]


@pytest.fixture
def run(tmp_path: Path) -> Run:
    def start(source: str, *options: str, env: dict[str, str] | None = None, words: Any = None) -> Ran:
        file, report = tmp_path / "train.py", tmp_path / "report.json"
        file.write_text(textwrap.dedent(source))
        ended = subprocess.run(
            [*SHARDLINT, "run", "--report", str(report), *options, "--", *(words or [PYTHON, "train.py"])],
            cwd=tmp_path,
            env={**os.environ, **(env or {})},
            capture_output=True,
            text=True,
            timeout=120,
        )
        data = json.loads(report.read_text()) if report.exists() else {}
        return Ran(ended.returncode, ended.stdout, ended.stderr, data)

    return start


FAULTS = (
    PRELUDE
    + """
mesh = Mesh(np.array(jax.devices()).reshape(4, 2), ("data", "model"))
w = {"w1": put(host(512, 1024), "data", "model"), "w2": put(host(1024, 512), "model", "data")}

@jax.jit
def opt_init(w):
    return jax.tree.map(jnp.zeros_like, w)

def loss(w, x):
    return jnp.mean((jnp.tanh(x @ w["w1"]) @ w["w2"]) ** 2)

@functools.partial(jax.jit, donate_argnums=(0, 1))
def step(w, m, x):
    g = jax.grad(loss)(w, x)
    m = jax.tree.map(lambda a, b: 0.9 * a + b, m, g)
    return jax.tree.map(lambda a, b: a - 0.1 * b, w, m), m

@functools.partial(jax.jit, donate_argnums=0)
def cast(w):
    return jax.tree.map(lambda a: a.astype(jnp.bfloat16), w)

@functools.partial(jax.jit, out_shardings=NamedSharding(mesh, P()))
def gradients(w, x):
    return jax.grad(loss)(w, x)

@jax.jit
def evaluate(w):
    return w["w1"].sum()

@jax.jit
def relay(a):
    a = jax.lax.with_sharding_constraint(a + a, NamedSharding(mesh, P("model", None, "data")))
    return jax.lax.with_sharding_constraint(a * 2, NamedSharding(mesh, P(None, ("data", "model"), None)))

x = put(host(64, 512), "data")
m = opt_init(w)
for _ in range(3):
    w, m = step(w, m, x)
gradients(w, x)
evaluate(jax.device_get(w))
relay(put(host(64, 64, 64), "model", None, "data"))
cast(w)
"""
)


def test_faults_are_found_by_line(run: Run, tmp_path: Path) -> None:
    skip_without("jax")
    page, dumps = tmp_path / "report.html", tmp_path / "dumps"
    ran = run(FAULTS, "--strict", "--devices", "8", "--report", str(page), "--keep-dumps", str(dumps))
    assert ran.code == 1, ran.err
    assert ran.kinds() == [
        ("donation", "cast"),
        ("one-device", "opt_init"),
        ("recompiled", "step"),
        ("rematerialised", "relay"),
        ("replicated", "gradients"),
        ("through-host", "the program"),
    ]
    lines = FAULTS.splitlines()
    for found in ran.report["findings"]:
        defined = lines[found["line"]["line"] - 1]
        if found["kind"] == "donation":
            assert "donate_argnums" in defined
        elif found["kind"] == "through-host":
            assert "device_get" in defined
        elif found["kind"] != "rematerialised":
            assert defined == next(line for line in lines if line.startswith(f"def {found['function']}("))
    assert ran.found("rematerialised", "relay")["line"]["line"] in (
        number for number, line in enumerate(lines, 1) if "with_sharding_constraint" in line
    )
    assert ran.found("donation", "cast")["bytes"] == 2 * 512 * 1024 * 4 // 8
    assert "bf16" in ran.found("donation", "cast")["message"]
    assert ran.found("replicated", "gradients")["bytes"] == 2 * 512 * 1024 * 4
    assert "not placed -> " in ran.found("recompiled", "step")["arrays"][0]
    assert ran.found("one-device", "opt_init")["arrays"] == ["m['w1'] f32[512,1024]", "m['w2'] f32[1024,512]"]
    # The largest of what is moved are the gathered weights, and a line of `loss` moves them.
    first = next(one for one in ran.report["moved"] if one["function"] == "step")
    assert "x @ w" in lines[first["line"]["line"] - 1]
    assert first["bytes"] >= 512 * 512 * 4
    assert "train.py:" in ran.err
    assert "6 findings; the program exited with 0" in ran.err
    for part in ("Found", "Bytes moved in one call", "Functions", "opt_init", "train.py:"):
        assert part in page.read_text()
    assert list(dumps.rglob("*.before_optimizations.txt"))
    assert not list(dumps.rglob("*.o"))


QUIET = (
    PRELUDE
    + """
mesh = Mesh(np.array(jax.devices()), ("data",))

# Data parallel: parameters on every device, made on one; the batch donated to free it.
@jax.jit
def init(key):
    return {"w": jax.random.normal(key, (1024, 1024)), "v": jnp.zeros((1024, 1024))}

@functools.partial(jax.jit, donate_argnums=(0, 1))
def step(p, x):
    g = jax.grad(lambda p: jnp.mean((x @ p["w"] + x @ p["v"]) ** 2))(p)
    return jax.tree.map(lambda a, b: a - 0.1 * b, p, g)

@jax.jit
def evaluate(p, x):
    return jnp.mean(x @ p["w"])

p = jax.tree.map(lambda a: put(a), init(jax.random.PRNGKey(0)))
# As large as a weight, and of its shape.
for size in (1024, 1024, 512):
    p = step(p, put(host(size, 1024), "data"))
    print(float(evaluate(p, put(host(size, 1024), "data"))))

# Fully sharded: small arrays whole, state split, a count that comes from the host.
state = {"w": put(host(2048, 1024), "data"), "scale": put(host(1024)), "count": 0}

@functools.partial(jax.jit, donate_argnums=0)
def train(state, x):
    y = x @ (state["w"] * state["scale"]).T
    return {**state, "w": state["w"] + y.mean(), "count": state["count"] + 1}, y.mean()

for _ in range(3):
    state, loss = train(state, put(host(64, 1024), "data"))

# By hand, outside of jit.
z = jnp.ones((1024, 1024)) * 2
print(float((z + jnp.sin(z)).sum()), np.asarray(state["w"]).shape)
"""
)


def test_a_quiet_program_gives_a_quiet_report(run: Run) -> None:
    skip_without("jax")
    ran = run(QUIET, "--strict")
    assert ran.report["findings"] == []
    assert ran.code == 0
    assert len(ran.out.splitlines()) == 4
    assert "no findings; the program exited with 0" in ran.err
    names = {each["name"] for each in ran.report["functions"] if each["own"]}
    assert {"init", "step", "evaluate", "train"} <= names


FLAGS = """\
import multiprocessing, os
os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=4"

def work(index):
    import jax, numpy as np
    from jax.sharding import Mesh, NamedSharding, PartitionSpec as P
    mesh = Mesh(np.array(jax.devices()), ("data",))
    x = jax.device_put(np.ones((1024, 1024), np.float32), NamedSharding(mesh, P("data")))
    total = jax.jit(lambda x: x.sum())
    return float(total(x)), len(jax.devices())

if __name__ == "__main__":
    with multiprocessing.get_context("spawn").Pool(2) as pool:
        print(pool.map(work, range(2), chunksize=1))
"""


def test_flags_the_program_sets_itself_and_workers(run: Run) -> None:
    """Its number of devices holds, its flags hide nothing, and two workers are not one that compiles twice."""
    skip_without("jax")
    ran = run(FLAGS)
    assert ran.out.strip() == "[(1048576.0, 4), (1048576.0, 4)]", ran.err
    (each,) = [each for each in ran.report["functions"] if each["own"]]
    assert len({one["process"] for one in each["compilations"]}) == 2
    assert ran.report["devices"] == 4
    assert ran.report["findings"] == []


def test_a_program_without_jax(run: Run) -> None:
    ran = run("import sys; print('hello'); sys.exit(3)", "--strict")
    assert (ran.code, ran.out) == (3, "hello\n")
    assert ran.err == "shardlint run: nothing to report: no jax program was compiled\n"
    assert (ran.report["exit_code"], ran.report["findings"]) == (3, [])


def test_a_program_without_a_mesh(run: Run) -> None:
    skip_without("jax")
    ran = run("import jax\njax.jit(lambda x: x + 1)(1.0)", "--strict")
    assert ran.code == 0
    assert "no mesh" in ran.err
    assert "finding" not in ran.err


def test_pytest_modules_and_scripts_run_as_they_are(run: Run, tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text("def test_it():\n    assert 1 == 2\n")
    ran = run("", words=[sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_it.py"])
    assert ran.code == 1
    assert "1 failed" in ran.out
    (tmp_path / "mine.py").write_text("import sys\nprint(sys.argv[1:], sys.path[0])\n")
    assert run("", words=["mine.py", "--devices", "2"]).out == f"['--devices', '2'] {tmp_path}\n"
    assert run("", words=["-m", "mine", "-x"]).out.startswith("['-x'] ")


STEP = """
import time
def step(seconds):
    {0}
step(1000)
"""


@posix
@pytest.mark.parametrize(
    ("before", "body", "line"),
    [
        pytest.param("", "time.sleep(seconds)", 4, id="asleep"),
        pytest.param("", "while True: pass", 4, id="busy"),
        pytest.param("import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN)", "time.sleep(seconds)", 4, id="deaf"),
        pytest.param("import os; os.fork()", "time.sleep(seconds)", 4, id="forked"),
    ],
)
def test_a_program_at_its_time_limit_is_told_with_its_stack(run: Run, before: str, body: str, line: int) -> None:
    ran = run(before + STEP.format(body), "--timeout", "10")  # a busy machine has started it by then
    assert ran.code == 124
    where = f"train.py:{line} in step"
    assert f"killed at the time limit of 10 s, at {where}" in ran.err
    assert "Python stack, innermost first:" in ran.err
    assert ran.err.index(f"  {where}") < ran.err.index(f"  train.py:{line + 1} in <module>")


@posix
def test_what_a_script_starts_is_told_with_its_stack(run: Run, tmp_path: Path) -> None:
    (tmp_path / "step.py").write_text(STEP.format("time.sleep(seconds)"))
    ran = run("", "--timeout", "10", words=["sh", "-c", f"{sys.executable} step.py; true"])
    assert "killed at the time limit of 10 s, at step.py:4 in step" in ran.err
    ran = run("", "--timeout", "1", words=["sh", "-c", "sleep 100"])
    assert "killed at the time limit of 1 s\n" in ran.err
    assert "Python stack" not in ran.err


@posix
def test_crashes_hangs_and_what_is_left_behind(run: Run) -> None:
    assert run("import os, signal; os.kill(os.getpid(), signal.SIGSEGV)").code == 128 + signal.SIGSEGV
    stubborn = "import signal, time\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\nprint('up', flush=True)\n"
    ran = run(stubborn + "time.sleep(1000)", "--timeout", "1")
    assert ran.code == 124
    assert "killed at the time limit of 1 s" in ran.err
    ran = run(
        "import subprocess, sys\n"
        "print(subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(1000)']).pid)"
    )
    assert "left running were killed" in ran.err
    state = Path(f"/proc/{int(ran.out)}/stat")
    assert not state.exists() or state.read_text().split(")")[1].split()[0] in "ZX"


def test_megabytes_of_output_pass_through(run: Run) -> None:
    ran = run("import sys\nprint('x' * 5_000_000)\nsys.stderr.write('y' * 3_000_000)")
    assert len(ran.out) == 5_000_001
    assert ran.err.startswith("y" * 3_000_000 + "shardlint run: ")


@pytest.mark.skipif(sys.platform != "linux", reason="RLIMIT_AS")
def test_the_memory_limit(run: Run) -> None:
    ran = run("x = bytearray(2**36)", "--memory", "1GiB")
    assert ran.code == 1
    assert "MemoryError" in ran.err


@posix
def test_an_interrupt_reaches_the_program(tmp_path: Path) -> None:
    (tmp_path / "wait.py").write_text(
        "import time\ntry:\n    print('up', flush=True)\n    time.sleep(1000)\nexcept KeyboardInterrupt:\n    raise SystemExit(5)\n"
    )
    with subprocess.Popen([*SHARDLINT, "run", "wait.py"], cwd=tmp_path, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"up\n"
        process.send_signal(signal.SIGINT)
        assert process.wait(300) == 5


@posix
def test_a_program_heeds_signals_that_a_shell_has_background_commands_ignore(tmp_path: Path) -> None:
    shown = "import signal\nprint(*(signal.getsignal(one) is signal.SIG_IGN for one in (signal.SIGINT, signal.SIGQUIT)))\n"
    (tmp_path / "show.py").write_text(shown)
    for words in ([sys.executable, "show.py"], [*SHARDLINT, "run", "show.py"]):
        line = ["sh", "-c", f"{shlex.join(words)} & wait"]
        ran = subprocess.run(line, cwd=tmp_path, capture_output=True, text=True, timeout=120)
        assert ran.stdout == ("False False\n" if "run" in words else "True True\n"), ran.stderr


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--", "no-such-command"], "cannot start no-such-command"),
        (["--report", "x.txt", "--", "true"], "ends in neither .html nor .json"),
        (["--report", "no/x.json", "--", "true"], "the folder no does not exist"),
        (["--keep-dumps", ".", "--", "true"], "the folder is not empty"),
        ([], "Missing argument"),
    ],
)
def test_what_cannot_be_run(tmp_path: Path, options: list[str], message: str) -> None:
    (tmp_path / "full").touch()
    ended = subprocess.run([*SHARDLINT, "run", *options], cwd=tmp_path, capture_output=True, text=True)
    assert ended.returncode == 2
    assert message in ended.stderr
