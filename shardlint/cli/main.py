"""The commands. Each parses its options, calls one function and prints."""

from __future__ import annotations

import atexit
import errno
import gc
import importlib
import os
import re
import sys
from io import TextIOWrapper
from pathlib import Path

import click

from shardlint import __version__
from shardlint.cli.options import FAILED, parse_list_option, split_entries
from shardlint.config.suggestions import did_you_mean

# A sum of a thousand terms is a thousand deep; Python frames are on the heap, so this costs nothing until used.
_NESTING = 15_000


# Commands that live in their own room, which is loaded only when they are asked for.
_ROOMS = {
    "baseline": "shardlint.cli.check",
    "check": "shardlint.cli.check",
    "fix": "shardlint.cli.fix",
    "run": "shardlint.cli.run",
    "server": "shardlint.server.command",
    "upgrade": "shardlint.cli.upgrade",
    "verify": "shardlint.cli.verify",
}


class _Lazy(click.Group):
    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted([*super().list_commands(ctx), *_ROOMS])

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name in _ROOMS:
            command: click.Command = getattr(importlib.import_module(_ROOMS[cmd_name]), cmd_name)
            return command
        return super().get_command(ctx, cmd_name)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        known = self.list_commands(ctx)
        if args and args[0] not in known and not args[0].startswith("-"):
            ctx.fail(f"no such command {args[0]!r}; {did_you_mean(args[0], known)}")
        return super().resolve_command(ctx, args)


@click.group(cls=_Lazy, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="shardlint")
def cli() -> None:
    """Find sharding mistakes in JAX programs, fix them, and prove the fix on simulated meshes.

    \b
    Begin with:
      shardlint check                   findings in this folder; runs nothing, needs no jax
      shardlint rule SL201              what a rule finds, with an example
      shardlint fix --diff              the fixes, as a diff
      shardlint run -- python train.py  what happens on 8 simulated devices; needs jax
    """


@cli.command()
@click.argument("code")
def rule(code: str) -> None:
    """Print a rule's page."""
    from shardlint.rules_api.pages import render_page
    from shardlint.rules_api.registry import codes_matching, import_rules

    codes = set(codes_matching([code]))
    click.echo("\n\n".join(render_page(found) for found in import_rules() if found.code in codes))


@cli.command()
def rules() -> None:
    """List all rules."""
    from shardlint.rules_api.registry import import_rules as every

    for found in every():
        state = "" if found.default else "  (off by default)"
        if found.stability() != "stable":
            state = f"  ({found.deprecated and 'deprecated: '}{found.deprecated or 'preview'})"
        click.echo(f"{found.code}  {found.harm.value:8} {found.name}{state}")


@cli.command()
@click.argument("path", default=".", type=click.Path(path_type=Path, exists=True))
@click.option("--target", multiple=True, metavar="PKG=VERSION", callback=parse_list_option)
def targets(path: Path, target: tuple[str, ...]) -> None:
    """Show the releases that a project is checked for, and their sources."""
    from shardlint.config.targets import parse_targets
    from shardlint.config.versions import format_release
    from shardlint.engine.one_file import Checker
    from shardlint.engine.results import Options
    from shardlint.output.printable import make_printable

    found = Checker(Options(targets=parse_targets(split_entries(target)))).targets_for(path.resolve())
    for package, where in found.found.items():
        click.echo(make_printable(f"{package:9} {format_release(where.release):10} {where.source}"))


