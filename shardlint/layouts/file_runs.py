"""What running a file on layouts finds, kept with what it rests on."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from dataclasses import replace

from shardlint.config.targets import Targets
from shardlint.layouts.interpreter import Interpreter, Modules, Violation
from shardlint.layouts.layout import Layout
from shardlint.layouts.values import Value
from shardlint.libraries import FUNCTIONS
from shardlint.model import Program
from shardlint.syntax import FileFacts

_PACKAGES = ("jax", "flax", "equinox")


def violations_of(program: Program, file: FileFacts, targets: Targets) -> tuple[Violation, ...]:
    """The contracts of libraries that a file breaks, in text order.

    One that is broken in another file, which this one calls, stands at the last call of this file that leads there.
    """
    return _run(program, file, targets)[0]


def layouts_of(program: Program, file: FileFacts, targets: Targets) -> Mapping[ast.AST, Value]:
    """What the expressions of a file came to, the last time they ran: those that gave arrays, alone or in tuples."""
    return _run(program, file, targets)[1]


def _run(
    program: Program, file: FileFacts, targets: Targets
) -> tuple[tuple[Violation, ...], Mapping[ast.AST, Value]]:
    chosen = {name: targets.release(name) for name in _PACKAGES}
    key = tuple(chosen.items())

    def run() -> tuple[tuple[Violation, ...], Mapping[ast.AST, Value]]:
        modules = program.of_node(
            ("modules", key), lambda: program.learning(Modules(program.project, FUNCTIONS, chosen))
        )
        made = Interpreter(modules, file)
        made.run()
        arrays = {node: value for node, value in made.layouts.items() if _is_array(value)}
        broken = dict(made.violations)
        if made.options_met:
            supposed = Interpreter(modules, file, with_defaults=True)
            supposed.run()
            for where, one in supposed.violations.items():
                broken.setdefault(where, replace(one, certain=False, by_default=True))
            supposed.release()
        made.release()
        placed = [_in_file(one, file) for one in broken.values()]
        return tuple(sorted((one for one in placed if one is not None), key=_order)), arrays

    return program.of_node(("layouts", file.path, key), run)


def _is_array(value: Value) -> bool:
    return isinstance(value, Layout) or (
        isinstance(value, tuple) and bool(value) and all(map(_is_array, value))
    )


def _in_file(found: Violation, file: FileFacts) -> Violation | None:
    """A violation with its place in a file."""
    if found.place.file is file:
        return found
    calls = [place for place, call in enumerate(found.calls) if call.file is file]
    if not calls:
        return None
    last = calls[-1]
    inside = (*found.calls[last + 1 :], found.place)
    return replace(found, place=found.calls[last], calls=found.calls[:last], inside=inside)


def _order(found: Violation) -> tuple[int, int, str]:
    node = found.place.node
    return getattr(node, "lineno", 0), getattr(node, "col_offset", 0), found.kind
