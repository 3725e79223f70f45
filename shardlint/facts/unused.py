"""Functions that no code of an application uses."""

from __future__ import annotations

import ast

from shardlint.model import Program
from shardlint.model.values import Place


def is_unused_in_application(program: Program, place: Place) -> bool:
    """Return whether a place is in a function of a module that nothing in the project names.

    False in a package, whose users may call the function, and where nothing marks the root of the project.
    """
    if not program.project.is_application:
        return False
    functions = [
        one for one in place.file.ancestors(place.node) if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef)
    ]
    outermost = functions[-1] if functions else None
    if outermost is None or outermost.decorator_list or not isinstance(place.file.parent(outermost), ast.Module):
        return False
    ends = program.flow.ends(place.file, outermost)
    return not ends.cut and not ends.found
