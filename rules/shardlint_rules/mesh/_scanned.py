"""Arrays that `scan` goes over and whose first dimension is split. For SL348."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from copy import copy
from typing import NamedTuple

from shardlint.model.mesh.meshes import leaves
from shardlint.model.reach import assigned_once
from shardlint.model.values import CallResult, Computed, Constant, Items, Parameter, Place, Value, options
from shardlint.rules_api.site import Site
from shardlint.source.patterns import regex
from shardlint.syntax import FileFacts
from shardlint_rules.jit.leaf import array_values, leaves_of
from shardlint_rules.mesh.constraining_functions import may_constrain

# Placements: what jit gives by its out_shardings may be put otherwise before the loop.
_PUT = ("jax.lax.with_sharding_constraint", "jax.device_put", "equinox.filter_shard", "jax.reshard")
SCANS = {"jax.lax.scan": ("f", "init", "xs"), "jax.lax.map": ("f", "xs")}
"""What takes one entry of the first dimension of `xs` in each turn, and its parameters."""
# `in_shardings` does not count what is static.
_STATIC = ("static_argnums", "static_argnames")
_EACH = ("shard_map", "pmap")
_RESHAPE = "jax.numpy.reshape"
_REARRANGE = "einops.rearrange"
# `(steps rows) ... -> steps rows ...`
_IN_ORDER = regex(r"\s*\(\s*(\w+)\s+(\w+)\s*\)(.*)->\s*\1\s+\2\b")


class Split(NamedTuple):
    """The placement that splits the first dimension of what a scan goes over, and by which axes."""

    place: Place
    axes: tuple[str, ...]


def split_over_turns(site: Site) -> Iterator[Split]:
    """The placements of what a scan takes an entry of in each turn, of which the first dimension is split."""
    given = site.arguments.get("xs", SCANS[site.api])
    if given is None or site.arguments.open_positional:
        return
    seen: set[Place] = set()
    for value in leaves(site.program.evaluator.trees.expanded(site.program.value(given.file, given.node))):
        if not isinstance(value, CallResult) or value.api not in _PUT or value.call is None:
            continue
        shardings = leaves(site.program.evaluator.trees.expanded(site.shardings.target(value)))
        named = [site.shardings.named(one) for one in shardings]
        firsts = [one[1].entries[0] for one in named if one is not None and one[1].entries]
        if not named or len(firsts) < len(named) or not all(one.known and one.axes for one in firsts):
            continue
        meshes = [one[0] for one in named if one is not None]
        sizes = [dict(zip(mesh.axis_names or (), mesh.sizes, strict=False)) for mesh in meshes if mesh is not None]
        if any(size.get(axis) == 1 for size in sizes for axis in firsts[0].axes):
            continue
        if value.call.place not in seen:
            seen.add(value.call.place)
            yield Split(value.call.place, firsts[0].axes)


def counted_in_front(site: Site) -> Iterator[Split]:
    """The reshapes that cut the split rows of what a scan goes over, and count the pieces in front.

    Rows stay in their order: the first piece is on the first devices. With `(rows, steps)` and the two swapped each
    piece has rows of every device.
    """
    given, body = (site.arguments.get(name, SCANS[site.api]) for name in ("xs", "f"))
    if given is None or body is None or site.arguments.open_positional:
        return
    seen: set[Place] = set()
    for value in leaves(site.program.evaluator.trees.expanded(site.program.value(given.file, given.node))):
        found = _cut(site, value)
        if found is None or found[0] in seen:
            continue
        seen.add(found[0])
        axes = _first_axes(site, found[1])
        if axes and not may_constrain(site, site.program.value(body.file, body.node)) and not _on_one_device(site):
            yield Split(found[0], axes)


def _on_one_device(site: Site) -> bool:
    """Whether what the scan goes over is one device's part; asked last, for it costs most."""
    return any(region.by.endswith(_EACH) for region in (site.region, site.region_in_sight))


