"""`shardlint verify`: options in, one report out."""

from __future__ import annotations

import importlib.util
import os
import shlex
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NoReturn

import click

from shardlint.cli.options import OneOf
from shardlint.output.printable import printable_lines
from shardlint.source.files import cache_folder, replace_file
from shardlint.source.streams import is_coloured
from shardlint.verify.cannot_run import CannotRun
from shardlint.verify.deferred import Deferred
from shardlint.verify.fixture import parse_bytes, parse_mesh
from shardlint.verify.fixture_files import fixture_files
from shardlint.verify.golden import compare_with_goldens, read_goldens
from shardlint.verify.levels import LEVELS
from shardlint.verify.options import make_parsing_callback, time_limit
from shardlint.verify.plan import Request, verify_fixtures, verify_proofs
from shardlint.verify.progress import Progress, tell_progress
from shardlint.verify.proofs import BadProof, ProofFolder, broken_proof, read_proof
from shardlint.verify.report import FAIL, Result, Run, json_report, text_report
from shardlint.verify.rule_check import check_rules
from shardlint.verify.runner import MEMORY, SECONDS
from shardlint.verify.shard import Shard
from shardlint.verify.topology import parse_topology
from shardlint.verify.working_directory import leave_if_removed, working_directory

_FILE = click.Path(dir_okay=False, path_type=Path)
_SHOWN = ("python", "jax", "equinox", "flax", "haliax", "einshard")


def select_proofs(codes: Sequence[str], folders: Mapping[str, Path]) -> tuple[list[ProofFolder], list[Result]]:
    """The proofs whose code begins with one of `codes` (`all`: every one), and a failure for each that
    cannot be read.

    Raises `CannotRun` for a code that selects nothing, and without packaging.
    """
    if importlib.util.find_spec("packaging") is None:
        raise CannotRun('proofs need the package packaging: pip install "shardlint[verify]"')
    for code in codes:
        if code != "all" and not any(known.startswith(code) for known in folders):
            raise CannotRun(f"no rule with a code that begins with {code!r} has a proof")
    found, failures = [], []
    for known, folder in sorted(folders.items()):
        if "all" in codes or known.startswith(tuple(codes)):
            try:
                found.append(read_proof(known, folder))
            except (BadProof, OSError) as error:
                failures.append(broken_proof(known, str(error)))
    return found, failures


