"""Types named by annotations: classes, also as text, with `| None`, `Optional`, `Annotated` and `Final`."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from shardlint.model.values import ClassValue, Constant, Parameter, Place, Value
from shardlint.syntax import FileFacts, last_name
from shardlint.syntax.bindings import lookup_bindings
from shardlint.syntax.nodes import walk_nodes

if TYPE_CHECKING:
    from shardlint.model.evaluator.evaluate import Evaluator

_WRAPPING = ("Optional", "Annotated", "Final", "ClassVar", "InitVar", "Required", "NotRequired")


# Names that stand for unions of names that stand for unions.
_ALIASES = 8


def annotated_classes(evaluator: Evaluator, place: Place) -> list[Value]:
    """The classes an annotation names, those of a union each; `None` among them is `Constant(None)`."""
    found: list[Value] = []
    for file, node in union_members(place):
        match node:
            case ast.Constant(value=None):
                found.append(Constant(None))
            case ast.Constant(value=str() as text):
                found += _values_of_quoted_annotation(evaluator, Place(file, node), text)
            case ast.Subscript(value=generic):
                found.append(evaluator.value(Place(file, generic)))
            case _:
                found.append(evaluator.value(Place(file, node)))
    return found


def union_members(place: Place, aliases: int = _ALIASES) -> Iterator[tuple[FileFacts, ast.expr]]:
    """The types of an annotation, those of a union each, as they are written; an `Optional` has a `None` more."""
    file, node = place.file, place.node
    inside: list[ast.expr] = []
    match node:
        case ast.BinOp(op=ast.BitOr(), left=left, right=right):
            inside = [left, right]
        case ast.Subscript(value=generic, slice=of) if last_name(generic) == "Union":
            inside = of.elts if isinstance(of, ast.Tuple) else [of]
        case ast.Subscript(value=generic, slice=of) if last_name(generic) in _WRAPPING:
            inside = of.elts[:1] if isinstance(of, ast.Tuple) else [of]
        case ast.Name() if aliases and (alias := _find_union_alias(file, node)) is not None:
            yield from union_members(alias, aliases - 1)
            return
        case ast.expr():
            yield file, node
    for part in inside:
        yield from union_members(Place(file, part), aliases)
    if isinstance(node, ast.Subscript) and last_name(node.value) == "Optional":
        yield file, ast.Constant(None)


def annotated_project_classes(evaluator: Evaluator, parameter: Parameter) -> list[ClassValue]:
    """The classes of the project that the annotation of a parameter names."""
    annotation = getattr(parameter.place.node, "annotation", None)
    found = annotated_classes(evaluator, Place(parameter.place.file, annotation)) if annotation is not None else []
    return [one for one in found if isinstance(one, ClassValue)]


def _find_union_alias(file: FileFacts, name: ast.Name) -> Place | None:
    """Return the definition of a name that a module binds to a union or an Optional: `Spec = P | None`."""
    bindings, _ = lookup_bindings(file, name, name.id)
    if len(bindings) != 1 or bindings[0].kind != "assign":
        return None
    value = bindings[0].value
    composed = isinstance(value, ast.BinOp) and isinstance(value.op, ast.BitOr)
    composed = composed or (isinstance(value, ast.Subscript) and last_name(value.value) in (*_WRAPPING, "Union"))
    inside = value is not None and any(one is name for one in walk_nodes(value))
    return Place(file, value) if composed and value is not None and not inside else None


def _values_of_quoted_annotation(evaluator: Evaluator, place: Place, text: str) -> list[Value]:
    """An annotation in quotes, of names alone: `"Trainer"`, `"config.Config | None"`."""
    found: list[Value] = []
    for part in text.split("|"):
        dotted = part.strip().split(".")
        if dotted == ["None"]:
            found.append(Constant(None))
        elif all(name.isidentifier() for name in dotted):
            value = evaluator.evaluate_name(place.file, place.node, dotted[0])
            for name in dotted[1:]:
                value = evaluator.evaluate_attribute(value, name)
            found.append(value)
    return found
