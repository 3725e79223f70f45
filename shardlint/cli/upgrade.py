"""`shardlint upgrade`: carry projects to a release, and say what was done and what is left, for a pull request."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from shardlint.cli.options import FAILED, PATHS, of_rules, options_of, split, told
from shardlint.cli.upgrade_report import upgraded
from shardlint.config.targets import parse_targets
from shardlint.output.printable import printable_lines
from shardlint.rewrite.fix import fix


@click.command()
@PATHS
@click.option(
    "--to",
    multiple=True,
    required=True,
    metavar="PKG=VERSION",
    callback=told,
    help="Release that the code will run on, as in jax=0.12; repeatable.",
)
@of_rules
@click.option(
    "--diff", "show_diff", is_flag=True, help="Report the changes with their diffs, and write nothing."
)
def upgrade(paths: tuple[Path, ...], to: tuple[str, ...], show_diff: bool, **kwargs: Any) -> None:
    """Carry projects to a release: all fixes, safe and unsafe, then a report in Markdown of what is left.

    Mesh contexts and what must move with them move together, or not at all. The report goes by file, as a pull request
    takes it. Exit code: 0 nothing is left, 1 something is (with --diff: or would change), 2 the run could not be done.
    """
    targets = parse_targets(split(to))
    options = replace(options_of({**kwargs, "target": ()}), targets=targets)
    report = fix(paths or (Path(),), options, unsafe=True, write=not show_diff)
    for block in upgraded(report, targets, written=not show_diff):
        click.echo(printable_lines(block) + "\n")
    broken = report.undone or any(outcome.problem for outcome in report.fixed)
    left = any(outcome.left or (show_diff and outcome.changed) for outcome in report.fixed)
    sys.exit(FAILED if broken else 1 if left else 0)
