"""Results of interpreting a file on layouts, cached with their dependencies."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from dataclasses import replace

from shardlint.config.targets import Targets
from shardlint.layouts.interpreter import Interpreter, Modules
from shardlint.layouts.layout import Layout
from shardlint.layouts.values import Instance, Value
from shardlint.layouts.violation import Violation
from shardlint.libraries import FUNCTIONS
from shardlint.model import Program
from shardlint.syntax import FileFacts

_PACKAGES = ("jax", "flax", "equinox")
_FILES = 12
"""How many files are asked what they run of one."""
_OF_HELPERS = ("rows.", "reducer.own-maximum", "stack.reshaped")
"""The kinds of contracts that the code which breaks them breaks itself, whatever file calls it."""
Run = tuple[tuple[Violation, ...], Mapping[ast.AST, Value], tuple[Violation, ...]]
"""What a run found in its file, what the expressions of that came to, and what it found in mapped bodies elsewhere."""


def violations_of(program: Program, file: FileFacts, targets: Targets) -> tuple[Violation, ...]:
    """The contracts of libraries that a file breaks, in text order.

    One that is broken in another file, which this one calls, stands at the last call of this file that leads there.
    A function that shard_map or pmap maps is judged in its own file, also for files that map it or call what maps it.
    """

    def find_violations() -> tuple[Violation, ...]:
        found = [
            one for one in _run_layouts(program, file, targets)[0] if not _is_told_there(program, one, file)
        ]
        for path in program.project.files_mapping_functions(file.path)[:_FILES]:
            other = program.project.facts(path)
            if other is not None:
                found += (one for one in _run_layouts(program, other, targets)[2] if one.place.file is file)
        placed = {(one.kind, one.place): one for one in reversed(found)}
        return tuple(sorted(placed.values(), key=_position_order))

    return program.answer_for_node(("violations", file.path, _release_key(targets)), find_violations)


def layouts_of(program: Program, file: FileFacts, targets: Targets) -> Mapping[ast.AST, Value]:
    """Return the values of the expressions of a file in their last run, if they were arrays, alone or in tuples."""
    return _run_layouts(program, file, targets)[1]


def _run_layouts(program: Program, file: FileFacts, targets: Targets) -> Run:
    key = _release_key(targets)

    def interpret_file() -> Run:
        modules = program.answer_for_node(
            ("modules", key), lambda: program.register_room(Modules(program.project, FUNCTIONS, dict(key)))
        )
        made = Interpreter(modules, file)
        made.run_file()
        arrays = {node: value for node, value in made.layouts.items() if _is_array(value)}
        broken = dict(made.violations)
        if made.option_readers:
            supposed = Interpreter(modules, file, made.option_readers)
            supposed.allow_work(supposed.work // 2)  # what an option decides is told where it is read, which is early
            supposed.run_file()
            for where, one in supposed.violations.items():
                broken.setdefault(where, replace(one, certain=False, by_default=True))
            supposed.release_all()
        placed = [_locate_in_file(one, file) for one in broken.values()]
        bodies = tuple(one for one in broken.values() if one.place.file is not file and _is_in_its_body(one))
        made.release_all()
        return tuple(sorted((one for one in placed if one is not None), key=_position_order)), arrays, bodies

    return program.answer_for_node(("layouts", file.path, key), interpret_file)


def _release_key(targets: Targets) -> tuple[tuple[str, tuple[int, ...]], ...]:
    """The releases on which what a run finds depends."""
    return tuple((name, targets.release_of(name)) for name in _PACKAGES)


def _is_told_there(program: Program, violation: Violation, file: FileFacts) -> bool:
    """Return whether a violation in a mapped body or helper of another file is reported in that file, and not here."""
    if (
        not violation.inside
        or violation.kind == "rows.first"
        or not _is_in_its_body(replace(violation, place=violation.inside[-1]))
    ):
        return False
    return file.path in program.project.files_mapping_functions(violation.inside[-1].file.path)[:_FILES]


def _is_in_its_body(violation: Violation) -> bool:
    """Return whether a violation is in the file of the mapped function, or in a helper that makes the mistake."""
    return violation.kind.startswith(_OF_HELPERS) or (
        violation.body is not None and violation.body.file is violation.place.file
    )


def _is_array(value: Value) -> bool:
    if isinstance(value, tuple):
        return bool(value) and all(map(_is_array, value))
    return isinstance(value, Layout) or (isinstance(value, Instance) and value.is_array)


def _locate_in_file(violation: Violation, file: FileFacts) -> Violation | None:
    """A violation with its place in a file."""
    if violation.place.file is file:
        return violation
    calls = [place for place, call in enumerate(violation.calls) if call.file is file]
    if not calls:
        return None
    last = calls[-1]
    inside = (*violation.calls[last + 1 :], violation.place)
    return replace(violation, place=violation.calls[last], calls=violation.calls[:last], inside=inside)


def _position_order(violation: Violation) -> tuple[int, int, str]:
    node = violation.place.node
    return getattr(node, "lineno", 0), getattr(node, "col_offset", 0), violation.kind
