"""How time and memory grow: with lines, files, findings, the size of one file, the edges of a call graph.

`python benchmarks/growth.py` writes evaluation/growth.md. Each series is built step by step in `.benchmark/growth/`,
checked without a cache (`--warm`: also with one), and taken away again. `--only lines --largest 1000000` runs a part.
"""

from __future__ import annotations

import argparse
import math
import platform
import random
import shutil
import statistics
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import constructs
import corpus
import peers
import timing

HERE = Path(__file__).resolve().parent

UNCACHED = ["--no-cache"]
# Replicated for the series of lines: a trainer, so most of it has to do with sharding.
REPLICATED = "levanter"
# Slower than this is called worse than n log n: what is measured on a machine in use is not exact.
TOLERANCE = 1.25
# Below this, net of start-up, a step is too short to compare with.
LEAST_SECONDS, LEAST_BYTES = 0.1, 20_000_000
CALLS_PER_FUNCTION, FUNCTIONS_PER_FILE = 10, 50


@dataclass(frozen=True)
class Step:
    """One point of a series."""

    size: int
    seconds: float
    memory: int
    warm: float | None = None
    """Time with a cache that an earlier run has filled."""


@dataclass(frozen=True)
class Series:
    """A series of programs that grow: how they are built, and the sizes that are measured."""

    name: str
    unit: str
    about: str
    sizes: tuple[int, ...]
    build: Callable[[Path, int], int]
    """Makes a folder hold this much, given what the step before left there; the size that came of it."""


@dataclass(frozen=True)
class Measured:
    """A series with its points, and why it ended early, if it did."""

    series: Series
    steps: list[Step]
    stopped: str = ""


def write_file(path: Path, text: str) -> None:
    """Write a file and the folders above it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def build_lines(seed: Path, one_root: bool) -> Callable[[Path, int], int]:
    """Copies of a package under folders of their own, each a project or all one project."""
    files = [(path.relative_to(seed), path.read_text("utf-8")) for path in sorted(corpus.python_files(seed))]
    lines = sum(text.count("\n") for _, text in files)

    def build_project(folder: Path, size: int) -> int:
        copies = max(1, round(size / lines))
        for number in range(copies):
            copy = folder / f"copy{number:05}"
            if not copy.is_dir():
                for path, text in files:
                    write_file(copy / path, text)
                if not one_root:
                    (copy / "setup.cfg").touch()
        return copies * lines

    return build_project


SMALL = """\
import jax
import jax.numpy as jnp
from jax.sharding import PartitionSpec as P

SPEC = P("data", None)


@jax.jit
def scale_{number}(x, by):
    return jnp.tanh(x) * by
"""


def build_files(folder: Path, size: int) -> int:
    """Many files of ten lines, a hundred in a package."""
    for number in range(size):
        package = folder / f"package{number // 100:04}"
        path = package / f"m{number:06}.py"
        if number % 100 == 0:
            write_file(package / "__init__.py", "")
        if not path.is_file():
            write_file(path, SMALL.format(number=number))
    return size


HEAD = """\
import jax
import jax.numpy as jnp
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P

mesh = Mesh(jax.devices(), ("data",))
"""
GOOD = """

@jax.jit
def step_{number}(x, y):
    x = jax.lax.with_sharding_constraint(x, NamedSharding(mesh, P("data")))
    return jnp.dot(x, y) * {number}
"""
BAD = GOOD.replace("jax.lax.with_sharding_constraint", "jax.device_put")


def build_findings(folder: Path, size: int) -> int:
    """Files with fifty functions, each with one finding."""
    for start in range(0, size, 50):
        path = folder / f"m{start // 50:05}.py"
        if not path.is_file() or start + 50 > size:
            numbers = range(start, min(start + 50, size))
            write_file(path, HEAD + "".join(BAD.format(number=number) for number in numbers))
    return size


def build_one_file(function: str) -> Callable[[Path, int], int]:
    """One file of so many bytes, of functions like this."""

    def build_project(folder: Path, size: int) -> int:
        parts, length, number = [HEAD], len(HEAD), 0
        while length < size:
            parts.append(function.format(number=number))
            length += len(parts[-1])
            number += 1
        write_file(folder / "large.py", "".join(parts))
        return length

    return build_project


LEAVES = """\
import jax
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P

