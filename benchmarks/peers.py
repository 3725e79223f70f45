"""The tools that are timed, each in an environment of its own, and how each is called."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
import venv
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent

PINS = {
    "ruff": ("ruff==0.17.6",),
    "jaxlint": ("jaxlint==0.1.0a1",),
    "semgrep": ("semgrep==1.180.0",),
    "flake8": ("flake8==7.5.0", "torchfix==0.7.0"),
    "fixit": ("fixit==2.2.1",),
    "ty": ("ty==0.0.105",),
    "pyrefly": ("pyrefly==1.4.1",),
    "mypy": ("mypy==2.4.1",),
    "basedpyright": ("basedpyright==1.40.2",),
}
FIXIT_RULES = ("CompareSingletonPrimitivesByIs", "NoInheritFromObject", "UseFstring")

SEMGREP, FLAKE8 = "semgrep", "flake8 with TorchFix"

CORES = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@dataclass(frozen=True)
class Peer:
    """A tool that takes minutes."""

    name: str
    command: Sequence[str]
    packages: tuple[str, ...]
    """What it is given of the corpus; nothing stands for all."""
    how: str
    """What it is, for the report."""
    fails_on: Callable[[bytes], bool] | None = None
    """Files that end it before it has read the others: they are left out."""


def _jaxlint_fails(text: bytes) -> bool:
    """Return whether jaxlint's walk over a tree meets None in a list: `{"a": 1, **b}`, `def f(*, a=1, b)`."""
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError):
        return False
    return any(
        isinstance(value, list) and value and isinstance(value[0], ast.AST) and None in value
        for node in ast.walk(tree)
        for _, value in ast.iter_fields(node)
    )


# What would take a quarter of an hour is timed on a part, and its time scaled by the part's share of the bytes.
_SMALL = ("equinox", "lineax", "optax")
_MIDDLE = ("axlearn", "brax", "equinox", "flax", "lineax", "numpyro", "optax", "orbax-checkpoint")


def install_tool(work: Path, name: str) -> Path:
    """The folder of the programs of a tool's environment, made if it is not there as pinned."""
    folder, pins = work / "tools" / name, PINS[name]
    if not _is_installed(folder, pins):
        print(f"installing {' '.join(pins)}", flush=True)
        venv.create(folder, with_pip=True, clear=True)
        _run_pip(folder, *pins)
        _write_install_stamp(folder, pins)
    return folder / "bin"


def _is_installed(folder: Path, what: Sequence[str]) -> bool:
    stamp = folder / "installed.txt"
    return stamp.is_file() and stamp.read_text() == _install_stamp(folder, what)


def _write_install_stamp(folder: Path, what: Sequence[str]) -> None:
    (folder / "installed.txt").write_text(_install_stamp(folder, what))


def _install_stamp(folder: Path, what: Sequence[str]) -> str:
    return f"{' '.join(what)} with {sys.executable} in {folder}"  # an environment that is moved does not run


def install_shardlint(work: Path) -> Path:
    """shardlint as it is in this checkout, installed as pre-commit does it: not editable, without its extras."""
    folder = work / "tools" / "shardlint"
    print("installing shardlint", flush=True)
    if not _is_installed(folder, ["shardlint"]):
        venv.create(folder, with_pip=True, clear=True)
        _run_pip(folder, str(HERE.parent))
        _write_install_stamp(folder, ["shardlint"])
    else:
        _run_pip(folder, "--force-reinstall", "--no-deps", str(HERE.parent))
    return folder / "bin"


def _run_pip(folder: Path, *arguments: str) -> None:
    command = [str(folder / "bin" / "python"), "-m", "pip", "install", "--disable-pip-version-check"]
    ended = subprocess.run([*command, *arguments], capture_output=True, text=True)
    if ended.returncode:
        raise SystemExit(f"pip could not install {' '.join(arguments)}:\n{ended.stderr[-2000:]}")


def version_of(program: Path) -> str:
    """Return the version in the first line of the output of `--version`."""
    said = subprocess.run([program, "--version"], capture_output=True, text=True, check=True).stdout
    return said.split("\n")[0].split()[-1]


def shardlint_command(programs: Path, command: str = "check") -> list[str]:
    """The start of a command line of shardlint."""
    given = ["--output-format", "concise"] if command == "check" else []
    return [str(programs / "shardlint"), command, *given]


def ruff_command(work: Path) -> list[str]:
    """Ruff with its default rules, whatever settings stand above the corpus."""
    return [
        str(install_tool(work, "ruff") / "ruff"),
        "check",
        "--isolated",
        "--quiet",
        "--output-format",
        "concise",
    ]


def slow_peers(work: Path) -> list[Peer]:
    """The tools that take minutes. Each is set to the fastest that does its work."""
    return [_jaxlint_peer(work), _semgrep_peer(work), _flake8_peer(work), _fixit_peer(work)]


def _jaxlint_peer(work: Path) -> Peer:
    program = str(install_tool(work, "jaxlint") / "jaxlint")
    jobs = ["--jobs", str(CORES)]
    return Peer(
        "jaxlint",
        [program, "check", "--no-doc", "--format", "compact", *jobs],
        _MIDDLE,
        "its rules for JAX (AST of one file), not those for docstrings. It ends with an exception at the first file"
        " that holds `{'a': 1, **b}` or `def f(*, a=1, b)`; these files are left out",
        _jaxlint_fails,
    )


def _semgrep_peer(work: Path) -> Peer:
    program = str(install_tool(work, "semgrep") / "semgrep")
    # Without a file of this name it leaves out tests, among others.
    (work / "corpus" / ".semgrepignore").touch()
    offline = ["--metrics", "off", "--disable-version-check"]
    everything = [
        "--no-git-ignore",
        "--project-root",
        str(work / "corpus"),
        "--max-target-bytes",
        "0",
        "--timeout",
        "0",
    ]
    rules = ["--config", str(HERE / "semgrep.yaml")]
    return Peer(
        SEMGREP,
        [program, "scan", "--quiet", "--jobs", str(CORES), *offline, *everything, *rules],
        (),
        "with the patterns in benchmarks/semgrep.yaml",
    )


def _flake8_peer(work: Path) -> Peer:
    program = str(install_tool(work, "flake8") / "flake8")
    return Peer(
        FLAKE8,
        [program, "--isolated", "--jobs", str(CORES), "--select", "TOR"],
        _MIDDLE,
        "TorchFix parses only files in which `torch` stands; of the others flake8 alone is timed",
    )


def _fixit_peer(work: Path) -> Peer:
    program = str(install_tool(work, "fixit") / "fixit")
    rules = ", ".join(f'"fixit.rules.{_rule_module_name(rule)}:{rule}"' for rule in FIXIT_RULES)
    settings = work / "fixit.toml"
    settings.write_text(f'[tool.fixit]\nroot = true\nenable = [{rules}]\ndisable = ["fixit.rules"]\n')
    return Peer(
        "Fixit",
        [program, "--config-file", str(settings), "--quiet", "lint"],
        _SMALL,
        f"{len(FIXIT_RULES)} rules: {', '.join(FIXIT_RULES)}",
    )


def _rule_module_name(rule: str) -> str:
    return "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in rule).lstrip("_")


def interpreter_command(programs: Path) -> list[str]:
    """The interpreter that runs shardlint there."""
    return [str(programs / "python")]
