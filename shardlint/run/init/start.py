"""`shardlint verify --init -- COMMAND`: runs the program, writes the fixtures, and says what is in them."""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from shardlint.engine.progress import announce_slow
from shardlint.run import launch
from shardlint.run.init.program import make_program_fixture
from shardlint.run.init.recorded_calls import Function, LeftOut, read_functions
from shardlint.run.init.skeleton import FILL, REFERENCE, write_skeleton
from shardlint.run.init.trial import keep_passing_fixtures
from shardlint.run.pythons import explain_missing_jax
from shardlint.verify.cannot_run import CannotRun
from shardlint.verify.golden import golden_path
from shardlint.verify.working_directory import working_directory

NAME = "sharding_fixtures.py"
_DEVICES = 8


def write_fixtures(command: Sequence[str], into: Path | None, timeout: float, python: str) -> tuple[list[str], bool]:
    """Run the program and write its fixtures; lines for the reader, and whether every function got its fixture.

    Raises `CannotRun` where there is nothing to write, or where a file would be written over.
    """
    if not command:
        raise CannotRun(
            "--init needs the program to run: shardlint verify --init -- python train.py --steps 2"
        )
    root = working_directory()
    if into is not None and into.exists():
        raise CannotRun(f"{into} exists; name another file, or remove it")
    if all(REFERENCE.fullmatch(word) for word in command):
        return [line for word in command for line in _write_unfinished_fixture(word, into, root)], True
    words = launch.command_line(command)
    if into is None and any((root / word).parent == root for word in words if word.endswith(".py")):
        _refuse_to_overwrite(Path(NAME))  # before anything runs
    with launch.scratch_folder() as dumps, launch.scratch_folder() as folder:
        env = launch.run_environment(dumps, _DEVICES, False, dict(os.environ))
        env["SHARDLINT_RUN_RECORD"] = str(folder)
        ended = launch.run_program(words, env, dumps, None, None, _DEVICES)
        functions, left, notes = read_functions(folder)
        whole = make_program_fixture(folder, words, root, {one.name for one in functions})
    functions += [whole] if whole else []
    if ended.code:
        notes.append(f"the program exited with {ended.code}: later calls are missing here")
    if not functions:
        reasons = "".join(f"\n  {line}" for line in _left_out_lines(left, root))
        if ended.code and not left:
            reasons = f"\n  the program exited with {ended.code}"
            reasons += f"; {why}" if (why := explain_missing_jax(words, root)) else ""
        raise CannotRun(f"no fixture was written: no jitted function of the program can be declared{reasons}")
    file = into or _import_folder(functions, root)
    _refuse_to_overwrite(file)
    other = python if python != sys.executable else _python_of_program(words)
    options = ["--timeout", f"{timeout:g}", *(["--python", other] if other != sys.executable else [])]
    with announce_slow(f"shardlint verify: verifying what {NAME} declares"):
        keep_passing_fixtures(functions, file, shlex.join(command), options)
    lines = [
        *_report_lines(functions, file, options[2:]),
        *_left_out_lines(left, root),
        *(f"note: {note}" for note in notes),
    ]
    return lines, not any(one.broken and not one.runs for one in functions)


def _refuse_to_overwrite(file: Path) -> None:
    if file.exists():
        raise CannotRun(f"{file} exists; name another with --init-file, or remove it")


def _write_unfinished_fixture(reference: str, into: Path | None, root: Path) -> Iterator[str]:
    """Write a fixture of a function from its text."""
    file = into or Path(f"{reference.rpartition(':')[2].replace('.', '_')}_fixture.py")
    _refuse_to_overwrite(file)
    text = write_skeleton(reference, root)
    file.write_text(text, "utf-8")
    yield f"wrote {file}, an unfinished fixture of {reference}: fill in {text.count(FILL)} places marked {FILL}"
    yield f"then: shardlint verify {shlex.quote(str(file))}"


def _import_folder(functions: Sequence[Function], root: Path) -> Path:
    """The folder its modules are imported from, the script's or that of the outermost package; or the working
    directory, for a package in its `src`, or on another path.
    """
    first = functions[0]
    names = first.reference_to.partition(":")[0].split(".") if not first.runs else [first.file.stem]
    depth = len(names) - (first.file.stem != "__init__")
    folder = first.file.parents[depth]
    if depth and (folder == root / "src" or not (folder.is_relative_to(root) or root.is_relative_to(folder))):
        folder = root
    return Path(os.path.relpath(folder / NAME, root)) if folder.is_relative_to(root) else folder / NAME


def _python_of_program(words: Sequence[str]) -> str:
    """The interpreter that ran the program, where it is another than this one."""
    found = shutil.which(words[0])
    if found is None:
        return sys.executable
    path = Path(found)
    if not path.name.startswith("python"):
        path = path.parent / "python"
    same = not path.exists() or path.parent.resolve() == Path(sys.executable).parent.resolve()
    return sys.executable if same else str(path)


def _report_lines(functions: Sequence[Function], file: Path, options: Sequence[str]) -> Iterator[str]:
    good = [one for one in functions if not one.broken]
    names = ", ".join(one.name for one in good)
    several = "" if len(good) == 1 else "s"
    passing = f"{len(good)} fixture{several} ({names}), which pass{'' if several else 'es'}"
    yield f"wrote {file}: {passing if good else 'no fixture that passes'}"
    if good:
        again = shlex.join(["shardlint", "verify", str(file), *options])
        goldens = golden_path(f"{file}::x").parent
        yield f"review it{f', and the goldens in {goldens}' if goldens.is_dir() else ''}; then: {again}"
    for one in functions:
        if one.broken:
            yield f"{one.reference_to}: no fixture{' of the whole program' if one.runs else ''}: {one.broken}"
        elif one.dropped:
            count = len(one.dropped)
            what = "1 property is" if count == 1 else f"{count} properties are"
            yield f"{one.name}: {what} not declared, with the reason in the file"


def _left_out_lines(left: Sequence[LeftOut], root: Path) -> Iterator[str]:
    for one in left:
        path = Path(one.file)
        shown = path.relative_to(root) if one.file and path.is_relative_to(root) else path
        where = f"{shown}:{one.line}: " if one.file else ""
        yield f"{where}{one.name} is not included: {one.why}"
