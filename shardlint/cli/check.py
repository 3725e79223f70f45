"""The commands `check` and `baseline`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from shardlint.cli.options import (
    FAILED,
    PATHS,
    STDIN,
    OneOf,
    PathOption,
    named_alone,
    options_of,
    shared_options,
    standard_input,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from shardlint.engine.results import Options, Report


@click.command()
@PATHS
@shared_options
@click.option(
    "--output-format",
    "formats",
    multiple=True,
    metavar="FORMAT[=FILE]",
    help="full (default), concise, grouped, json, jsonl, sarif, github, gitlab, junit, rdjson or markdown; "
    "repeatable, with a file for all but one.",
)
@click.option(
    "--output-file", type=PathOption(path_type=Path, dir_okay=False), help="Write the report to this file."
)
@click.option(
    "--color",
    "colour",
    type=OneOf(["auto", "always", "never"]),
    default="auto",
    help="Colours and links. auto: by NO_COLOR, FORCE_COLOR and the terminal.",
)
@click.option(
    "--statistics", is_flag=True, help=("Report the number of findings of each rule, not their places.")
)
@click.option("--exit-zero", is_flag=True, help="Exit with 0 even if there are findings.")
@click.option("--no-baseline", is_flag=True, help="Also report the findings in the baseline.")
@click.option(
    "--add-suppressions",
    "reason",
    metavar="REASON",
    help="Write `# shardlint: ignore[CODE] REASON` at each finding, and report what remains.",
)
@click.option(
    "--diff-base",
    metavar="REV",
    help="Report findings in files changed since this git revision, and new ones that they cause elsewhere.",
)
@click.option(
    "--no-elsewhere",
    is_flag=True,
    help="Do not report findings in files that were not given.",
)
@click.option("-q", "--quiet", is_flag=True, help="Print findings, and nothing else.")
@click.option("--show-files", is_flag=True, help="List the files that would be checked, and check nothing.")
@click.option("--show-settings", is_flag=True, help="Print the settings and the source of each, and check nothing.")
@click.option("--watch", is_flag=True, help="Check again when a file or setting changes, until Ctrl-C.")
@click.option("--profile", is_flag=True, help="Print on standard error where the time went.")
@click.option("--no-cache", is_flag=True, help="Do not read or write the cache.")
@STDIN
def check(
    paths: tuple[Path, ...],
    formats: tuple[str, ...],
    output_file: Path | None,
    colour: str,
    statistics: bool,
    exit_zero: bool,
    no_baseline: bool,
    reason: str | None,
    diff_base: str | None,
    no_elsewhere: bool,
    quiet: bool,
    show_files: bool,
    show_settings: bool,
    watch: bool,
    profile: bool,
    no_cache: bool,
    stdin_filename: Path | None,
    **kwargs: Any,
) -> None:
    """Report sharding mistakes, without running the project.

    PATHS are files and folders (default: this folder); "-" reads standard input. For files given explicitly, findings
    that they cause in other files of the project are reported too.

    Exit code: 0 no findings, 1 findings, 2 not everything was checked: a given file could not be read, a rule
    failed, or there was nothing to check.
    """
    from shardlint.output.outputs import FOR_PEOPLE, parse_outputs
    from shardlint.source.timing import clock

    asked_for = parse_outputs(formats, output_file)
    if statistics and not any(output.format in FOR_PEOPLE for output in asked_for):
        raise click.UsageError(f"--statistics works only with the formats {', '.join(FOR_PEOPLE)}")
    if profile:
        clock.start_clock()
    options = options_of(kwargs)
    stdin = standard_input(paths, stdin_filename)
    if stdin is not None:
        if reason is not None or diff_base is not None:
            raise click.UsageError("--add-suppressions and --diff-base need files, not standard input")
        if watch or show_files or show_settings:
            raise click.UsageError("--watch, --show-files and --show-settings need files, not standard input")
    if reason is not None:
        _check_reason(reason)
        if watch:
            raise click.UsageError("--add-suppressions writes files, and --watch would check them again: give one")
    since = _parse_diff_base(diff_base)

    def choose_paths() -> Sequence[Path]:
        return _files_to_check(paths, since) if since is not None else paths or (Path(),)

    if show_files or show_settings:
        from shardlint.cli.listings import list_files, list_settings

        for line in (list_files if show_files else list_settings)(choose_paths(), options):
            click.echo(line)
        return

    def check_once() -> int:
        from shardlint.engine.progress import meter
        from shardlint.engine.run import check_paths as run
        from shardlint.output.outputs import write_report
        from shardlint.source.timing import timed

        meter.start_meter()
        try:
            report = run(
                choose_paths(),
                options,
                stdin,
                cached=not no_cache,
                known=not no_baseline,
                elsewhere=not no_elsewhere,
                since=since,
            )
        finally:
            meter.stop_meter()
        problems = _write_suppressions(report, options, reason) if reason is not None else 0
        with timed("reporting"):
            write_report(report, asked_for, named_alone(kwargs["select"]), statistics, colour, quiet)
        if profile:
            for line in clock.format_table():
                click.echo(line, err=True)
        undone = report.is_incomplete and not (since is not None and _nothing_changed(report))
        return FAILED if undone or problems else 1 if report.finding_count and not exit_zero else 0

    if watch:
        from shardlint.cli.watch import watch_files

        watch_files(choose_paths, options, check_once, quiet)
        return
    sys.exit(check_once())


def _parse_diff_base(said: str | None) -> str | None:
    if said is None:
        return None
    if not said or said.startswith("-"):
        raise click.UsageError(f"--diff-base is {said!r}; write a git revision, such as origin/main")
    from shardlint.engine.changes.revision_files import base_of

    return base_of(said)


def _files_to_check(paths: Sequence[Path], since: str) -> list[Path]:
    """The files to check: those named, and in folders those that changed."""
    from shardlint.config.folders import shown_folder
    from shardlint.engine.changes.revision_files import changed_files
    from shardlint.source.other_formats import other_kind

    found: list[Path] = []
    for path in paths or (Path(),):
        if not path.is_dir():
            found.append(path)
            continue
        for file in changed_files(since, path):
            if file.suffix in (".py", ".pyi", ".ipynb") and other_kind(str(file)) is None:
                found.append(Path(shown_folder(str(file.parent)), file.name))
    return found


def _nothing_changed(report: Report) -> bool:
    return not (report.files or report.missing or report.failed or report.incomplete)


def _check_reason(reason: str) -> None:
    if not reason.strip() or "\n" in reason or reason.lstrip().startswith(("#", "[")):
        raise click.UsageError('--add-suppressions needs a reason on one line, such as "known, see issue 12"')


def _write_suppressions(report: Report, options: Options, reason: str) -> int:
    """Write the comments; how many files could not be changed."""
    from shardlint.output.phrases import format_count
    from shardlint.output.printable import make_printable
    from shardlint.rewrite.suppression_comments import silence_findings

    done = silence_findings(report, options, reason.strip())
    for path, problem in done.problems:
        click.echo(make_printable(f"{path}: not suppressed: {problem}"), err=True)
    click.echo(
        f"Suppressed {format_count(done.findings, 'finding')} in {format_count(done.files, 'file')}; `shardlint check` "
        "reports comments that are no longer needed.",
        err=True,
    )
    return len(done.problems)


@click.command()
@PATHS
@shared_options
@click.option("--add", is_flag=True, help="Also add findings that are new since the baseline was written.")
@click.option("--no-cache", is_flag=True, help="Do not read or write the cache.")
def baseline(paths: tuple[Path, ...], add: bool, no_cache: bool, **kwargs: Any) -> None:
    """Record the present findings, so that check reports only new ones.

    Writes .shardlint-baseline.json (setting: baseline) in the root of the project; commit it. An entry does not
    depend on the line of its finding. check removes entries that no longer occur. Only --add adds entries.

    Exit code: 0 the baseline contains all findings, 1 there are new ones and --add is missing, 2 not everything was
    checked.
    """
    from shardlint.cli.baseline import record_baselines
    from shardlint.engine.progress import meter
    from shardlint.output.printable import make_printable

    meter.start_meter()
    try:
        lines, new, undone = record_baselines(paths or (Path(),), options_of(kwargs), add, not no_cache)
    finally:
        meter.stop_meter()
    for line in lines:
        click.echo(make_printable(line))
    sys.exit(FAILED if undone else 1 if new else 0)
