"""Importing a user's file and the things its fixtures refer to, in a child process only."""

from __future__ import annotations

import copy
import dataclasses
import importlib
import importlib.util
import inspect
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType, ModuleType
from typing import Any

from shardlint.verify.fixture import Fixture
from shardlint.verify.settings_fixtures import read_fixtures
from shardlint.verify.spec import P
from shardlint.verify.working_directory import digest_of, shown_path

_ROOT_MARKS = ("pyproject.toml", "setup.py", "setup.cfg", ".git")


def open_project(file: Path) -> tuple[str, bool]:
    """Put a file's project on `sys.path`; return the file's module name and whether to import it by
    that name.

    The path gets, in this order: the folder that holds the file (or its outermost package), the
    project's root, its `src`, and the working directory.
    """
    file = file.resolve()
    package = file.parent
    parts = [] if file.stem == "__init__" else [file.stem]
    while (package / "__init__.py").exists():
        parts.insert(0, package.name)
        package = package.parent
    root = next(
        (
            folder
            for folder in (package, *package.parents)
            if any((folder / mark).exists() for mark in _ROOT_MARKS)
        ),
        package,
    )
    wanted = [package, root, root / "src", Path.cwd()]
    paths = [str(folder) for folder in wanted if folder.is_dir()]
    sys.path[:0] = [path for index, path in enumerate(paths) if path not in paths[:index]]
    taken = parts[0] in sys.modules or parts[0] in sys.stdlib_module_names
    return ".".join(parts), not taken and all(part.isidentifier() for part in parts)


def import_file(file: Path) -> ModuleType:
    """The module of a file: imported by its name where that is free, so that other modules share it.

    Raises whatever the file raises.
    """
    file = file.absolute()  # the file may change the working directory
    name, by_name = open_project(file)
    if by_name:
        importlib.invalidate_caches()  # the zygote may have listed this folder before the file was written
        module = importlib.import_module(name)
        if Path(module.__file__ or "").resolve() == file.resolve():
            return module
    return import_alone(file)