@cli.command()
@click.argument("place", metavar="PATH[:LINE]")
def explain(place: str) -> None:
    """Show what shardlint knows about a line: what traces it, its mesh, and the values of its names.

    Without a line, show the file with the layouts of its arrays beside it. In a notebook, PLACE is PATH:cell N:LINE, as
    in the output of `check`.
    """
    from shardlint.engine.explain import explain_place as run
    from shardlint.engine.explain_file import explain_file
    from shardlint.engine.progress import announce_slow
    from shardlint.output.printable import make_printable
    from shardlint.source.text import Unreadable
    from shardlint.syntax import NotParsed

    path, _, line = place.rpartition(":")
    progress = announce_slow(f"following the values in {make_printable(place)}")
    if os.path.isfile(place):  # noqa: PTH113 - it takes any text, a path raises for some
        try:
            with progress:
                texts = list(explain_file(Path(place)))
            for text in texts:
                click.echo(make_printable(text))
        except (Unreadable, NotParsed) as error:
            _print_error(f"{place}: {error}")
        return
    if not path or not re.fullmatch("[0-9]{1,9}", line):
        raise click.UsageError(f"{place!r} is neither a file nor PATH:LINE, as in train.py:41")
    in_cell = re.fullmatch(r"(.+):cell ([0-9]{1,9})", path)
    path, cell = (in_cell[1], int(in_cell[2])) if in_cell is not None else (path, None)
    try:
        with progress:
            texts = list(run(Path(path), int(line), cell))
        for text in texts:
            click.echo(make_printable(text))
    except (Unreadable, NotParsed, LookupError) as error:
        _print_error(f"{path}: {error}")


def start() -> None:
    """The command as a process, which ends with it."""
    code: list[int] = []
    atexit.register(_exit_now, code)  # first, so that it runs after what others register
    try:
        main()
    except SystemExit as end:
        if isinstance(end.code, int):
            code.append(end.code)
        raise
    code.append(0)


def _exit_now(code: list[int]) -> None:
    """End the process now: Python would first take apart all that the run has made, object by object."""
    if code:
        try:
            # There is none where it was closed before us.
            for stream in filter(None, (sys.stdout, sys.stderr)):
                stream.flush()
        except (OSError, ValueError):  # nobody reads on, or it is closed: Python has its own way to say that
            return
        os._exit(code[0])


def main() -> None:
    """Run the command line: errors of the run itself are one line and exit code 2."""
    # A run makes millions of nodes and throws whole trees away at known points (Program.trim_memory, which collects
    # them): looking for garbage in between is half of its time.
    gc.disable()
    sys.setrecursionlimit(max(sys.getrecursionlimit(), _NESTING))
    for stream in (sys.stdout, sys.stderr):
        if isinstance(
            stream, TextIOWrapper
        ):  # a terminal that cannot say a letter of the code still gets a report
            stream.reconfigure(errors="backslashreplace")
    try:
        cli.main(prog_name="shardlint", standalone_mode=False)
    except click.ClickException as error:
        from shardlint.source.streams import ignoring_write_errors

        with ignoring_write_errors():
            error.show()
        sys.exit(FAILED)
    except click.exceptions.Abort:
        _print_error("interrupted")
    except BrokenPipeError:  # `shardlint check | head`
        sys.stderr.close()
        sys.exit(FAILED)
    except Exception as error:
        if is_usage_error(error):
            _print_error(str(error))
        if isinstance(error, OSError) and error.errno == errno.ENOSPC:
            _print_error(f"{error.strerror}: {error.filename or 'the output is incomplete'}")
        import traceback

        traceback.print_exc()  # Python would end with 1, which says "findings"
        _print_error("shardlint failed; please report the lines above")


def is_usage_error(error: Exception) -> bool:
    """True for an error in what the user wrote: options, settings, files; its message says what to write."""
    # Loaded only now: most runs need neither the registry nor a settings file.
    from shardlint.config.settings import BadSettings
    from shardlint.config.targets import BadTarget
    from shardlint.engine.adoption.baseline import BadBaseline
    from shardlint.output.outputs import BadOutput
    from shardlint.rules_api.registry import UnknownRule
    from shardlint.source.packs import BrokenPack

    return isinstance(error, BadBaseline | BadOutput | BadSettings | BadTarget | BrokenPack | UnknownRule)


def _print_error(message: str) -> None:
    from shardlint.output.printable import make_printable
    from shardlint.source.streams import ignoring_write_errors

    with ignoring_write_errors():
        click.echo(f"shardlint: {make_printable(message)}", err=True)
    sys.exit(FAILED)
