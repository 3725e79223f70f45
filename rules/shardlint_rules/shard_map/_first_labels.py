"""Labels that count the rows of one device, for logits whose columns were gathered from all."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from shardlint.model.values import Api, options
from shardlint.rules_api.site import Site
from shardlint.source.lazy import dataclass
from shardlint.source.patterns import regex
from shardlint.syntax import last_name
from shardlint.syntax.nodes import names_in, walk

_PRODUCTS = ("matmul", "dot", "einsum", "dot_general", "tensordot", "inner")
_LOSSES = regex(r"(?i)cross_entropy|xent|nll|take_along_axis|one_hot|softmax")
_MOVED = ("axis_index", "process_index", "axis_size")


@dataclass(frozen=True)
class Labels:
    """The `arange`, the logits it is for, and the axis as written."""

    node: ast.Call
    logits: str
    axis: str


def first_labels(site: Site) -> Labels | None:
    """Labels for what a site's gather brings; None where something tells the devices apart, or nothing is told."""
    function = site.scope.function()
    if function is None or isinstance(function.node, ast.Lambda):
        return None
    text = site.text(function.node)
    if any(word in text for word in _MOVED) or not isinstance(function.node, ast.FunctionDef):
        return None
    body = function.node
    gathered = _gathered(site, body)
    logits = {name for name, value in _bound(body) if _one_sided(value, gathered)}
    for _ in range(2):  # `logits = logits / temperature`
        logits |= {name for name, value in _bound(body) if _arithmetic_of(value, logits)}
    axis = site.argument("axis_name") or next(iter(site.call.args[1:]), None)
    along = site.text(axis) if axis is not None else "axis_name"
    for node in walk(body):
        if isinstance(node, ast.Call) and _LOSSES.search(last_name(node.func)):
            names = names_in(node)
            written = [site.text(one) for one in node.args if _one_sided(one, gathered)]
            for shown in (*sorted(names & logits)[:1], *written[:1]):
                for label in _labels(site, body, node):
                    return Labels(label, shown, along)
    return None


def _bound(body: ast.FunctionDef) -> Iterator[tuple[str, ast.expr]]:
    for node in walk(body):
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=value) | ast.AnnAssign(
                target=ast.Name(id=name), value=ast.expr() as value
            ):
                yield name, value


def _gathered(site: Site, body: ast.FunctionDef) -> set[str]:
    """Names of what was gathered, also of what is made of it."""
    found: set[str] = set()
    for _ in range(2):
        for name, value in _bound(body):
            if name not in found and _is_gathered(value, found):
                found.add(name)
    return found


def _is_gathered(value: ast.expr, names: set[str]) -> bool:
    for node in walk(value):
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.MatMult):
            return False  # that is logits
        if isinstance(node, ast.Call) and last_name(node.func) in _PRODUCTS:
            return False
        if isinstance(node, ast.Call) and last_name(node.func) == "all_gather":
            return True
        if isinstance(node, ast.Name) and node.id in names:
            return True
    return False


def _one_sided(value: ast.expr, gathered: set[str]) -> bool:
    """Whether it is a product whose right side alone was gathered."""
    for node in walk(value):
        sides: list[ast.expr] = []
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.MatMult):
            sides = [node.left, node.right]
        elif isinstance(node, ast.Call) and last_name(node.func) in _PRODUCTS:
            sides = [one for one in node.args if not isinstance(one, ast.Constant)][:2]
        if len(sides) == 2 and not _is_gathered(sides[0], gathered) and _is_gathered(sides[1], gathered):
            return True
    return False


def _arithmetic_of(value: ast.expr, names: set[str]) -> bool:
    match value:
        case ast.BinOp(left=ast.Name(id=left)) if left in names:
            return True
        case ast.BinOp(right=ast.Name(id=right)) if right in names:
            return True
        case ast.Call(args=[ast.Name(id=given), *_]) if "softmax" in last_name(value.func):
            return given in names
    return False


def _labels(site: Site, body: ast.FunctionDef, loss: ast.Call) -> Iterator[ast.Call]:
    """The counts from 0 that a loss is given as labels: as they are, by a name, or as one-hot rows."""
    names = names_in(loss)
    for node in walk(body):
        if not isinstance(node, ast.Call) or last_name(node.func) != "arange" or len(node.args) != 1:
            continue
        outer = site.file.parent(node)
        while isinstance(outer, ast.Call | ast.Subscript) and outer is not loss:
            if isinstance(outer, ast.Call) and last_name(outer.func) not in ("one_hot", "asarray", "astype"):
                break
            outer = site.file.parent(outer)
        if outer is loss or (isinstance(outer, ast.Assign) and _names(outer) & names):
            found = options(site.value(node.func))
            if all(isinstance(one, Api) and one.name == "jax.numpy.arange" for one in found):
                yield node


def _names(statement: ast.Assign) -> set[str]:
    return {one.id for target in statement.targets for one in walk(target) if isinstance(one, ast.Name)}
