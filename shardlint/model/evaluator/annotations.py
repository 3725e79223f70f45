"""What an annotation says a value is: classes, also as text, with `| None`, `Optional`, `Annotated` and `Final`."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from shardlint.model.values import Constant, Place, Value
from shardlint.syntax import last_name

if TYPE_CHECKING:
    from shardlint.model.evaluator.evaluate import Evaluator

_WRAPPING = ("Optional", "Annotated", "Final", "ClassVar", "InitVar", "Required", "NotRequired")


def annotated(evaluator: Evaluator, place: Place) -> list[Value]:
    """The classes an annotation names, those of a union each; `None` among them is `Constant(None)`."""
    node = place.node
    match node:
        case ast.Constant(value=None):
            return [Constant(None)]
        case ast.Constant(value=str() as text):
            return _text(evaluator, place, text)
        case ast.BinOp(op=ast.BitOr()):
            parts = [node.left, node.right]
            return [one for part in parts for one in annotated(evaluator, Place(place.file, part))]
        case ast.Subscript():
            last = last_name(node.value)
            inside = node.slice
            first = inside.elts[0] if isinstance(inside, ast.Tuple) and inside.elts else inside
            if last == "Union":
                parts = inside.elts if isinstance(inside, ast.Tuple) else [inside]
                return [one for part in parts for one in annotated(evaluator, Place(place.file, part))]
            if last in _WRAPPING:
                found = annotated(evaluator, Place(place.file, first))
                return [*found, Constant(None)] if last == "Optional" else found
            return annotated(evaluator, Place(place.file, node.value))
    return [evaluator.value(place)]


def _text(evaluator: Evaluator, place: Place, text: str) -> list[Value]:
    """An annotation in quotes, of names alone: `"Trainer"`, `"config.Config | None"`."""
    found: list[Value] = []
    for part in text.split("|"):
        dotted = part.strip().split(".")
        if dotted == ["None"]:
            found.append(Constant(None))
        elif all(name.isidentifier() for name in dotted):
            value = evaluator.name(place.file, place.node, dotted[0])
            for name in dotted[1:]:
                value = evaluator.attribute(value, name)
            found.append(value)
    return found
