"""Options that several commands take, and what they ask for."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from shardlint.config.certainty import Certainty

if TYPE_CHECKING:
    from shardlint.engine.results import Options


class PathOption(click.Path):
    """A path; an empty one, as of a variable that is not set, is none: to `pathlib` it is this folder."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The path. Fails where it is empty."""
        if value == "":
            self.fail("a path is empty; write . for this folder", param, ctx)
        return super().convert(value, param, ctx)


class OneOf(click.Choice[str]):
    """One of some words. For another one the error says which was meant."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """The word. Fails where there is no such."""
        from shardlint.config.suggestions import did_you_mean

        if value not in self.choices:
            self.fail(f"there is no {value!r}; {did_you_mean(str(value), self.choices)}", param, ctx)
        return super().convert(value, param, ctx)


FAILED = 2
"""The exit code of a run that could not be done as asked."""

PATHS = click.argument("paths", nargs=-1, type=PathOption(path_type=Path))

STDIN = click.option(
    "--stdin-filename", type=PathOption(path_type=Path), help="Name of the text on standard input (path -)."
)


def standard_input(paths: tuple[Path, ...], name: Path | None) -> tuple[Path, bytes] | None:
    """The name and the bytes of standard input where it is asked for."""
    if Path("-") not in paths and name is None:
        return None
    if paths not in ((), (Path("-"),)):
        raise click.UsageError("- (standard input) was given with other paths: give only one of them")
    from shardlint.source.text import MAX_BYTES

    if sys.stdin is None:
        raise click.UsageError("standard input is closed")
    data = sys.stdin.buffer.read(MAX_BYTES + 1)  # /dev/zero has no end
    if len(data) > MAX_BYTES:
        raise click.UsageError(f"standard input has more than {MAX_BYTES:,} bytes, the limit of shardlint")
    return name or Path("stdin.py"), data


def parse_list_option(ctx: click.Context, param: click.Parameter, values: tuple[str, ...]) -> tuple[str, ...]:
    """A list with commas between. One that says nothing, as of a variable that is not set, would choose everything."""
    for value in values:
        if not value.replace(",", "").strip():
            raise click.BadParameter("it is empty; write a value, or leave the option out", ctx, param)
    return values


def shared_options(command: Any) -> Any:
    """Options that choose rules and releases."""
    said = "Release that the code runs on, as in jax=0.12."
    option = click.option("--target", multiple=True, metavar="PKG=VERSION", callback=parse_list_option, help=said)
    return add_rule_options(option(command))


def add_rule_options(command: Any) -> Any:
    """Options that choose rules, and files to leave out."""
    many: dict[str, Any] = {"multiple": True, "metavar": "RULES", "callback": parse_list_option}
    for option in (
        click.option(
            "--config",
            metavar="FILE",
            type=PathOption(path_type=Path, exists=True, dir_okay=False),
            help="Read the settings from this file, not from the nearest shardlint.toml or pyproject.toml.",
        ),
        click.option("--pedantic", is_flag=True, help="Same as --certainty possible."),
        click.option(
            "--certainty",
            type=OneOf([one.value for one in Certainty]),
            help="Least certainty to report: proven, likely (default) or possible.",
        ),
        click.option(
            "--exclude", multiple=True, metavar="PATTERN", help="Leave out paths, as in .gitignore."
        ),
        click.option("--harm", **many, help="Only rules with this harm: silent, crash, cost, removed."),
        click.option("--ignore", **many, help="Leave out rules by code, prefix, name or harm."),
        click.option("--extend-select", **many, help="Also these rules, in addition to the enabled ones."),
        click.option("--select", **many, help="Only these rules, by code, prefix (SL2), name or harm."),
    ):
        command = option(command)
    return command


def split_entries(values: tuple[str, ...]) -> tuple[str, ...]:
    """The entries of lists with commas between."""
    return tuple(part.strip() for value in values for part in value.split(",") if part.strip())


def _parse_certainty(said: str | None, pedantic: bool) -> Certainty | None:
    """The least certainty asked for; None where the settings decide."""
    if pedantic and said not in (None, Certainty.POSSIBLE):
        raise click.UsageError(
            f"--pedantic means --certainty possible; leave one of --pedantic and --certainty {said} out"
        )
    return Certainty.POSSIBLE if pedantic else None if said is None else Certainty(said)


def options_of(kwargs: dict[str, Any]) -> Options:
    """Return the shared options of a command line. Raises `BadTarget`."""
    from shardlint.engine.results import Options

    targets: dict[str, str] = {}
    if kwargs["target"]:
        from shardlint.config.targets import parse_targets

        targets = parse_targets(split_entries(kwargs["target"]))
    return Options(
        select=split_entries(kwargs["select"]),
        ignore=split_entries(kwargs["ignore"]),
        harm=split_entries(kwargs["harm"]),
        certainty=_parse_certainty(kwargs["certainty"], kwargs["pedantic"]),
        targets=targets,
        exclude=tuple(kwargs["exclude"]),
        extend_select=split_entries(kwargs["extend_select"]),
        config=kwargs["config"],
    )


def named_alone(select: tuple[str, ...]) -> frozenset[str]:
    """The rules that are asked for one by one."""
    if not select:
        return frozenset()
    from shardlint.rules_api.registry import codes_matching

    found = [list(codes_matching([selector])) for selector in split_entries(select)]
    return frozenset(codes[0] for codes in found if len(codes) == 1)
