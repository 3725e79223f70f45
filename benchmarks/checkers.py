"""The tools that follow imports through a project, as shardlint does: type checkers; and ruff, which looks at a file.

Each project is checked whole and cold, by all in turn. What the projects import from others is not installed, but the
libraries are checked side by side and find each other.
"""

from __future__ import annotations

import shutil
import statistics
import venv
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import corpus
import peers
from timing import Command

PROJECTS = ("maxtext", "axlearn", "levanter", "easydel")
LIBRARIES = ("jax", "flax", "equinox", "optax", "orbax-checkpoint")
SIDE_BY_SIDE = "libraries"
OURS, RUFF = "shardlint", "ruff"
# More than a minute each, and nothing is learned from it.
_NOT_THE_LIBRARIES = ("mypy", "basedpyright")


@dataclass(frozen=True)
class Timed:
    """A project, and what each tool took for it."""

    name: str
    lines: int
    commands: dict[str, Command]


def timed_projects(work: Path, programs: Path) -> list[Timed]:
    """The commands for each project, by the names of the tools."""
    empty = _make_empty_environment(work)
    found = []
    for name, folder, lines in _list_project_folders(work):
        commands = {tool: make(work, programs, empty, folder) for tool, make in _TOOLS.items()}
        if name == SIDE_BY_SIDE:
            commands = {tool: one for tool, one in commands.items() if tool not in _NOT_THE_LIBRARIES}
        found.append(Timed(name, lines, commands))
    return found


def _list_project_folders(work: Path) -> list[tuple[str, Path, int]]:
    found = []
    for name in PROJECTS:
        package = corpus.load_package(work, name)
        found.append((f"{package.name} {package.release}", package.folder, package.lines))
    packages = [corpus.load_package(work, name) for name in LIBRARIES]
    together = work / SIDE_BY_SIDE
    if not together.is_dir():
        new = together.with_suffix(".new")
        shutil.rmtree(new, ignore_errors=True)
        for package in packages:
            shutil.copytree(package.folder, new, dirs_exist_ok=True)
        new.rename(together)
    for folder in (work / "apart", together):  # the repository's own .gitignore leaves .benchmark out
        (folder / ".git").mkdir(exist_ok=True)
    return [*found, (SIDE_BY_SIDE, together, sum(package.lines for package in packages))]


def _make_empty_environment(work: Path) -> Path:
    """An environment without packages, for tools that would otherwise look into their own."""
    folder = work / "tools" / "empty"
    if not (folder / "bin").is_dir():
        venv.create(folder, with_pip=False)
    return folder


def _shardlint_command(work: Path, programs: Path, _empty: Path, folder: Path) -> Command:
    return Command(OURS, [*peers.shardlint_command(programs), "--no-cache", str(folder)])


def _ruff_command(work: Path, _programs: Path, _empty: Path, folder: Path) -> Command:
    return Command(RUFF, [*peers.ruff_command(work), "--no-cache", str(folder)])


def _ty_command(work: Path, _programs: Path, empty: Path, folder: Path) -> Command:
    program = str(peers.install_tool(work, "ty") / "ty")
    options = ["--project", str(folder), "--python", str(empty), "--quiet", "--output-format", "concise"]
    return Command("ty", [program, "check", *options, str(folder)])


def _pyrefly_command(work: Path, _programs: Path, empty: Path, folder: Path) -> Command:
    program = str(peers.install_tool(work, "pyrefly") / "pyrefly")
    settings = folder / "pyrefly.toml"
    settings.write_text(
        'project-includes = ["**/*.py"]\nproject-excludes = []\n'  # it leaves out hidden folders, and all is in one
        f'python-interpreter-path = "{empty / "bin" / "python"}"\n'
    )
    options = ["--config", str(settings), "--output-format", "min-text"]
    return Command("pyrefly", [program, "check", *options])


def _mypy_command(work: Path, _programs: Path, empty: Path, folder: Path) -> Command:
    program = str(peers.install_tool(work, "mypy") / "mypy")
    uncached = ["--no-incremental", "--cache-dir", "/dev/null", "--python-executable", str(empty / "bin" / "python")]
    options = ["--ignore-missing-imports", "--explicit-package-bases", "--namespace-packages", "--no-error-summary"]
    # With 2 it says that a file cannot be parsed or is found twice, and that it stopped there: no time of its work.
    return Command("mypy", [program, *uncached, *options, str(folder)], (0, 1, 2))


def _basedpyright_command(work: Path, _programs: Path, empty: Path, folder: Path) -> Command:
    program = str(peers.install_tool(work, "basedpyright") / "basedpyright")
    settings = folder / "pyrightconfig.json"
    settings.write_text('{"include": ["."], "exclude": []}\n')  # as above
    options = ["--project", str(settings), "--pythonpath", str(empty / "bin" / "python")]
    return Command("basedpyright", [program, *options])


_TOOLS: dict[str, Callable[[Path, Path, Path, Path], Command]] = {
    OURS: _shardlint_command,
    RUFF: _ruff_command,
    "ty": _ty_command,
    "pyrefly": _pyrefly_command,
    "mypy": _mypy_command,
    "basedpyright": _basedpyright_command,
}


def measure_checkers(work: Path, timed: Iterable[Timed], rounds: int) -> None:
    """Run all in turn, `rounds` times."""
    for project in timed:
        for turn in range(rounds):
            for tool, command in list(project.commands.items()):
                run = command.run_once(work)
                if run.code == 2:
                    print(f"{project.name}, {tool}: gave up", flush=True)
                    del project.commands[tool]
                    continue
                command.runs.append(run)
                print(f"{turn + 1}/{rounds} {project.name}, {tool}: {run.cpu:.2f} s", flush=True)


def timing_table(timed: Sequence[Timed]) -> list[str]:
    """Processor time for each project, and how it is to shardlint's."""
    tools = list(_TOOLS)
    lines = [
        f"| processor, s (against {OURS}) | lines | {' | '.join(tools)} |",
        f"| --- | ---: |{' ---: |' * len(tools)}",
    ]
    for project in timed:
        ours = project.commands[OURS].cpu_seconds
        cells = [_format_cell(project.commands.get(tool), ours) for tool in tools]
        lines.append(f"| {project.name} | {project.lines:,} | {' | '.join(cells)} |")
    lines.append(f"| wall, s | | {' | '.join(_format_wall_time(timed, tool) for tool in tools)} |")
    return lines


def _format_cell(command: Command | None, ours: float) -> str:
    if command is None:
        return "–"
    seconds, runs = command.cpu_seconds, [run.cpu for run in command.timed_runs]
    noise = f" ± {(max(runs) - min(runs)) / 2:.2f}" if len(runs) > 1 else ""
    return f"{seconds:.2f}{noise}" + ("" if command.what == OURS else f" ({seconds / ours:.2f}x)")


def _format_wall_time(timed: Sequence[Timed], tool: str) -> str:
    each = [project.commands[tool].median_seconds for project in timed if tool in project.commands]
    return f"{statistics.fmean(each):.1f} on average" if each else "–"
