"""Objects of the project's classes, as the calls in sight make them: `self.runtime`, where `Trainer(Runtime())` stands.

The evaluator says what an expression is for every caller. Here a parameter counts as those calls give it that are seen.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from shardlint.model.values import CallResult, ClassValue, Parameter, Place, Unknown, Value, options
from shardlint.syntax import FileFacts
from shardlint.syntax.nodes import walk_nodes

if TYPE_CHECKING:
    from shardlint.model import Program

_DEPTH = 4
# Methods that an object of which nothing is known most likely has as a text, list, dict or path.
_OF_BUILTINS = frozenset(
    """
    append casefold endswith exists extend index is_dir is_file items join keys lower lstrip mkdir open read_text
    removeprefix removesuffix replace rstrip setdefault sort split splitlines startswith strip title upper values
    write_text
    """.split()
)


def find_project_objects(program: Program, place: Place, depth: int = 0) -> tuple[CallResult, ...]:
    """The objects of classes of the project that an expression may be; none where one of them is not seen."""
    found: list[CallResult] = []
    for option in options(program.evaluator.value(place)):
        given = _values_of_parameter(program, option) if isinstance(option, Parameter) else (option,)
        for one in given:
            if isinstance(one, CallResult) and isinstance(one.by, ClassValue):
                found.append(one)
            elif isinstance(place.node, ast.Attribute) and depth < _DEPTH:
                inside = _values_of_attribute(program, place.file, place.node, depth)
                if not inside:
                    return ()
                found += inside
            else:
                return ()
    return tuple(found)


def _values_of_parameter(program: Program, parameter: Parameter) -> tuple[Value, ...]:
    """Return the values of a parameter: in all its calls or, for a method, which any code may call, in the visible
    ones.
    """
    found = options(program.followed(parameter))
    return tuple(program.callers.visible_argument_values(parameter)) if found == (parameter,) else found


def _values_of_attribute(
    program: Program, file: FileFacts, node: ast.Attribute, depth: int
) -> tuple[CallResult, ...]:
    """Return the values that the methods of the class assign to an attribute of `self`, or of another held object."""
    found: list[CallResult] = []
    for cls in find_classes(program, Place(file, node.value), depth + 1):
        inside = cls.place.file
        for value in stored_values(inside, cls.node, node.attr):
            found += find_project_objects(program, Place(inside, value), depth + 1)
    return tuple(found)


def find_classes(program: Program, place: Place, depth: int = 0) -> Iterator[ClassValue]:
    """The classes, and their bases in the project, of which an expression is an instance: the one around `self`."""
    file, node = place.file, place.node
    own: list[ClassValue] = []
    if isinstance(node, ast.Name) and node.id == "self":
        around = next((one for one in file.ancestors(node) if isinstance(one, ast.ClassDef)), None)
        own = [ClassValue(Place(file, around))] if around is not None else []
    else:
        own = [one for one in options(program.evaluator.value(place)) if isinstance(one, ClassValue)]
        own += [one.by for one in find_project_objects(program, place, depth) if isinstance(one.by, ClassValue)]
    for cls in own:
        yield from program.evaluator.classes.project_ancestors(cls)


def evaluate_held_member(program: Program, place: Place) -> tuple[Value, ...]:
    """Return the values of an expression; for an attribute of a held object, as that object has it."""
    found = options(program.evaluator.value(place))
    node = place.node
    if not isinstance(node, ast.Attribute) or node.attr in _OF_BUILTINS:
        return found
    if not any(isinstance(one, Unknown) for one in found):
        return found
    known = [
        option
        for one in find_project_objects(program, Place(place.file, node.value))
        for option in options(program.evaluator.evaluate_attribute(one, node.attr))
    ]
    return tuple(known) or found


def sole_assigned_values(file: FileFacts, cls: ast.ClassDef, name: str) -> Iterator[ast.expr]:
    """Yield the values that the methods of a class assign to `self.name` alone."""
    for _, statement in _attribute_stores(file, cls, name):
        if isinstance(statement, ast.Assign | ast.AnnAssign) and statement.value is not None:
            yield statement.value


def stored_values(file: FileFacts, cls: ast.ClassDef, name: str) -> Iterator[ast.expr]:
    """Yield the values that the methods of a class assign to `self.name`, alone or as one of several targets."""
    for target, outer in _attribute_stores(file, cls, name):
        statement = file.parent(outer) if isinstance(outer, ast.Tuple) else None
        if isinstance(outer, ast.Tuple) and isinstance(statement, ast.Assign):
            whole = statement.value
            split = isinstance(whole, ast.Tuple) and len(whole.elts) == len(outer.elts)
            yield whole.elts[outer.elts.index(target)] if split and isinstance(whole, ast.Tuple) else whole
        elif isinstance(outer, ast.Assign | ast.AnnAssign) and outer.value is not None:
            yield outer.value


def read_in_class(file: FileFacts, target: ast.Attribute) -> Iterator[ast.Attribute]:
    """Where the class around `self.name = ...` reads an attribute of that name."""
    around = next((one for one in file.ancestors(target) if isinstance(one, ast.ClassDef)), None)
    for one in walk_nodes(around) if around is not None else ():
        if isinstance(one, ast.Attribute) and one.attr == target.attr and isinstance(one.ctx, ast.Load):
            yield one


def _attribute_stores(
    file: FileFacts, cls: ast.ClassDef, name: str
) -> Iterator[tuple[ast.Attribute, ast.AST | None]]:
    """Where a class stores to `self.name`, and what the target stands in."""
    for mention in file.mentions_in(file.scope(cls), name):
        if isinstance(mention, ast.Attribute) and isinstance(mention.ctx, ast.Store):
            if isinstance(mention.value, ast.Name) and mention.value.id == "self":
                yield mention, file.parent(mention)
