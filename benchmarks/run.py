"""How long checking takes, beside ruff and Fixit: `make bench` builds the corpus, times all at once, writes results.md.

The corpus is published packages at pinned versions, so anyone can repeat it. Everything is kept in `.benchmark/`;
delete it to start over. Needs Linux or macOS (`os.wait4` tells what a child and its children used).
"""

from __future__ import annotations

import argparse
import os
import platform
import shutil
import statistics
import subprocess
import sys
import time
import venv
import zipfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path

HERE = Path(__file__).parent
WORK = HERE.parent / ".benchmark"
CORPUS, WHEELS, ONE, TOOLS = WORK / "corpus", WORK / "wheels", WORK / "one", WORK / "tools"
RUFF, FIXIT = "0.17.6", "2.2.1"

# Pure Python, and as much of it JAX as there is: libraries, trainers, models, simulators.
PACKAGES = """
axlearn==0.0.1.post20240213000026 blackjax==1.7.1 brax==0.14.2 chex==0.1.92 diffrax==0.7.2 distrax==0.1.9
dm-haiku==0.0.17 easydel==0.3.0 equinox==0.13.8 evosax==0.3.2 flax==0.12.12 haliax==1.3 jax==0.12.0.1 jaxopt==0.8.5
keras==3.15.1 levanter==1.1 lineax==0.1.1 mujoco-mjx==3.17.0 numpyro==0.22.0 optax==0.2.8 optimistix==0.1.0
orbax-checkpoint==0.12.8 ott-jax==0.6.0 penzai==0.2.5 tensorflow-probability==0.25.0 tinygp==0.3.1
""".split()
# Fixit needs minutes for the whole: it gets these, and its time is scaled by their share of the bytes.
SUBSET = ("equinox", "lineax", "optax")
FIXIT_RULES = ("CompareSingletonPrimitivesByIs", "NoInheritFromObject", "UseFstring")

CLEAN = "import math\n\n\ndef area(radius: float) -> float:\n    return math.pi * radius**2\n"
FINDING = """\
import jax
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P

mesh = Mesh(jax.devices(), ("data",))


@jax.jit
def step(x):
    x = jax.device_put(x, NamedSharding(mesh, P("data")))
    return x * 2
"""


@dataclass
class Timing:
    """What the runs of one command took."""

    what: str
    command: Sequence[str]
    codes: tuple[int, ...] = (0, 1)
    scale: float = 1.0
    before: Callable[[], None] | None = None
    wall: list[float] = field(default_factory=list)
    cpu: list[float] = field(default_factory=list)
    memory: int = 0

    def run(self) -> None:
        """Run it once more."""
        if self.before is not None:
            self.before()
        # An empty value lets Python keep its compiled modules, as it does for users; some machines set it.
        environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": ""}
        with (WORK / "output.txt").open("wb") as output:
            start = time.perf_counter()
            child = subprocess.Popen(
                self.command, cwd=WORK, env=environment, stdout=output, stderr=subprocess.STDOUT
            )
            _, status, used = os.wait4(child.pid, 0)
            self.wall.append(time.perf_counter() - start)
        child.returncode = os.waitstatus_to_exitcode(status)
        if child.returncode not in self.codes:
            tail = (WORK / "output.txt").read_text("utf-8", "replace")[-2000:]
            raise SystemExit(f"{self.what} ended with {child.returncode}:\n{tail}")
        self.cpu.append(used.ru_utime + used.ru_stime)
        self.memory = max(self.memory, used.ru_maxrss * (1 if sys.platform == "darwin" else 1024))

    @property
    def seconds(self) -> float:
        """Median wall time, scaled to the whole corpus."""
        return statistics.median(self.wall) * self.scale

    @property
    def cpu_seconds(self) -> float:
        """Median processor time, scaled to the whole corpus."""
        return statistics.median(self.cpu) * self.scale