mesh = Mesh(jax.devices(), ("data",))
"""
LEAF = """

def f{number}(x):
    return jax.device_put(x, NamedSharding(mesh, P("data")))
"""


def build_calls(folder: Path, size: int) -> int:
    """A package whose functions call functions of earlier files: a jit at one end, `device_put` at the other."""
    package = folder / "calls"
    files = max(1, round(size / (CALLS_PER_FUNCTION * FUNCTIONS_PER_FILE)))
    write_file(package / "__init__.py", "")
    leaves = "".join(LEAF.format(number=number) for number in range(FUNCTIONS_PER_FILE))
    write_file(package / "m00000.py", LEAVES + leaves)
    for number in range(1, files + 1):
        path = package / f"m{number:05}.py"
        if not path.is_file():
            write_file(path, _file_calling_earlier_ones(number))
    top = f"import jax\n\nfrom calls import m{files:05}\n\nrun = jax.jit(m{files:05}.f0)\n"
    write_file(package / "top.py", top)
    return files * CALLS_PER_FUNCTION * FUNCTIONS_PER_FILE


def _file_calling_earlier_ones(number: int) -> str:
    """A file that calls five earlier ones: half by `from ... import f3`, half as `m00001.f3`."""
    random_ = random.Random(number)
    others = sorted({number - 1, *(random_.randrange(number) for _ in range(4))})
    by_module = others[: len(others) // 2]
    names: set[str] = set()
    functions = []
    for function in range(FUNCTIONS_PER_FILE):
        calls = []
        for _ in range(CALLS_PER_FUNCTION):
            other, called = random_.choice(others), random_.randrange(FUNCTIONS_PER_FILE)
            if other in by_module:
                calls.append(f"m{other:05}.f{called}(x)")
            else:
                names.add(f"from calls.m{other:05} import f{called} as f{called}_{other}")
                calls.append(f"f{called}_{other}(x)")
        body = "".join(f"    x = {call}\n" for call in calls)
        functions.append(f"\n\ndef f{function}(x):\n{body}    return x\n")
    modules = [f"from calls import m{other:05}" for other in by_module]
    return "\n".join([*modules, *sorted(names)]) + "\n" + "".join(functions)


def half_decade_sizes(first: int, last: int) -> tuple[int, ...]:
    """From first to last in steps of the root of ten."""
    count = round(2 * math.log10(last / first))
    return tuple(round(first * 10 ** (step / 2)) for step in range(count + 1))


def doubling_sizes(first: int, last: int) -> tuple[int, ...]:
    """From first to last, doubling."""
    return tuple(first * 2**step for step in range(int(math.log2(last / first)) + 1))


def all_series(seed: corpus.Package) -> list[Series]:
    """Everything that is measured."""
    lines = half_decade_sizes(10_000, 10_000_000)
    copies = f"Copies of {seed.name} {seed.release}, each below a folder of its own"
    return [
        Series(
            "lines", "lines", f"{copies} and a project of its own.", lines, build_lines(seed.folder, False)
        ),
        Series("root", "lines", f"{copies}; all one project.", lines, build_lines(seed.folder, True)),
        Series(
            "files",
            "files",
            "Files of ten lines, in one project.",
            half_decade_sizes(100, 100_000),
            build_files,
        ),
        Series(
            "findings",
            "findings",
            "Files with fifty findings each, in one project.",
            half_decade_sizes(100, 100_000),
            build_findings,
        ),
        Series(
            "file",
            "bytes",
            "One file of jitted functions without findings.",
            doubling_sizes(78_125, 5_000_000),
            build_one_file(GOOD),
        ),
        Series(
            "found",
            "bytes",
            "One file of jitted functions, each with a finding.",
            doubling_sizes(78_125, 5_000_000),
            build_one_file(BAD),
        ),
        Series(
            "calls",
            "edges",
            f"A call graph: {FUNCTIONS_PER_FILE} functions a file, {CALLS_PER_FUNCTION} calls each, into five earlier"
            " files; a jit at one end, `device_put` at the other.",
            half_decade_sizes(1_000, 1_000_000),
            build_calls,
        ),
        *(
            Series(name, unit, f"One file. {make.__doc__}", sizes, constructs.construct_builder(name))
            for name, (make, sizes, unit) in constructs.CONSTRUCTS.items()
        ),
    ]


@dataclass(frozen=True)
class Settings:
    """How the steps are measured."""

    work: Path
    command: list[str]
    """Checks, with a cache."""
    rounds: int
    limit: float
    largest: int | None
    warm: bool

    def time_step(self, name: str, folder: Path, size: int) -> Step:
        """Time one step. Raises `TooLong`."""
        arguments = [*self.command, *UNCACHED, str(folder)]
        runs = [timing.run_command(name, arguments, self.work, limit=self.limit) for _ in range(self.rounds)]
        # Looking at the memory costs time.
        sampled = timing.run_command(name, arguments, self.work, sample=True, limit=self.limit * 2)
        memory = max(run.peak_memory for run in (*runs, sampled))
        return Step(
            size, statistics.median(run.cpu for run in runs), memory, self._measure_warm_run(name, folder)
        )

    def _measure_warm_run(self, name: str, folder: Path) -> float | None:
        if not self.warm:
            return None
        arguments, variables = (
            [*self.command, str(folder)],
            {"SHARDLINT_CACHE_DIR": str(folder.parent / "cache")},
        )
        runs = [
            timing.run_command(name, arguments, self.work, variables=variables, limit=self.limit)
            for _ in range(self.rounds + 1)
        ]
        return statistics.median(run.cpu for run in runs[1:])


def measure_series(settings: Settings, series: Series) -> Measured:
    """Build and time the steps of a series, one after the other; one that takes too long is the last."""
    top = settings.work / "growth"
    shutil.rmtree(top, ignore_errors=True)
    folder = top / series.name
    (folder / ".git").mkdir(parents=True)
    steps: list[Step] = []
    try:
        for size in series.sizes:
            if settings.largest is not None and size > settings.largest:
                break
            built = series.build(folder, size)
            try:
                step = settings.time_step(series.name, folder, built)
            except timing.TooLong:
                return Measured(
                    series, steps, f"{built:,} {series.unit} took more than {settings.limit:.0f} s."
                )
            steps.append(step)
            warm = f", warm {step.warm:.2f} s" if step.warm is not None else ""
            said = f"{series.name} {built:,} {series.unit}: {step.seconds:.2f} s{warm}, {step.memory / 1e6:.0f} MB"
            print(said, flush=True)
    finally:
        shutil.rmtree(top, ignore_errors=True)
    return Measured(series, steps)


@dataclass(frozen=True)
class Growth:
    """From one step to the next: the exponent (None where too little was used to tell), and whether it is too much."""

    exponent: float | None
    worse: bool

    def __str__(self) -> str:
        return f"{self.exponent:.2f}" if self.exponent is not None else "–"


def compute_growth(sizes: tuple[int, int], used: tuple[float, float], least: float) -> Growth:
    """Compare growth with that of n log n."""
    (small, large), (before, after) = sizes, used
    if before < least or after < least or large <= small:
        return Growth(None, False)
    allowed = large * math.log(large) / (small * math.log(small)) * TOLERANCE
    return Growth(math.log(after / before) / math.log(large / small), after / before > allowed)


def render_table(measured: Measured, start: Step) -> Iterator[str]:
    """The lines of a series' part of the page."""
    series = measured.series
    yield f"## {series.name}"
    yield ""
    yield series.about
    yield ""
    warm = start.warm is not None
    yield (
        f"| size, {series.unit} | time, s | exponent |{' warm, s | exponent |' if warm else ''}"
        " peak memory, MB | exponent | |"
    )
    yield f"| ---: | ---: | ---: |{' ---: | ---: |' if warm else ''} ---: | ---: | --- |"
    for before, step in zip([None, *measured.steps], measured.steps, strict=False):
        grown = compare_with_start(before, step, start)
        flags = [what for what, each in grown.items() if each.worse]
        flag = f"**{', '.join(flags)}: worse than n log n**" if flags else ""
        warmed = f" {step.warm:.2f} | {grown['warm']} |" if step.warm is not None else ""
        yield (
            f"| {step.size:,} | {step.seconds:.2f} | {grown['time']} |{warmed}"
            f" {step.memory / 1e6:.0f} | {grown['memory']} | {flag} |"
        )
    yield ""
    if measured.stopped:
        yield f"**Stopped: {measured.stopped}**"
        yield ""


