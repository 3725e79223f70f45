"""Sizes of mesh axes that are taken by their places among all axes of a mesh. For SL337."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from shardlint.model.values import options, settled
from shardlint.rules_api.site import Site
from shardlint.source.lazy import dataclass
from shardlint.source.patterns import regex
from shardlint.syntax.nodes import walk

# Words for one axis: what a name may say, and what axes are called.
_KINDS = (
    regex(r"(?i)(?:^|_)(?:dp|data|batch|replicas?|replicate|ddp|dcn)(?:_|$)"),
    regex(r"(?i)(?:^|_)(?:tp|mp|tensor|model)(?:_|$)"),
    regex(r"(?i)(?:^|_)fsdp(?:_|$)"),
    regex(r"(?i)(?:^|_)(?:ep|experts?)(?:_|$)"),
    regex(r"(?i)(?:^|_)(?:pp|pipe|pipeline|stages?)(?:_|$)"),
    regex(r"(?i)(?:^|_)(?:sp|cp|seq|sequence|context)(?:_|$)"),
)


@dataclass(frozen=True)
class Size:
    """A size by place: where, what it is called, the axis that stands there, and the one that the name speaks of."""

    node: ast.expr
    name: str
    axis: str
    meant: str
    place: int
    axes: tuple[str, ...]


def sizes_by_place(site: Site) -> Iterator[Size]:
    """The sizes in a statement that are of another axis than their name says."""
    for name, node, mesh, place in _named(site):
        found = _axes(site, mesh)
        if found is None or not -len(found) <= place < len(found):
            continue
        axis = found[place]
        said = [kind for kind in _KINDS if kind.search(name)]
        if len(said) != 1 or said[0].search(axis) or name in (axis, f"{axis}_size"):
            continue
        meant = [one for one in found if said[0].search(one)]
        if len(meant) == 1 and any(kind.search(axis) for kind in _KINDS):
            yield Size(node, name, axis, meant[0], place, found)


def _named(site: Site) -> Iterator[tuple[str, ast.expr, ast.expr, int]]:
    """What a statement calls a size, where that stands, the mesh, and the place."""
    match site.syntax:
        case ast.Assign(targets=[ast.Tuple(elts=names)], value=ast.Attribute() as value):
            mesh = _all_sizes(value)
            if mesh is not None:
                yield from ((_name(one), value, mesh, place) for place, one in enumerate(names))
        case ast.Assign(targets=[ast.Name() | ast.Attribute() as target], value=value):
            yield from _one(_name(target), value)
        case ast.AnnAssign(target=ast.Name() | ast.Attribute() as target, value=ast.expr() as value):
            yield from _one(_name(target), value)
        case ast.Return(value=ast.expr() as value):
            function = site.scope.function()
            if function is not None:
                yield from _one(function.name, value)
    if isinstance(site.syntax, ast.stmt) and not hasattr(site.syntax, "body"):
        for call in walk(site.syntax):
            if isinstance(call, ast.Call):
                for word in call.keywords:
                    yield from _one(word.arg or "", word.value)


def _name(node: ast.expr) -> str:
    return getattr(node, "id", getattr(node, "attr", ""))


def _one(name: str, value: ast.expr) -> Iterator[tuple[str, ast.expr, ast.expr, int]]:
    match value:
        case ast.Subscript(
            value=ast.Attribute(value=mesh, attr="shape"),
            slice=ast.Subscript(value=ast.Attribute(attr="axis_names"), slice=index),
        ):
            place = _place(index)
        case ast.Subscript(value=sizes, slice=index) if (whose := _all_sizes(sizes)) is not None:
            mesh, place = whose, _place(index)
        case _:
            return
    if place is not None:
        yield name, value, mesh, place


def _place(index: ast.expr) -> int | None:
    match index:
        case ast.Constant(value=int() as place):
            return place
        case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int() as place)):
            return -place
    return None


def _all_sizes(node: ast.expr) -> ast.expr | None:
    """The mesh of which an expression gives the sizes of all axes, in their order."""
    match node:
        case ast.Attribute(value=ast.Attribute(value=mesh, attr="devices"), attr="shape"):
            return mesh
        case ast.Attribute(value=mesh, attr="axis_sizes"):
            return mesh
        case ast.Call(func=ast.Name(id="tuple" | "list"), args=[ast.Call(func=ast.Attribute(attr="values") as of)]):
            return of.value.value if isinstance(of.value, ast.Attribute) and of.value.attr == "shape" else None
    return None


def _axes(site: Site, mesh: ast.expr) -> tuple[str, ...] | None:
    """The axes of the one mesh that an expression is, or of meshes that all have the same."""
    found = {
        made.axis_names if (made := site.mesh_of(settled(one))) is not None else None
        for one in options(site.program.followed(site.value(mesh)))
    }
    return found.pop() if len(found) == 1 else None
