"""Whether a donated argument's buffer fits an output that no other donated argument takes.

`step(params, reference, batch)` that returns new parameters and donates `reference`: where the text shows that the two
are alike (one was copied from the other, or one function made both), the new parameters take the reference's memory.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from shardlint.model import Program
from shardlint.model.lifetime.donation import Argument, DonatingCall
from shardlint.model.reach import lookup
from shardlint.model.values import Function, api_name, options
from shardlint.syntax import FileFacts

_COPIES = ("copy.deepcopy", "copy.copy", "jax.numpy.copy", "jax.numpy.array")
_MAPS = ("jax.tree.map",)
_SAME = ("jax.device_put", "equinox.filter_shard", "flax.jax_utils.replicate")


def fills_another(program: Program, file: FileFacts, call: DonatingCall, argument: Argument) -> bool:
    """Whether an update of another argument, which is not donated, can take the buffer of this one."""
    return any(
        other.taken and _alike(program, file, argument.node, other.node)
        for other in call.arguments
        if not other.donated and not other.static
    )


def _alike(program: Program, file: FileFacts, one: ast.expr, two: ast.expr) -> bool:
    """Whether two names surely hold arrays of the same shapes and types."""
    if not isinstance(one, ast.Name) or not isinstance(two, ast.Name):
        return False
    first, second = (list(_bound(program, file, node)) for node in (one, two))
    if any(_copied(program, file, value) == two.id for value in first):
        return True
    if any(_copied(program, file, value) == one.id for value in second):
        return True
    makers = {_maker(program, file, value) for value in second} - {None}
    return bool(first) and all(_maker(program, file, value) in makers for value in first)


def _bound(program: Program, file: FileFacts, node: ast.Name) -> Iterator[ast.expr]:
    """The expressions a name is bound to, without what only places them."""
    for binding in lookup(file, node, node.id)[0]:
        value = binding.value if binding.kind == "assign" else None
        while isinstance(value, ast.Call) and value.args and _api(program, file, value) in _SAME:
            value = value.args[0]
        if value is not None:
            yield value


def _copied(program: Program, file: FileFacts, value: ast.expr) -> str | None:
    """The name of which an expression is a copy, leaf by leaf."""
    if not isinstance(value, ast.Call):
        return None
    name = _api(program, file, value)
    at = 1 if name in _MAPS and len(value.args) == 2 else 0
    if not (at or name in _COPIES) or len(value.args) <= at:
        return None
    if at and "astype" in file.text(value.args[0]):
        return None
    copied = value.args[at]
    return copied.id if isinstance(copied, ast.Name) else None


def _maker(program: Program, file: FileFacts, value: ast.expr) -> ast.AST | None:
    """The function of the project whose result an expression is."""
    if not isinstance(value, ast.Call):
        return None
    found = options(program.value(file, value.func))
    return found[0].node if len(found) == 1 and isinstance(found[0], Function) else None


def _api(program: Program, file: FileFacts, call: ast.Call) -> str:
    return api_name(program.value(file, call.func))
