"""The page the benchmark writes: the targets, the tables, the packages."""

from __future__ import annotations

import platform
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import checkers
import edits
import hook
import peers
from corpus import Package
from timing import Command


@dataclass(frozen=True)
class Target:
    """Something the issue asks for. `measured` is None where it was left out."""

    what: str
    limit: float
    measured: float | None
    unit: str = ""
    at_least: bool = False

    @property
    def table_row(self) -> str:
        """Its line of the table."""
        asked = f"{'at least' if self.at_least else 'at most'} {_format_number(self.limit)}{self.unit}"
        if self.measured is None:
            return f"| {self.what} | {asked} | left out | |"
        met = self.measured >= self.limit if self.at_least else self.measured <= self.limit
        measured = f"{_format_number(self.measured)}{self.unit}"
        return f"| {self.what} | {asked} | {measured} | {'met' if met else '**not met**'} |"


def all_targets(
    packages: Sequence[Package],
    whole: Mapping[str, Command],
    one: Mapping[str, Command],
    timed: Sequence[checkers.Timed],
    edited: Sequence[edits.Edited],
    hooked: Sequence[hook.Hooked],
) -> list[Target]:
    """All targets, computed from the runs."""
    cold = whole["cold"].median_seconds
    ours = max(whole[key].peak_memory for key in ("cold", "written", "warm", "changed"))
    theirs = max(whole[key].peak_memory for key in ("ruff cold", "ruff warm", "ruff changed"))
    pass_ = one["pass"].median_seconds

    def ratio_to(name: str) -> float | None:
        return whole[name].median_seconds / cold if name in whole else None

    return [
        Target("Corpus, lines", 3_000_000, sum(package.lines for package in packages), "", True),
        Target(
            "Cold, against ruff's default rules, processor",
            9,
            whole["cold"].cpu_seconds / whole["ruff cold"].cpu_seconds,
            "x",
        ),
        *(
            Target(
                f"{project.name}, against ty, processor",
                _largest_allowed_ratio(project),
                _ratio_to_ty(project),
                "x",
            )
            for project in timed
        ),
        *(Target(f"{one.name}, one function edited, p95", 0.5, one.percentile_95, " s") for one in edited),
        *(Target(f"{one.name}, one function edited, worst", 1.5, max(one.seconds), " s") for one in edited),
        *(Target(f"{one.name}, hook, p90", 2.5, hook.percentile_90(one.fresh), " s") for one in hooked),
        *(Target(f"{one.name}, hook again, p90", 0.3, hook.percentile_90(one.again), " s") for one in hooked),
        Target(
            "Warm with findings, against ruff's warm",
            0.1,
            whole["warm"].median_seconds / whole["ruff warm"].median_seconds,
            "x",
        ),
        Target("One changed file", 0.5, whole["changed"].median_seconds, " s"),
        Target("Peak memory, above ruff's", 200, (ours - theirs) / 1e6, " MB"),
        Target("One clean file, above `python -c pass`", 70, (one["clean"].median_seconds - pass_) * 1e3, " ms"),
        Target("A file with a finding", 350, one["finding"].median_seconds * 1e3, " ms"),
        Target("`fix`", 400, one["fix"].median_seconds * 1e3, " ms"),
        Target("Fixit, against cold", 50, ratio_to("Fixit"), "x", True),
        Target("flake8 with TorchFix, against cold", 50, ratio_to(peers.FLAKE8), "x", True),
        Target(
            "flake8 with TorchFix, files it parses, against cold",
            50,
            ratio_to(f"{peers.FLAKE8}, torch"),
            "x",
            True,
        ),
        Target("jaxlint, against cold", 5, ratio_to("jaxlint"), "x", True),
    ]


def _largest_allowed_ratio(project: checkers.Timed) -> float:
    return 0.6 if project.name == checkers.SIDE_BY_SIDE else 1.0


def _ratio_to_ty(project: checkers.Timed) -> float | None:
    theirs = project.commands.get("ty")
    return project.commands[checkers.OURS].cpu_seconds / theirs.cpu_seconds if theirs is not None else None


