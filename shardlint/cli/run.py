"""`shardlint run -- COMMAND`: starts the program, and reports on standard error when it has ended."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import click

from shardlint.engine.progress import announce_slow
from shardlint.output.printable import make_printable, printable_lines
from shardlint.run import launch
from shardlint.run.dumps import collect_dumps
from shardlint.run.examine import examine_run, least_reported_bytes
from shardlint.run.findings import Facts
from shardlint.run.observed.events import load_events as read_events
from shardlint.run.process_runs import run_several
from shardlint.run.pythons import explain_missing_jax
from shardlint.run.raised.exception_report import ExplainedException, explain_recorded
from shardlint.run.report import Report, json_report, text_report
from shardlint.source.streams import is_coloured
from shardlint.verify.cannot_run import CannotRun
from shardlint.verify.fixture import parse_bytes
from shardlint.verify.options import make_parsing_callback, time_limit
from shardlint.verify.progress import tell_progress
from shardlint.verify.working_directory import working_directory

_DEFAULT = 8


def _check_report_paths(
    context: click.Context, option: click.Parameter, value: tuple[Path, ...]
) -> tuple[Path, ...]:
    for path in value:
        if path.suffix not in (".html", ".json"):
            raise click.BadParameter(f"{path} ends in neither .html nor .json")
    return value


@click.command(context_settings={"ignore_unknown_options": False, "allow_interspersed_args": False})
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED, metavar="-- COMMAND...")
@click.option(
    "--devices",
    type=click.IntRange(1, 2048),
    help=f"Number of simulated devices. Default: what XLA_FLAGS or the program says, else {_DEFAULT}.",
)
@click.option(
    "--processes",
    type=click.IntRange(2, 64),
    metavar="N",
    help="Start the program N times, joined by jax.distributed, and compare the processes. {process}, {processes} and "
    "{coordinator} in COMMAND are filled in.",
)
@click.option(
    "--strict", is_flag=True, help="Exit with 1 if there are findings and the program exits with 0."
)
@click.option(
    "--large",
    callback=make_parsing_callback(parse_bytes),
    metavar="SIZE",
    help="Smallest array to report. Default: a 64th of the program's largest, 1 MiB at most.",
)
@click.option(
    "--timeout",
    type=float,
    callback=make_parsing_callback(time_limit),
    metavar="SECONDS",
    help="Time limit for the program.",
)
@click.option(
    "--memory",
    callback=make_parsing_callback(parse_bytes),
    metavar="SIZE",
    help="Memory limit for each process, as in 16GiB.",
)
@click.option(
    "--report",
    "reports",
    type=click.Path(path_type=Path, dir_okay=False),
    multiple=True,
    callback=_check_report_paths,
    metavar="FILE",
    help="Also write the report to FILE.html or FILE.json (repeatable).",
)
@click.option(
    "--keep-dumps",
    type=click.Path(path_type=Path, file_okay=False),
    metavar="FOLDER",
    help="Keep the compiler's dumps in this folder, which is empty or new.",
)
def run(
    command: tuple[str, ...],
    devices: int | None,
    processes: int | None,
    strict: bool,
    large: int | None,
    timeout: float | None,
    memory: int | None,
    reports: tuple[Path, ...],
    keep_dumps: Path | None,
) -> None:
    """Run a program unchanged on simulated devices, and report its sharding mistakes at the end.

    COMMAND is any program: `python train.py`, `train.py`, `-m package.train`, `pytest tests`. Its output
    is passed through; the report is written to standard error.

    Exit code: that of the program; 128 plus the signal number if a signal ended it, 124 at the time limit, 1 under
    --strict if there are findings and the program exits with 0, 2 if it could not be started.
    """
    words = launch.command_line(command)
    try:
        for path in reports:
            if not path.parent.is_dir():
                raise CannotRun(f"--report {path}: the folder {path.parent} does not exist")
        root = working_directory()  # now, for the program may remove it
        with launch.dump_folder(keep_dumps) as folder, launch.scratch_folder() as raised:
            given = dict(os.environ)
            limits = devices, large, timeout, memory
            ended, facts, explained, large = (
                _run_program_once(words, given, folder, raised, *limits)
                if processes is None
                else run_several(words, given, folder, processes, *limits)
            )
        facts.notes += launch.environment_remarks(given)
        if ended.code and not facts.compiled and (note := explain_missing_jax(words, root)):
            facts.notes.append(note)
    except CannotRun as error:
        tell_progress(f"shardlint run: {printable_lines(str(error))}")
        sys.exit(2)
    report = Report(words, ended, facts, large, root, explained)
    written = [_write_report(path, report) for path in reports]
    colour = is_coloured(sys.stderr)
    done = tell_progress(text_report(report, colour), colour) and all(written)
    sys.exit(ended.code or (2 if not done else 1 if strict and facts.found else 0))


def _run_program_once(
    words: list[str], given: dict[str, str], folder: Path, raised: Path, devices: int | None, large: int | None,
    timeout: float | None, memory: int | None,
) -> tuple[launch.Ended, Facts, list[ExplainedException], int]:  # fmt: skip
    env = launch.run_environment(folder, devices or _DEFAULT, devices is not None, given)
    env["SHARDLINT_RUN_RAISED"] = str(raised)
    ended = launch.run_program(words, env, folder, timeout, memory, devices or _DEFAULT)
    with announce_slow("shardlint run: reading what the program compiled"):
        explained = explain_recorded(raised, ended.code == 0)
        compiled, problems = collect_dumps(folder)
        events = read_events(folder)
        large = least_reported_bytes(compiled, events) if large is None else large
        facts = examine_run(compiled, large, events)
    facts.notes += problems
    return ended, facts, explained, large


def _write_report(path: Path, report: Report) -> bool:
    from shardlint import __version__

    if path.suffix == ".html":
        from shardlint.run.html import html_report

        text = html_report(report, __version__)
    else:
        text = json_report(report, __version__) + "\n"
    try:
        path.write_text(text, "utf-8")
    except OSError as error:
        tell_progress(make_printable(f"shardlint run: --report {path}: {error.strerror or error}"))
        return False
    return True