def compare_with_start(before: Step | None, step: Step, start: Step) -> dict[str, Growth]:
    """Growth of all that is measured, net of start-up."""
    if before is None:
        return dict.fromkeys(("time", "warm", "memory"), Growth(None, False))
    sizes = (before.size, step.size)

    def net_growth(of: Callable[[Step], float], least: float) -> Growth:
        return compute_growth(sizes, (of(before) - of(start), of(step) - of(start)), least)

    return {
        "time": net_growth(lambda one: one.seconds, LEAST_SECONDS),
        "warm": net_growth(lambda one: one.warm or 0, LEAST_SECONDS),
        "memory": net_growth(lambda one: one.memory, LEAST_BYTES),
    }


def growth_page(all_measured: list[Measured], start: Step, version: str, rounds: int) -> str:
    """The whole report."""
    lines = [
        "# Growth",
        "",
        "Generated by `python benchmarks/growth.py`; do not edit. `shardlint check --no-cache`, the processor time of"
        f" all processes the median of {rounds} {'run' if rounds == 1 else 'runs'}.",
        "",
        f"- shardlint {version}, {platform.python_implementation()} {platform.python_version()}, {platform.system()}"
        f" {platform.machine()}, {peers.CORES} cores",
        f"- Start-up, one clean file: {start.seconds:.2f} s, {start.memory / 1e6:.0f} MB. It is taken off before the"
        " exponents are computed.",
        "- The exponent is that between a step and the one before it: 1 is linear, 2 quadratic. A step is flagged where"
        f" it grows {TOLERANCE - 1:.0%} more than n log n would. Steps that use less than {LEAST_SECONDS} s or"
        f" {LEAST_BYTES / 1e6:.0f} MB above start-up are not compared.",
        "",
    ]
    for measured in all_measured:
        lines += render_table(measured, start)
    return "\n".join(lines)