def _cut(site: Site, value: Value) -> tuple[Place, Place] | None:
    """The call that cuts the first dimension in two, the number of pieces in front, and the array it cuts."""
    place: Place | None
    match value:
        case Computed(place=Place() as place):
            call = place.node
        case CallResult(call=arguments) if arguments is not None and value.api in (_RESHAPE, _REARRANGE):
            place, call = arguments.place, arguments.place.node
        case _:
            return None
    match call:
        case ast.Call(func=ast.Attribute(value=array, attr="reshape"), args=shape) if isinstance(value, Computed):
            pass
        case ast.Call(args=[array, *shape]) if isinstance(value, CallResult):
            pass
        case _:
            return None
    if isinstance(value, CallResult) and value.api == _REARRANGE:
        said = site.program.value(place.file, shape[0]) if shape else None
        cuts = isinstance(said, Constant) and isinstance(said.value, str) and bool(_IN_ORDER.match(said.value))
    else:
        cuts = _in_two(place.file, shape, place.file.text(array))
    return (place, Place(place.file, array)) if cuts else None


def _in_two(file: FileFacts, shape: list[ast.expr], array: str) -> bool:
    """Whether a shape has two numbers in place of the first one of an array, and the rest as it was."""
    rest = f"{array}.shape[1:]"
    if len(shape) == 1:
        whole = _bound(file, shape[0])
        match whole:
            case ast.BinOp(left=left, op=ast.Add(), right=right) if file.text(right) == rest:
                front = _bound(file, left)
                return isinstance(front, ast.Tuple | ast.List) and len(front.elts) == 2
            case ast.Tuple(elts=parts):
                shape = parts
            case _:
                return False
    last = shape[-1] if len(shape) == 3 else None
    return isinstance(last, ast.Starred) and file.text(last.value) == rest


def _bound(file: FileFacts, node: ast.expr) -> ast.expr:
    """What a name is bound to, if by one assignment; else the expression itself."""
    return (assigned_once(file, node) or node) if isinstance(node, ast.Name) else node


def _first_axes(site: Site, array: Place) -> tuple[str, ...]:
    """The axes over which the first dimension of an array is split, on every way that is in sight."""
    there = copy(site)
    there.file = array.file
    if not isinstance(array.node, ast.expr):
        return ()
    expanded = site.program.evaluator.trees.expanded
    arrays = [one for value in array_values(there, array.node) for one in leaves(expanded(value))]
    targets = [site.shardings.target(one) if isinstance(one, CallResult) else None for one in arrays]
    axes: set[tuple[str, ...]] = set()
    for target in targets or _declared(there, array.node):
        named = [site.shardings.named(one) for one in leaves(expanded(target))] if target is not None else []
        firsts = [one[1].entries[0].axes for one in named if one is not None and one[1].entries]
        if not named or len(firsts) < len(named):
            return ()
        axes.update(firsts)
    return axes.pop() if len(axes) == 1 else ()


def _declared(site: Site, node: ast.expr) -> Iterator[Value]:
    """The shardings that jit is told for a parameter, or for the tree that an array is a leaf of."""
    trees = [place for place, _ in leaves_of(site, node)]
    for place in trees or [Place(site.file, node)]:
        for one in options(site.program.value(place.file, place.node)):
            function = one.place.file.home(one.place.node).node if isinstance(one, Parameter) else None
            if not isinstance(one, Parameter) or not isinstance(function, ast.FunctionDef):
                continue
            names = [arg.arg for arg in function.args.args if arg.arg not in ("self", "cls")]
            for end in site.program.flow.in_sight(one.place.file, function).found:
                call = end.place.node
                words = {word.arg: word.value for word in call.keywords} if isinstance(call, ast.Call) else {}
                told = words.get("in_shardings") if words.keys().isdisjoint(_STATIC) else None
                whole = site.program.value(end.place.file, told) if told is not None else None
                if isinstance(whole, Items) and not whole.open and one.name in names:
                    yield from whole.items[names.index(one.name) :][:1]