def render_page(
    work: Path,
    programs: Path,
    packages: Sequence[Package],
    whole: Mapping[str, Command],
    one: Mapping[str, Command],
    timed: Sequence[checkers.Timed],
    edited: list[edits.Edited],
    hooked: list[hook.Hooked],
    findings: str,
    rounds: tuple[int, int, int],
) -> str:
    """The whole page."""
    files, lines = sum(p.files for p in packages), sum(p.lines for p in packages)
    jax_lines, size = sum(p.jax_lines for p in packages), sum(p.size for p in packages)
    slow = [peer for peer in peers.slow_peers(work) if peer.name in whole] if "Fixit" in whole else []
    left_out = () if slow else ("jaxlint", "semgrep", "flake8", "fixit")
    pins = [pin for name in peers.PINS for pin in peers.PINS[name] if name not in left_out]
    page = [
        "# Benchmark",
        "",
        "Generated by `make bench`; do not edit. All commands were timed in one run, in turn; the times are medians.",
        "",
        f"- shardlint {peers.version_of(programs / 'shardlint')}: {findings}",
        f"- {', '.join(pins)}",
        f"- {platform.python_implementation()} {platform.python_version()}, {platform.system()} {platform.machine()},"
        f" {peers.CORES} cores",
        f"- {files:,} files, {lines:,} lines, {size / 1e6:.1f} MB of Python from {len(packages)} published packages;"
        f" {jax_lines:,} of the lines are in files in which `jax` stands",
        "",
        "## Targets",
        "",
        "| | target | measured | |",
        "| --- | ---: | ---: | --- |",
        *(target.table_row for target in all_targets(packages, whole, one, timed, edited, hooked)),
        "",
        f"## The whole corpus ({rounds[0]} runs each)",
        "",
        *_timing_table(whole.values(), whole["cold"], "against shardlint, cold"),
        "",
        "Cold is without a cache (`--no-cache`); warm is with one that an earlier run has filled. For one file changed,"
        " a comment is appended to a file with JAX in it, another one each time.",
        "Processor time is that of all processes. Memory of all processes is sampled in a run of its own that is not"
        " timed, and counts shared pages once; the largest process is what the system says of it, where that is"
        " more than the process has that does the timing.",
        "",
        *_explain_slow_tools(slow, whole),
        f"## One file ({rounds[1]} runs each)",
        "",
        *_timing_table(one.values(), one["pass"], "against `python -c pass`"),
        "",
        "shardlint is called as by its pre-commit hooks, on a file that was just edited, with the cache of the corpus"
        " at hand.",
        "",
        f"## Tools that follow imports ({rounds[2]} runs each)",
        "",
        *checkers.timing_table(timed),
        "",
        "Each project whole and cold, all tools in turn; the times are medians with half their range. Of what the"
        " projects import from others nothing is installed; the libraries are jax, flax, equinox, optax and"
        " orbax-checkpoint side by side. A dash: left out, or it gave up (a file it cannot parse, or finds twice).",
        "",
        "## One function edited",
        "",
        *edits.edit_table(edited),
        "",
        "Processor time of the run after a statement was added to a function, with all else known from the run before."
        " The functions are chosen by chance, the same in each benchmark.",
        "",
        *(hook.hook_section(hooked) if hooked else ()),
        "## The packages",
        "",
        "| package | version | files | lines | with `jax` | MB |",
        "| --- | --- | ---: | ---: | ---: | ---: |",
        *(
            f"| {p.name} | {p.release} | {p.files:,} | {p.lines:,} | {p.jax_lines:,} | {p.size / 1e6:.1f} |"
            for p in packages
        ),
        "",
    ]
    return "\n".join(page)


def _explain_slow_tools(slow: Sequence[peers.Peer], whole: Mapping[str, Command]) -> list[str]:
    if not slow:
        return ["jaxlint, semgrep, flake8 and Fixit were left out.", ""]
    return [
        "What is called scaled was given a part of the corpus; the time is scaled by bytes, the memory is not.",
        "",
        *(
            f"- {peer.name}: {peer.how}. Given {_describe_corpus_share(peer, whole[peer.name].scale)}."
            for peer in slow
        ),
        f"- {peers.FLAKE8}, only files with `torch`: {1 / whole[f'{peers.FLAKE8}, torch'].scale:.1%} of the bytes.",
        "",
    ]


def _describe_corpus_share(peer: peers.Peer, scale: float) -> str:
    return f"{', '.join(peer.packages)}: {1 / scale:.1%} of the bytes" if peer.packages else "all of it"


def _timing_table(commands: Iterable[Command], base: Command, against: str) -> list[str]:
    return [
        f"| | wall, s | processor, s | {against} | largest process, MB | all processes, MB |",
        "| --- | ---: | ---: | ---: | ---: | ---: |",
        *(
            f"| {command.what} | {_format_seconds(command.median_seconds)} | {_format_seconds(command.cpu_seconds)} "
            f"| {_format_number(command.median_seconds / base.median_seconds)} "
            f"| {_format_megabytes(command.largest_process_memory)} | {_format_megabytes(command.tree_memory)} |"
            for command in commands
        ),
    ]


def _format_megabytes(size: int | None) -> str:
    return f"{size / 1e6:.0f}" if size else "–"


def _format_seconds(seconds: float) -> str:
    return f"{seconds:.3f}" if seconds < 1 else f"{seconds:.1f}"


def _format_number(value: float) -> str:
    if abs(value) >= 1000:
        return f"{value:,.0f}"
    return f"{value:.3g}" if abs(value) < 100 else f"{value:.0f}"
