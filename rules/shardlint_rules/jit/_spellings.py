"""Specs that say the same in other words, and comparisons that do not see it."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from weakref import WeakKeyDictionary

from shardlint.model.mesh.meshes import Spec
from shardlint.model.values import CallResult, Items, Value, options
from shardlint.rules_api.site import Site
from shardlint.source.lazy import dataclass
from shardlint.syntax import FileFacts
from shardlint_rules.jit.reads import name_of, reads

# Of arrays these made, `.sharding.spec` is the spec as it was written. A constraint puts it into another form.
_AS_WRITTEN = ("jax.device_put",)
_attributes: WeakKeyDictionary[FileFacts, list[ast.AST]] = WeakKeyDictionary()


@dataclass(frozen=True)
class Side:
    """One side of a comparison: the spec it stands for, where the text tells; and the array it is asked of."""

    node: ast.expr
    kind: str
    """"spec", "sharding" or "tuple"."""
    spec: Spec | None
    array: ast.expr | None = None


def axes(spec: Spec) -> tuple[tuple[str, ...], ...] | None:
    """The axes for each dimension as written; None where they are not all told."""
    if spec.open or any(not entry.known or entry.unconstrained for entry in spec.entries):
        return None
    return tuple(entry.axes for entry in spec.entries)


def same_in_other_words(one: Spec, two: Spec) -> bool:
    """Whether two specs place alike and are not equal: `P("a")` and `P("a", None)`."""
    left, right = axes(one), axes(two)
    if left is None or right is None or left == right:
        return False
    return _stripped(left) == _stripped(right)


def _stripped(entries: tuple[tuple[str, ...], ...]) -> tuple[tuple[str, ...], ...]:
    while entries and not entries[-1]:
        entries = entries[:-1]
    return entries


def side(site: Site, node: ast.expr) -> Side | None:
    """What one side of a comparison is; None where it is neither spec nor sharding."""
    match node:
        case ast.Attribute(attr="spec", value=ast.Attribute(attr="sharding", value=array)):
            return Side(node, "spec", _placed_with(site, array), array)
        case ast.Attribute(attr="sharding", value=array):
            return Side(node, "sharding", _placed_with(site, array), array)
        case ast.Tuple():
            return Side(node, "tuple", None)
    found = options(site.value(node))
    if len(found) != 1:
        return None
    spec = site.spec_of(found[0])
    if spec is not None:
        return Side(node, "spec", spec)
    parts = site.sharding_parts(found[0])
    if parts is not None:
        return Side(node, "sharding", site.spec_of(parts[1]))
    return Side(node, "tuple", None) if isinstance(found[0], Items) and found[0].kind == "tuple" else None


def _placed_with(site: Site, array: ast.expr) -> Spec | None:
    """The spec an array was placed with, as long as it is known to be kept."""
    found = options(site.value(array))
    if len(found) != 1 or not isinstance(found[0], CallResult) or found[0].api not in _AS_WRITTEN:
        return None
    if site.program.region(site.file, array).traced in ("always", "sometimes"):
        return None
    return spec_in(site, site.shardings.target(found[0]))


def spec_in(site: Site, sharding: Value) -> Spec | None:
    """The spec of a NamedSharding."""
    parts = site.sharding_parts(sharding)
    return site.spec_of(parts[1]) if parts is not None else None


def comparisons(file: FileFacts, call: ast.Call) -> Iterator[ast.Compare]:
    """Comparisons by == and != in the file of specs and shardings: with this call, or of an array's own."""
    if not file.says("==") and not file.says("!="):
        return
    bound = name_of(file, call)
    places: list[ast.AST] = [call, *(reads(file, bound, only=False) if bound is not None else ())]
    if file not in _attributes:
        # Asked for with every call of the file.
        named = [node for name in ("spec", "sharding") for node in file.mentions(name)]
        _attributes[file] = [
            node
            for node in named
            if isinstance(node, ast.Attribute) and isinstance(file.parent(node), ast.Compare)
        ]
    places += _attributes[file]
    seen: set[int] = set()
    for place in places:
        outer = file.parent(place)
        if isinstance(outer, ast.Compare) and id(outer) not in seen and len(outer.ops) == 1:
            seen.add(id(outer))
            if isinstance(outer.ops[0], ast.Eq | ast.NotEq):
                yield outer