def build_corpus() -> dict[str, tuple[str, int, int]]:
    """Download and unpack the packages: name to version, files, bytes."""
    WHEELS.mkdir(parents=True, exist_ok=True)
    sizes = {}
    for pin in PACKAGES:
        name, _, release = pin.partition("==")
        target = CORPUS / name
        if not target.is_dir():
            print(f"fetching {pin}", flush=True)
            options = ["--quiet", "--no-deps", "--only-binary", ":all:", "--disable-pip-version-check"]
            command = [sys.executable, "-m", "pip", "download", *options, "--dest", str(WHEELS / name), pin]
            subprocess.run(command, check=True, stderr=subprocess.DEVNULL)
            (wheel,) = (WHEELS / name).glob("*.whl")
            unpacked = target.with_suffix(".new")
            shutil.rmtree(unpacked, ignore_errors=True)
            with zipfile.ZipFile(wheel) as archive:
                archive.extractall(unpacked, [n for n in archive.namelist() if n.endswith((".py", ".pyi"))])
            (unpacked / "setup.cfg").touch()  # each is a project of its own
            unpacked.rename(target)
        files = [path for path in target.rglob("*.py*") if path.is_file()]
        sizes[name] = (release, len(files), sum(path.stat().st_size for path in files))
    (CORPUS / ".git").mkdir(exist_ok=True)  # our own .gitignore leaves .benchmark out; it ends here
    return sizes


def build_tools() -> Path:
    """An environment with the other tools."""
    if not (TOOLS / "ready").exists():
        print(f"installing ruff {RUFF} and fixit {FIXIT}", flush=True)
        venv.create(TOOLS, with_pip=True, clear=True)
        pip = [
            str(TOOLS / "bin" / "python"),
            "-m",
            "pip",
            "install",
            "--quiet",
            "--disable-pip-version-check",
        ]
        subprocess.run([*pip, f"ruff=={RUFF}", f"fixit=={FIXIT}"], check=True)
        (TOOLS / "ready").touch()
    return TOOLS / "bin"


def build_files() -> None:
    """The single files, and the settings that Fixit wants."""
    ONE.mkdir(exist_ok=True)
    (ONE / "setup.cfg").touch()
    (ONE / "clean.py").write_text(CLEAN)
    (ONE / "finding.py").write_text(FINDING)
    rules = ", ".join(f'"fixit.rules.{_module(rule)}:{rule}"' for rule in FIXIT_RULES)
    (WORK / "fixit.toml").write_text(
        f'[tool.fixit]\nroot = true\nenable = [{rules}]\ndisable = ["fixit.rules"]\n'
    )


def _module(rule: str) -> str:
    return "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in rule).lstrip("_")


