"""`shardlint verify`: options in, one report out."""

from __future__ import annotations

import importlib.util
import os
import shlex
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import click

from shardlint.verify.fixture import parse_bytes, parse_mesh
from shardlint.verify.levels import LEVELS
from shardlint.verify.plan import Request, check_self, verify_fixtures, verify_proofs
from shardlint.verify.proofs import BadProof, ProofFolder, broken, read_proof
from shardlint.verify.report import Result, Run, json_report, text_report
from shardlint.verify.runner import CannotRun, Runner
from shardlint.verify.topology import parse_topology

MENTION = b"shardlint.verify"
_SHOWN = ("python", "jax", "equinox", "flax", "haliax", "einshard")


def proofs(codes: Sequence[str], folders: Mapping[str, Path]) -> tuple[list[ProofFolder], list[Result]]:
    """The proofs whose code begins with one of `codes` (`all`: every one), and a failure for each that
    cannot be read.

    Raises `CannotRun` for a code that selects nothing, and without packaging.
    """
    if importlib.util.find_spec("packaging") is None:
        raise CannotRun('reading proofs needs packaging: pip install "shardlint[verify]"')
    for code in codes:
        if code != "all" and not any(known.startswith(code) for known in folders):
            raise CannotRun(f"no rule with a proof has a code that begins with {code!r}")
    found, failures = [], []
    for known, folder in sorted(folders.items()):
        if "all" in codes or known.startswith(tuple(codes)):
            try:
                found.append(read_proof(known, folder))
            except (BadProof, OSError) as error:
                failures.append(broken(known, str(error)))
    return found, failures


def fixture_files(paths: Sequence[str]) -> dict[Path, list[str]]:
    """Files that may hold fixtures, each with the fixture names asked for (none means all).

    A path is a file, `FILE::NAME`, or a directory, of which the files that mention `shardlint.verify` count.
    Raises `CannotRun` for a path that is not there and when no file is found.
    """
    from shardlint.sources.find import find

    files: dict[Path, list[str]] = {}
    for text in paths:
        place, _, name = text.partition("::")
        path = Path(place)
        if not path.exists():
            raise CannotRun(f"{place}: no such file or directory")
        if path.is_dir():
            for file in find([path]).files:
                if file.suffix == ".py" and MENTION in file.read_bytes():
                    files.setdefault(file, [])
        elif name and files.get(path) != []:
            files.setdefault(path, []).append(name)
        else:
            files[path] = []
    if not files:
        raise CannotRun(f"no file below {shlex.join(paths)} mentions shardlint.verify")
    return files


def _mesh(context: click.Context, option: click.Parameter, value: str | None) -> dict[str, int] | None:
    try:
        return None if value is None else parse_mesh(value)
    except ValueError as error:
        raise click.BadParameter(str(error)) from None


def _size(context: click.Context, option: click.Parameter, value: str) -> int:
    try:
        return parse_bytes(value)
    except ValueError as error:
        raise click.BadParameter(str(error)) from None


def _topologies(context: click.Context, option: click.Parameter, value: tuple[str, ...]) -> tuple[str, ...]:
    try:
        return tuple(parse_topology(name).name for name in value)
    except ValueError as error:
        raise click.BadParameter(str(error)) from None


@click.command()
@click.argument("paths", nargs=-1, metavar="[PATHS]")
@click.option(
    "--rules", default="", metavar="CODES", help="Prove rules: codes or prefixes with commas, or 'all'."
)
@click.option(
    "--level", type=click.Choice(LEVELS), help="How far to go; without, as far as each fixture declares."
)
@click.option(
    "--mesh", callback=_mesh, metavar="AXES", help="Run fixtures on this mesh only, such as data=4,model=2."
)
@click.option(
    "--processes",
    type=click.IntRange(min=2),
    help="Also run fixtures as so many jax.distributed processes.",
)
@click.option(
    "--topology",
    "topologies",
    multiple=True,
    callback=_topologies,
    metavar="NAME",
    help="Also compile fixtures for it, such as v5e:4x4; repeatable.",
)
@click.option(
    "--timeout", type=click.FloatRange(min=0.1), default=120.0, show_default=True, help="Seconds a program."
)
@click.option(
    "--memory",
    callback=_size,
    metavar="SIZE",
    default="16GiB",
    show_default=True,
    help="Memory a program may take.",
)
@click.option(
    "--python", default=sys.executable, help="Run the programs with another interpreter, which has jax."
)
@click.option(
    "--jobs", type=click.IntRange(min=1), default=1, show_default=True, help="Programs side by side."
)
@click.option("--output-format", type=click.Choice(["text", "json"]), default="text", show_default=True)
def verify(
    paths: tuple[str, ...],
    rules: str,
    level: str | None,
    mesh: dict[str, int] | None,
    processes: int | None,
    topologies: tuple[str, ...],
    timeout: float,
    memory: int,
    python: str,
    jobs: int,
    output_format: str,
) -> None:
    """Prove on simulated devices what programs declare about their shardings, donations and numbers.

    PATHS are Python files, FILE::NAME, or directories; the fixtures at their module level are
    verified (without PATHS and --rules: those below the working directory). With --rules, the
    proofs of rules are run.

    Exits with 0 when something passed and nothing failed, 1 after a failure (or when everything was
    skipped), and 2 when the run itself could not be done.
    """
    codes = [code for code in (part.strip() for part in rules.split(",")) if code]
    if mesh and codes and not paths:
        raise click.UsageError("--mesh is for fixtures; a proof brings its own mesh")
    try:
        found: list[ProofFolder] = []
        results: list[Result] = []
        if codes:
            from shardlint.registry import proof_folders

            found, results = proofs(codes, proof_folders())
        files = fixture_files(paths or (".",)) if paths or not codes else {}
        options = "" if python == sys.executable else f" --python {shlex.quote(python)}"
        request = Request(
            files, found, mesh, level, options=options, processes=processes, topologies=topologies
        )
        run = run_request(request, Runner(python, timeout, memory, jobs), results)
    except CannotRun as error:
        click.echo(f"shardlint verify: {error}", err=True)
        sys.exit(2)
    if output_format == "json":
        from shardlint import __version__

        click.echo(json_report(run, __version__))
    else:
        colour = sys.stdout.isatty() and "NO_COLOR" not in os.environ
        click.echo(text_report(run, colour), color=colour)
    sys.exit(run.exit_code())


def run_request(request: Request, runner: Runner, already: Sequence[Result] = ()) -> Run:
    """Do all of a request. Raises `CannotRun` where that is not possible, a run without any fixture
    included.
    """
    with runner:
        caught = check_self(runner)
        results = [*already, *verify_proofs(runner, request), *verify_fixtures(runner, request)]
        if not results:
            raise CannotRun("no fixture found: a fixture is a shardlint.verify.Fixture at module level")
        packages = {name: release for name, release in runner.releases.items() if name in _SHOWN}
        return Run(results, packages, list(runner.limits), caught)
