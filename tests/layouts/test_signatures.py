"""Positions of arguments, as the library tables read them, against the signatures of the installed libraries."""

from __future__ import annotations

import ast
import importlib
import inspect
from collections.abc import Iterator
from pathlib import Path
from typing import Any

_TABLES = Path(__file__).parents[2] / "shardlint" / "libraries"

def _find_function(name: str) -> Any:
    parts = name.split(".")
    for end in range(len(parts), 0, -1):
        try:
            found = importlib.import_module(".".join(parts[:end]))
        except ImportError:
            continue
        for part in parts[end:]:
            found = getattr(found, part, None)
        return found
    return None


def _named_functions(node: ast.FunctionDef) -> Iterator[str]:
    for one in node.decorator_list:
        if isinstance(one, ast.Call):
            for arg in one.args:
                if isinstance(arg, ast.Constant) and "." in str(arg.value):
                    module, *names = str(arg.value).split()  # several of one module stand behind it
                    yield from (f"{module}.{name}" for name in names) if names else (module,)


def _read_arguments(node: ast.FunctionDef) -> Iterator[tuple[int, str]]:
    """The positions and names with which an implementation calls `call.argument_at`."""
    for one in ast.walk(node):
        match one:
            case ast.Call(func=ast.Attribute(value=ast.Name(id="call"), attr="argument_at"), args=[place, name, *_]):
                try:
                    yield ast.literal_eval(place), ast.literal_eval(name)
                except ValueError:
                    continue


def _implementations() -> Iterator[tuple[str, list[tuple[int, str]]]]:
    for path in sorted(_TABLES.glob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef):
                read = list(_read_arguments(node))
                yield from ((name, read) for name in _named_functions(node) if read)


def _positions(name: str) -> dict[str, int]:
    """The positions of the parameters of a function that may be given by position."""
    function = _find_function(name)
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):
        return {}
    if any(one.kind is one.VAR_POSITIONAL for one in parameters):
        return {}
    # Methods of flax and haliax are read with their object, those of numpy without.
    bound = inspect.isclass(function) or inspect.ismethoddescriptor(function)
    if bound and parameters and parameters[0].name == "self":
        parameters = parameters[1:]
    return {one.name: place for place, one in enumerate(parameters) if one.kind is not one.KEYWORD_ONLY}


def test_arguments_are_read_at_their_positions() -> None:
    wrong = []
    for name, read in _implementations():
        places = _positions(name)
        wrong += [(name, one) for _, one in read if one in places and (places[one], one) not in read]
    assert not wrong


def test_the_first_argument_of_make_mesh_is_read_by_its_name() -> None:
    read = dict(_implementations())["jax.make_mesh"]
    assert (0, next(iter(_positions("jax.make_mesh")))) in read