def main() -> None:
    """Measure, and write the report."""
    parser = argparse.ArgumentParser(description=__doc__)
    names = ["lines", "root", "files", "findings", "file", "found", "calls", *constructs.CONSTRUCTS]
    parser.add_argument(
        "--only", nargs="+", choices=names, default=names, metavar="NAME", help=", ".join(names)
    )
    parser.add_argument("--largest", type=int, help="leave out larger steps")
    parser.add_argument("--rounds", type=int, default=1, help="timed runs of each step (default 1)")
    parser.add_argument("--warm", action="store_true", help="also with a filled cache")
    parser.add_argument("--limit", type=float, default=900, help="seconds for one run (default 900)")
    parser.add_argument("--work", type=Path, default=HERE.parent / ".benchmark", help="where all is kept")
    parser.add_argument("--output", type=Path, default=HERE.parent / "evaluation" / "growth.md", help="the report")
    given = parser.parse_args()
    timing.end_when_told()
    work = given.work.resolve()
    work.mkdir(parents=True, exist_ok=True)
    seed = corpus.load_package(work, REPLICATED)
    programs = peers.install_shardlint(work)
    command = peers.shardlint_command(programs)
    settings = Settings(work, command, given.rounds, given.limit, given.largest, given.warm)
    one = corpus.build_single_files(work) / "clean.py"
    settings.time_step("start-up", one, 0)  # compiles modules
    start = settings.time_step("start-up", one, 0)
    measured = []
    for series in all_series(seed):
        if series.name in given.only:
            measured.append(measure_series(settings, series))
            text = growth_page(measured, start, peers.version_of(programs / "shardlint"), given.rounds)
            given.output.write_text(text, "utf-8")  # a run that is ended keeps what it has measured
    print(given.output.read_text("utf-8"))


if __name__ == "__main__":
    main()
