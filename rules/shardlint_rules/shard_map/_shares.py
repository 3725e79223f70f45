"""The share that a device has of a whole: its own number by the sum of the same over the devices."""

from __future__ import annotations

import ast

from shardlint.model.values import Place
from shardlint.syntax import last_name
from shardlint.syntax.nodes import walk
from shardlint_rules.jit.how_many import settled_expression


def share(place: Place) -> bool:
    """Whether a quotient is `n / psum(n)`."""
    node, file = place.node, place.file
    if not isinstance(node, ast.BinOp):
        return False
    own = {file.text(node.left), file.text(settled_expression(file, node.left))}
    summed = [
        one.args[0]
        for one in walk(settled_expression(file, node.right))
        if isinstance(one, ast.Call) and last_name(one.func) == "psum" and one.args
    ]
    return any(own & {file.text(one), file.text(settled_expression(file, one))} for one in summed)