def main() -> None:
    """Build, time, report."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3, help="runs over the corpus (default 3)")
    parser.add_argument("--short-rounds", type=int, default=11, help="runs over one file (default 11)")
    parser.add_argument("--without-fixit", action="store_true", help="leave out Fixit, which takes longest")
    given = parser.parse_args()
    WORK.mkdir(exist_ok=True)
    sizes = build_corpus()
    tools = build_tools()
    build_files()
    share = sum(sizes[name][2] for name in SUBSET) / sum(size for _, _, size in sizes.values())
    ours = [sys.executable, "-m", "shardlint", "check", "--output-format", "concise"]
    ruff = [str(tools / "ruff"), "check", "--isolated", "--quiet", "--output-format", "concise"]
    fixit = [str(tools / "fixit"), "--config-file", str(WORK / "fixit.toml"), "--quiet", "lint"]
    cache = WORK / "ruff-cache"
    whole = [
        Timing("shardlint, cold", [*ours, str(CORPUS)]),
        Timing("shardlint, warm", [*ours, str(CORPUS)]),
        Timing("ruff, cold", [*ruff, "--no-cache", str(CORPUS)]),
        Timing("ruff, warm", [*ruff, "--cache-dir", str(cache), str(CORPUS)]),
    ]
    if not given.without_fixit:
        subset = [str(CORPUS / name) for name in SUBSET]
        whole.append(
            Timing(f"Fixit with {len(FIXIT_RULES)} rules, scaled", [*fixit, *subset], (0, 1), 1 / share)
        )
    one = [
        Timing("`python -c pass`", [sys.executable, "-c", "pass"], (0,)),
        Timing("shardlint, a clean file", [*ours, str(ONE / "clean.py")], (0,)),
        Timing("shardlint, a file with a finding", [*ours, str(ONE / "finding.py")], (1,)),
        Timing("ruff, a clean file", [*ruff, "--no-cache", str(ONE / "clean.py")], (0,)),
        Timing(
            "ruff, a file with a finding",
            [*ruff, "--no-cache", "--select", "ALL", str(ONE / "finding.py")],
            (1,),
        ),
        Timing("Fixit, a clean file", [*fixit, str(ONE / "clean.py")], (0,)),
    ]
    for timing in (*one, *(timing for timing in whole if timing.what == "ruff, warm")):
        timing.run()  # once unmeasured: compiled modules, ruff's cache
        timing.wall.clear()
        timing.cpu.clear()
    for path in CORPUS.rglob("*.py"):
        path.read_bytes()  # no command is to pay for fetching the files from the disk
    for timings, rounds in ((one, given.short_rounds), (whole, given.rounds)):
        for turn in range(rounds):
            for timing in timings:
                timing.run()
                print(f"{turn + 1}/{rounds} {timing.what}: {timing.wall[-1]:.3f} s", flush=True)
    findings = _summary(ours)
    report = "\n".join(_report(sizes, whole, one, share, findings, given.rounds, given.short_rounds))
    (HERE / "results.md").write_text(report, "utf-8")
    print(report)


def _summary(ours: Sequence[str]) -> str:
    lines = subprocess.run([*ours, str(CORPUS)], capture_output=True, text=True, cwd=WORK).stdout.splitlines()
    return lines[-1].partition(".")[0] if lines else "nothing said"


def _report(
    sizes: dict[str, tuple[str, int, int]],
    whole: list[Timing],
    one: list[Timing],
    share: float,
    findings: str,
    rounds: int,
    short: int,
) -> list[str]:
    files, size = sum(f for _, f, _ in sizes.values()), sum(s for _, _, s in sizes.values())
    return [
        "# Benchmark",
        "",
        "Generated by `make bench`; do not edit. All commands were timed in one run, in turn; the times are medians.",
        "",
        f"- shardlint {version('shardlint')} ({findings}), ruff {RUFF} (default rules), Fixit {FIXIT}"
        f" ({', '.join(FIXIT_RULES)})",
        f"- {platform.python_implementation()} {platform.python_version()}, {platform.system()} {platform.machine()},"
        f" {len(os.sched_getaffinity(0)) if hasattr(os, 'sched_getaffinity') else os.cpu_count()} cores",
        f"- {files:,} files, {size / 1e6:.1f} MB of Python from {len(sizes)} published packages",
        "",
        f"## The whole corpus ({rounds} runs each)",
        "",
        *_table(whole, whole[0], "against shardlint, cold"),
        "",
        "shardlint keeps no cache yet, so its warm run is a second cold one. ruff runs on all cores; the processor time"
        " tells what was done in all.",
        f"Fixit was given {', '.join(SUBSET)}, {share:.1%} of the bytes; its time is scaled by that, its memory is not."
        if len(whole) > 4
        else "Fixit was left out.",
        "",
        f"## One file ({short} runs each)",
        "",
        *_table(one, one[0], "against `python -c pass`"),
        "",
        "A peak of 20 MB is that of the process that does the timing; what used less cannot be told.",
        "",
        "## The packages",
        "",
        "| package | version | files | MB |",
        "| --- | --- | ---: | ---: |",
        *(
            f"| {name} | {release} | {count} | {bytes_ / 1e6:.1f} |"
            for name, (release, count, bytes_) in sizes.items()
        ),
        "",
    ]


def _table(timings: list[Timing], base: Timing, against: str) -> list[str]:
    return [
        f"| | wall, s | processor, s | {against} | peak memory, MB |",
        "| --- | ---: | ---: | ---: | ---: |",
        *(
            f"| {timing.what} | {_shown(timing.seconds)} | {_shown(timing.cpu_seconds)} "
            f"| {timing.seconds / base.seconds:.2f} | {timing.memory / 1e6:.0f} |"
            for timing in timings
        ),
    ]


def _shown(seconds: float) -> str:
    return f"{seconds:.3f}" if seconds < 1 else f"{seconds:.1f}"


if __name__ == "__main__":
    main()