@click.command()
@click.argument("paths", nargs=-1, metavar="[PATHS]")
@click.option(
    "--rules", default="", metavar="CODES", help="Prove rules: codes or prefixes with commas, or 'all'."
)
@click.option(
    "--level",
    "levels",
    multiple=True,
    type=OneOf(LEVELS),
    help="Only this level; repeatable. Default: all levels that a fixture declares.",
)
@click.option(
    "--mesh",
    callback=make_parsing_callback(parse_mesh),
    metavar="AXES",
    help="Run fixtures on this mesh only, such as data=4,model=2.",
)
@click.option(
    "--processes",
    type=click.IntRange(min=2),
    help="Also run fixtures as this many jax.distributed processes.",
)
@click.option(
    "--topology",
    "topologies",
    multiple=True,
    callback=make_parsing_callback(lambda name: parse_topology(name).name),
    metavar="NAME",
    help="Also compile fixtures for this topology, such as v5e:4x4; repeatable.",
)
@click.option(
    "--timeout", callback=make_parsing_callback(time_limit), default=SECONDS, show_default=True, help=(
        "Time limit per program, "
        "in seconds."
    )
)
@click.option(
    "--memory",
    callback=make_parsing_callback(parse_bytes),
    metavar="SIZE",
    default=MEMORY,
    show_default=True,
    help="Memory limit per program.",
)
@click.option(
    "--python", default=sys.executable, help="Run the programs with this interpreter, which has jax."
)
@click.option(
    "--jobs",
    type=click.IntRange(min=1),
    default=lambda: min(os.cpu_count() or 1, 4),
    show_default="number of processors, at most 4",
    help="Number of programs that run at the same time.",
)
@click.option(
    "--cache-dir",
    type=click.Path(path_type=Path, file_okay=False),
    help="Folder for the compilers' results. Default: the platform's cache folder.",
)
@click.option("--no-cache", is_flag=True, help="Do not read or write the cache.")
@click.option(
    "--fresh", is_flag=True, help="Run everything, including fixtures that passed and have not changed."
)
@click.option(
    "--shard",
    callback=make_parsing_callback(Shard.parse_shard),
    metavar="I/N",
    help="Do part I of N of the work, for the jobs of a CI matrix.",
)
@click.option(
    "--since",
    metavar="REV",
    help="Only fixtures that depend on files changed since this git revision, directly or through imports.",
)
@click.option(
    "--update", is_flag=True, help="Write the goldens of fixtures that pass, and do not compare with them."
)
@click.option(
    "--init",
    "record",
    is_flag=True,
    help="Run a program (`--init -- python train.py`) and write fixtures of the functions that it calls. Or "
    "write one unfinished fixture and run nothing (`--init module:function`).",
)
@click.option(
    "--init-file",
    type=_FILE,
    metavar="FILE",
    help="File for --init to write. Default: sharding_fixtures.py next to the program.",
)
@click.option("--report", "html", type=_FILE, metavar="FILE", help="Also write an HTML page.")
@click.option("--junit", type=_FILE, metavar="FILE", help="Also write JUnit XML.")
@click.option("--output-format", type=OneOf(["text", "json"]), default="text", show_default=True)
def verify(
    paths: tuple[str, ...],
    rules: str,
    levels: tuple[str, ...],
    mesh: dict[str, int] | None,
    processes: int | None,
    topologies: tuple[str, ...],
    timeout: float,
    memory: int,
    python: str,
    jobs: int,
    cache_dir: Path | None,
    no_cache: bool,
    fresh: bool,
    shard: Shard | None,
    since: str | None,
    update: bool,
    record: bool,
    init_file: Path | None,
    html: Path | None,
    junit: Path | None,
    output_format: str,
) -> None:
    """Prove on simulated devices what fixtures declare: shardings, donations, communication, numbers.

    PATHS are Python files, settings files, FILE::NAME, or directories. Fixtures are at module level and in
    [[tool.shardlint.verify]]. Default: all fixtures below the current folder and in its settings. With --rules,
    the proofs of rules run instead.

    Exit code: 0 something passed and nothing failed, 1 something failed or everything was skipped, 2 the run
    failed.
    """
    if record or init_file:
        _write_program_fixtures(paths, init_file, timeout, python, record=record)
    codes = [code for code in (part.strip() for part in rules.split(",")) if code]
    if mesh and codes and not paths:
        raise click.UsageError("--mesh applies to fixtures; a proof has its own mesh")
    if since and codes:
        raise click.UsageError("--since applies to fixtures, not to proofs of rules")
    try:
        here = working_directory()
        if html and junit and os.path.realpath(html) == os.path.realpath(junit):
            raise click.UsageError(f"--report and --junit are both {junit}; name two files")
        found: list[ProofFolder] = []
        results: list[Result] = []
        if codes:
            from shardlint.rules_api.registry import proof_folders

            found, results = select_proofs(codes, proof_folders())
            if shard is not None:
                # From the other end than fixtures: what does not come out even goes to other shards.
                mirrored = Shard(shard.count + 1 - shard.index, shard.count)
                found = mirrored.select_units(found, [1.0] * len(found))
                results = results if shard.index == 1 else []
        files = fixture_files(paths) if paths or not codes else {}
        if since:
            files = _fixtures_touched(files, since, here)
        options = "" if python == sys.executable else f" --python {shlex.quote(python)}"
        request = Request(
            files,
            found,
            mesh,
            levels,
            shard,
            options=options,
            processes=processes,
            topologies=topologies,
            named=[file for file in files if file in map(Path, paths)],
        )
        for file in (html, junit):
            if file is not None and not (here / file).parent.is_dir():
                raise CannotRun(f"{file}: the folder {file.parent} does not exist")
        cache = None if no_cache else cache_dir or cache_folder("verify")
        runner = Deferred(python, timeout, memory, jobs, cache=cache, fresh=fresh or update)
        run = run_request(request, runner, results, update)
    except CannotRun as error:
        tell_progress(f"shardlint verify: {printable_lines(str(error))}")
        sys.exit(2)
    leave_if_removed()
    _write_reports(run, here, html, junit)
    if output_format == "json":
        from shardlint import __version__

        click.echo(json_report(run, __version__))
    else:
        colour = is_coloured(sys.stdout)
        click.echo(text_report(run, colour), color=colour)
    for problem in run.unwritten:
        tell_progress(f"shardlint verify: {printable_lines(problem)}")
    sys.exit(run.exit_code())


