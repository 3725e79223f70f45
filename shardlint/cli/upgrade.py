"""`shardlint upgrade`: carry projects to a release, and say what was done and what is left, for a pull request."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from shardlint.cli.options import (
    FAILED,
    PATHS,
    add_rule_options,
    options_of,
    parse_list_option,
    split_entries,
)
from shardlint.cli.upgrade_report import render_upgrade_report
from shardlint.config.targets import parse_targets
from shardlint.engine.progress import announce_slow
from shardlint.output.printable import printable_lines
from shardlint.rewrite.fix import fix_files


@click.command()
@PATHS
@click.option(
    "--to",
    multiple=True,
    required=True,
    metavar="PKG=VERSION",
    callback=parse_list_option,
    help="Release that the code will run on, as in jax=0.12; repeatable.",
)
@add_rule_options
@click.option(
    "--diff", "show_diff", is_flag=True, help="Report the changes with their diffs, and write nothing."
)
def upgrade(paths: tuple[Path, ...], to: tuple[str, ...], show_diff: bool, **kwargs: Any) -> None:
    """Move projects to a newer release: apply all fixes, and report the rest in Markdown.

    Safe and unsafe fixes are applied. Mesh contexts and the code that depends on them are migrated together or not
    at all. The report is grouped by file, for use in a pull request.

    Exit code: 0 nothing is left to do, 1 something is (with --diff: or files would change), 2 the run failed.
    """
    targets = parse_targets(split_entries(to))
    options = replace(options_of({**kwargs, "target": ()}), targets=targets)
    with announce_slow("finding and checking fixes"):
        report = fix_files(paths or (Path(),), options, unsafe=True, write=not show_diff)
    for block in render_upgrade_report(report, targets, written=not show_diff):
        click.echo(printable_lines(block) + "\n")
    broken = report.is_incomplete or any(outcome.problem for outcome in report.fixed)
    left = any(outcome.left or (show_diff and outcome.is_changed) for outcome in report.fixed)
    sys.exit(FAILED if broken else 1 if left else 0)
