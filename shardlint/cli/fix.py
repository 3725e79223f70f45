"""`shardlint fix`: options in, what was fixed and what is left out."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import click

from shardlint.cli.options import (
    FAILED,
    PATHS,
    STDIN,
    PathOption,
    named_alone,
    options_of,
    shared_options,
    standard_input,
)
from shardlint.engine.progress import announce_slow
from shardlint.output import by_project
from shardlint.output.phrases import format_count
from shardlint.output.printable import make_printable
from shardlint.output.text import render_frames
from shardlint.rewrite.fix import FixReport, Gate, binary_patch, fix_text, unified_diff
from shardlint.rewrite.fix import fix_files as run
from shardlint.rewrite.interactive_fixes import Asking
from shardlint.rules_api.rule import Finding
from shardlint.source.streams import is_terminal

if TYPE_CHECKING:
    from shardlint.engine.results import Options


@click.command()
@PATHS
@shared_options
@click.option(
    "--unsafe-fixes", is_flag=True, help="Also apply fixes that may change numerics, memory or communication."
)
@click.option("--diff", "show_diff", is_flag=True, help="Print the changes and write nothing.")
@click.option("--verify", is_flag=True, help="Undo fixes that make a verify fixture fail.")
@click.option("--interactive", is_flag=True, help="Show the diff of each fix, and ask whether to apply it.")
@click.option(
    "--python",
    type=PathOption(path_type=Path, exists=True, dir_okay=False),
    help="The project's own Python, for --verify. Default: as for `shardlint verify`.",
)
@STDIN
def fix(
    paths: tuple[Path, ...],
    unsafe_fixes: bool,
    show_diff: bool,
    verify: bool,
    interactive: bool,
    python: Path | None,
    stdin_filename: Path | None,
    **kwargs: Any,
) -> None:
    """Fix findings, and report the rest.

    Each fix is checked before it is written. A fix that does not remove its finding, or that causes another one, is not
    applied.

    Exit code: 0 all findings are fixed or in the baseline, 1 some remain (with --diff: or files would change), 2
    the run failed.
    """
    if interactive and show_diff:
        raise click.UsageError("--diff writes nothing, and --interactive writes: give one of them")
    if python is not None and not verify:
        raise click.UsageError("--python needs --verify, whose fixtures it runs")
    text = standard_input(paths, stdin_filename)
    if text is not None:
        if interactive or verify:
            raise click.UsageError("--interactive and --verify need files, not standard input")
        _fix_text(*text, options_of(kwargs), unsafe_fixes, show_diff)
    gates: list[Gate] = []
    with contextlib.ExitStack() as stack:
        if interactive:
            asking = Asking(click.echo, _ask_terminal)
            stack.enter_context(asking.keep_answers())
            gates.append(asking)
        if verify:
            gates.append(stack.enter_context(_fixture_gate(python)))
        if not gates:  # these print lines of their own
            stack.enter_context(announce_slow("finding and checking fixes"))
        report = run(paths or (Path(),), options_of(kwargs), unsafe_fixes, not show_diff, gates, known=True)
    for outcome in report.fixed:
        if outcome.problem:
            click.echo(make_printable(f"{outcome.path}: {outcome.problem}"), err=True)
        elif show_diff:
            # What goes to `patch` must be as it is in the file; what goes to a terminal must not steer it.
            if is_terminal(sys.stdout):
                for line in unified_diff(outcome):
                    click.echo(make_printable(line.expandtabs(4)))
            else:
                click.echo(b"".join(binary_patch(outcome)), nl=False)
        elif outcome.is_changed:
            click.echo(make_printable(f"{outcome.path}: fixed {', '.join(_count_codes(outcome.done))}"))
    for path, reason in report.skipped:
        click.echo(make_printable(f"{path}: not fixed: {reason}"), err=True)
    for path, fault in report.faults:
        click.echo(make_printable(f"{path}: not complete: {fault.reason}"), err=True)
    for path in report.missing:
        click.echo(make_printable(f"{path}: no such file or directory"), err=True)
    if not report.files and not report.skipped:
        click.echo(f"Nothing to fix: {report.reason_for_no_files}.", err=True)
    fixed, left = _print_remaining(report, show_diff, unsafe_fixes, named_alone(kwargs["select"]))
    broken = report.is_incomplete or any(outcome.problem for outcome in report.fixed)
    sys.exit(FAILED if broken else 1 if left or (show_diff and fixed) else 0)


def _fix_text(name: Path, data: bytes, options: Options, unsafe: bool, show_diff: bool) -> NoReturn:
    """Standard input as it is after its fixes, or the difference, on standard output; the rest on standard error."""
    report = fix_text(name, data, options, unsafe)
    done = report.fixed[0] if report.fixed else None
    if show_diff:
        click.echo(b"".join(binary_patch(done)) if done is not None else b"", nl=False)
    else:
        click.echo(done.after.encode_file() if done is not None and done.is_changed else data, nl=False)
    for path, reason in report.skipped:
        click.echo(make_printable(f"{path}: not fixed: {reason}"), err=True)
    for path, fault in report.faults:
        click.echo(make_printable(f"{path}: not complete: {fault.reason}"), err=True)
    fixed, left = _print_remaining(report, True, unsafe, frozenset(), verb="would fix" if show_diff else "fixed")
    sys.exit(FAILED if report.is_incomplete else 1 if left or (show_diff and fixed) else 0)


@contextlib.contextmanager
def _fixture_gate(python: Path | None) -> Iterator[Gate]:
    """The gate that runs fixtures; that they cannot be run is an error of the run."""
    from shardlint.rewrite.fixture_proofs import Proving
    from shardlint.verify.cannot_run import CannotRun

    try:
        with Proving(lambda line: click.echo(line, err=True), str(python) if python else None) as proving:
            yield proving
    except CannotRun as error:
        raise click.ClickException(f"--verify: {make_printable(str(error))}") from error


def _ask_terminal(question: str) -> str | None:
    """An answer from the terminal, or a line of what is given instead; None at its end."""
    click.echo(question, nl=False)
    said = sys.stdin.readline() if sys.stdin is not None else ""
    if not said.endswith("\n"):
        click.echo()
    return said or None


def _print_remaining(
    report: FixReport, show_diff: bool, unsafe: bool, asked: frozenset[str], verb: str = ""
) -> tuple[int, int]:
    """Print what is left, as `check` does, and the last line; how many findings were fixed, and are left."""

    def is_waiting(finding: Finding) -> bool:
        return finding.fix is not None and finding.fix.safety == "unsafe" and not unsafe

    def note_for(finding: Finding) -> str:
        return "`shardlint fix --unsafe-fixes` fixes it." if is_waiting(finding) else ""

    outcomes = [outcome for outcome in report.fixed if not outcome.problem]
    every = [outcome.remaining_report(written=not show_diff) for outcome in outcomes]
    reports, many, rest = by_project.separate_groups(every, report.root, asked)
    parts = [part for file in reports for part in render_frames(file, note_for)]
    for part in (*parts, *by_project.group_frames(many, obstacles=True), *by_project.list_groups(rest)):
        click.echo(part, err=show_diff)
    fixed, left = (sum(len(getattr(outcome, kind)) for outcome in outcomes) for kind in ("done", "left"))
    more = sum(is_waiting(finding) for outcome in outcomes for finding in outcome.left)
    hint = f" `shardlint fix --unsafe-fixes` fixes {more if more < left else 'them'}." if more else ""
    verb = verb or ("would fix" if show_diff else "fixed")
    known = f" In the baseline: {report.known}." if report.known else ""
    click.echo(f"{verb} {fixed}, left {left} in {format_count(report.files, 'file')}.{known}{hint}", err=show_diff)
    return fixed, left


def _count_codes(findings: Any) -> list[str]:
    codes = [finding.rule.code for finding in findings]
    return [
        code if codes.count(code) == 1 else f"{code} ({codes.count(code)})" for code in dict.fromkeys(codes)
    ]