def _fixtures_touched(files: dict[Path, list[str]], since: str, here: Path) -> dict[Path, list[str]]:
    """The files and fixtures that a change can touch. Ends the run where there are none."""
    from shardlint.verify.affected_fixtures import touched_fixtures

    found = touched_fixtures(files, since, here)
    if found.why:
        tell_progress(f"shardlint verify: all fixtures run, because this changed since {since}: {found.why}")
    if found.left:
        more = f" and {len(found.left) - 3} more" if len(found.left) > 3 else ""
        tell_progress(
            f"shardlint verify: changes since {since} do not affect {', '.join(found.left[:3])}{more}"
        )
    if not found.files:
        click.echo(f"no fixture is affected by the changes since {since}")
        sys.exit(0)
    return found.files


def _write_program_fixtures(
    command: Sequence[str], into: Path | None, timeout: float, python: str, *, record: bool
) -> NoReturn:
    """Write the fixtures of a program, say so, and end."""
    from shardlint.run.init.start import write_fixtures

    if not record:
        raise click.UsageError("--init-file needs --init")
    try:
        lines, complete = write_fixtures(command, into, timeout, python)
    except CannotRun as error:
        tell_progress(f"shardlint verify: {printable_lines(str(error))}")
        sys.exit(2)
    for line in lines:
        click.echo(printable_lines(line))
    sys.exit(0 if complete else 1)


def _write_reports(run: Run, here: Path, html: Path | None, junit: Path | None) -> None:
    """Write the reports that are files, and note in the run which cannot be written."""
    from shardlint import __version__

    for file in (html, junit):
        if file is None:
            continue
        if file is html:
            from shardlint.verify.html.verify import html_report as report
        else:
            from shardlint.verify.junit import junit_report as report
        data = report(run, __version__).encode()
        try:
            replace_file(here / file, data)
        except OSError as error:
            run.unwritten.append(f"{file}: cannot be written: {error.strerror}")


def run_request(
    request: Request, runner: Deferred, already: Sequence[Result] = (), update: bool = False
) -> Run:
    """Do all of a request, and hold it against its goldens, or `update` them.

    Raises `CannotRun` where that is not possible, a run without any fixture included.
    """
    goldens = read_goldens(request.files)
    with runner, Progress(sys.stderr) as runner.progress:
        if request.proofs:
            runner.start_runner()  # which releases there are says which proofs hold
        proven = check_rules(request.proofs, verify_proofs(runner, request))
        results = [*already, *proven, *verify_fixtures(runner, request)]
        whole = not (request.mesh or request.shard or any(request.files.values()))
        packages = {name: release for name, release in runner.releases.items() if name in _SHOWN}
        run = Run(results, packages, list(runner.limits), runner.caught, shard=str(request.shard or ""))
        try:
            run.goldens = compare_with_goldens(results, runner.releases, update=update, whole=whole, goldens=goldens)
        except OSError as error:
            run.unwritten.append(f"{error.filename}: the golden cannot be written: {error.strerror}")
        runner.keep_outcomes([result.fixture for result in results if result.status == FAIL])
        run.kept = runner.cache_sentences()
        return run