def import_alone(file: Path) -> ModuleType:
    """The module of a file whose name is not importable, or belongs to something else."""
    name = "shardlint_verified_" + "".join(char if char.isalnum() else "_" for char in file.stem)
    spec = importlib.util.spec_from_file_location(name, file)
    if spec is None or spec.loader is None:
        raise ImportError(f"{file} is not a Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def fixtures_from(file: Path) -> dict[str, Fixture]:
    """The fixtures of a Python file, which is imported, or of a settings file, which is read.

    Raises whatever the file raises, and `BadSettings`.
    """
    if file.suffix == ".toml":
        open_project(file)
        return read_fixtures(file)
    return fixtures_in(import_file(file))


def fixture_named(file: Path, name: str, digest: str | None = None) -> Fixture:
    """A fixture of a file as it is declared now: what the program does to its own later changes nothing of this one.

    `digest` is that of the file when the run began (None: not known). Raises whatever the file raises, and
    `LookupError` where the file is another by now, or has no such fixture.
    """
    if digest is not None and digest_of(file) != digest:
        raise LookupError(f"{shown_path(str(file))} changed during this run: run again")
    found = fixtures_from(file).get(name)
    if found is None:
        raise LookupError(
            f"{shown_path(str(file))} did not make the fixture {name!r} again, which was there when it was "
            "listed"
        )
    return _copy_fixture(found)


def _copy_fixture(fixture: Fixture) -> Fixture:
    """A fixture of its own, made of copies all through, but for the functions and what they need."""
    values: dict[str, Any] = {one.name: getattr(fixture, one.name) for one in dataclasses.fields(Fixture)}
    values["args"] = tuple(
        dataclasses.replace(one, spec=_copy_value(one.spec), specs=_copy_value(one.specs))
        for one in values["args"]
    )
    for name in ("out", "gradients"):
        values[name] = MappingProxyType({path: P(*P.make_spec(spec)) for path, spec in values[name].items()})
    values["budget"] = MappingProxyType(dict(values["budget"]))
    for name in ("meshes", "donate", "forbid", "topology"):
        values[name] = tuple(_copy_value(one) for one in values[name])
    return Fixture(**values)


def _copy_value(value: Any) -> Any:
    if isinstance(value, Mapping):
        return (
            {key: _copy_value(one) for key, one in value.items()} if type(value) is dict else copy.copy(value)
        )
    if type(value) in (list, tuple):
        return type(value)(_copy_value(one) for one in value)
    return P(*value) if isinstance(value, P) else value


def declared_text(fixture: Fixture | None) -> str:
    """All that a fixture declares, as text."""
    return "" if fixture is None else repr([getattr(fixture, name) for name in _FIELDS])


_FIELDS = [one.name for one in dataclasses.fields(Fixture) if one.name not in ("fn", "args", "reference")]


def fixtures_in(module: ModuleType) -> dict[str, Fixture]:
    """The fixtures at module level, by the first name each has, in order. Imported ones belong
    elsewhere too: kept.
    """
    found: dict[str, Fixture] = {}
    for name, value in vars(module).items():
        if issubclass(type(value), Fixture) and all(value is not other for other in found.values()):
            found[name] = value
    return found


def resolve_reference(reference: Any) -> Any:
    """Return the object that `"module:attribute"` names. Anything but a string is returned as it is.

    Raises `ImportError` or `AttributeError`, naming the reference.
    """
    if not isinstance(reference, str):
        return reference
    module, _, attributes = reference.partition(":")
    try:
        value: Any = importlib.import_module(module)
    except ModuleNotFoundError as error:
        # The module itself, or something it imports? The message must not blame the wrong one.
        if error.name and (module == error.name or module.startswith(error.name + ".")):
            raise ImportError(f"{reference!r}: no module {error.name!r} on {sys.path[:4]}") from error
        raise
    for attribute in attributes.split("."):
        try:
            value = getattr(value, attribute)
        except AttributeError:
            raise AttributeError(f"{reference!r}: {value!r} has no attribute {attribute!r}") from None
    return value


def takes_mesh(function: Any, filled: int) -> bool:
    """Return whether a function has a parameter `mesh` that `filled` positional arguments do not fill."""
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):
        return False
    for index, parameter in enumerate(parameters):
        if parameter.name == "mesh":
            return parameter.kind is parameter.KEYWORD_ONLY or (
                parameter.kind is parameter.POSITIONAL_OR_KEYWORD and index >= filled
            )
    return False


def value_of_reference(maker: Any, mesh: Any) -> Any:
    """The value of a reference: called if it is callable, with the mesh if it has a parameter `mesh`.

    A Module that holds arrays is callable too, and yet the value itself.
    """
    value = resolve_reference(maker)
    if not callable(value) or (not inspect.isroutine(value) and _holds_arrays(value)):
        return value
    return value(mesh=mesh) if takes_mesh(value, 0) else value()


def _holds_arrays(value: Any) -> bool:
    from shardlint.verify.inside import tree

    return bool(tree.array_leaves(value, ""))


def place_of(function: Callable[..., Any]) -> str:
    """`path:line` of a function's definition, relative to the working directory where it lies below it."""
    inner = inspect.unwrap(function)
    inner = getattr(inner, "func", inner)  # functools.partial
    try:
        file, line = inspect.getsourcefile(inner) or "", inspect.getsourcelines(inner)[1]
    except (OSError, TypeError):
        return ""
    return f"{shown_path(file)}:{line}"


def is_theirs(file: str) -> bool:
    """Return whether a source file is the user's, and not one of an installed package, of Python or of this
    verifier.
    """
    here = str(Path(__file__).resolve().parents[2])
    theirs = "site-packages" not in file and not file.startswith((here, "<"))
    return theirs and str(Path(sys.base_prefix) / "lib") not in file


def blame_line(error: BaseException) -> str:
    """Where an error arose in the user's code, `path:line in name`, or an empty string."""
    frames = []
    trace = error.__traceback__
    while trace is not None:
        frames.append((trace.tb_frame.f_code, trace.tb_lineno))
        trace = trace.tb_next
    for code, line in reversed(frames):
        if is_theirs(code.co_filename):
            return f"{shown_path(code.co_filename)}:{line} in {code.co_name}"
    return ""
