"""Arrays, and trees of arrays, that the text proves to be spread over the axes of a mesh."""

from __future__ import annotations

import ast

from shardlint.program import api, signatures
from shardlint.program.meshes import Mesh, Spec, leaves
from shardlint.program.values import (
    Api,
    CallArguments,
    Constant,
    Function,
    Items,
    Leaves,
    Made,
    Place,
    Table,
    Unknown,
    Value,
    Wrapped,
    options,
)
from shardlint.site import Site
from shardlint_rules.jit.reads import name_of, reads

# Functions that place what they are given, and the parameter that says where.
PLACING = {
    "jax.device_put": "device",
    "jax.lax.with_sharding_constraint": "shardings",
    "jax.reshard": "out_shardings",
    "equinox.filter_shard": "device_or_shardings",
}
# Of these one stands wherever something is placed, or a mesh is made.
PLACED_WORDS = ("hard", "device_put", "Mesh", "mesh")
JITS = (*signatures.JITS, "equinox.filter_jit")
_MADE_ON = {"jax.make_array_from_callback": 1, "jax.make_array_from_process_local_data": 0}
_DEPTH = 6
ASKS_TRACED = ("Tracer", "is_concrete", "trace_state_clean", "in_jit", "under_jit", "eval_context")
"""What code says that asks whether it is traced."""


def asks_for_a_place(site: Site) -> bool:
    """Whether a call of a placing function says where to: `device_put(x)` and `device_put(x, None)` do not."""
    if site.arguments.open_positional or site.arguments.open_keywords:
        return True
    where = site.argument(PLACING[site.api])
    return where is not None and not all(
        isinstance(option, Constant) and option.value is None for option in options(site.value(where))
    )


def target(site: Site, value: Made) -> Value:
    """What the call that made a value says of where to put it."""
    if value.call is None:
        return Unknown()
    place: Place | None = None
    if value.api in PLACING:
        place = value.call.get(PLACING[value.api], api.SIGNATURES.get(value.api, ()))
    elif value.api in _MADE_ON:
        index = _MADE_ON[value.api]
        place = value.call.keywords.get("sharding")
        if place is None and index < len(value.call.positional):
            place = value.call.positional[index]
    elif isinstance(value.by, Wrapped) and value.by.api.name in JITS and value.by.call is not None:
        place = value.by.call.keywords.get("out_shardings")
        if place is not None:
            return site.program.evaluator.value(place, value.by.call.environment)
    if place is None:
        return Unknown()
    return site.program.evaluator.value(place, value.call.environment)


def named(site: Site, value: Value) -> tuple[Mesh | None, Spec] | None:
    """Mesh and spec of a NamedSharding of which the spec is known; the mesh may not be."""
    parts = site.sharding_parts(value)
    spec = site.spec_of(parts[1]) if parts is not None else None
    if parts is None or spec is None:
        return None
    return site.mesh_of(parts[0]), spec


def shards(site: Site, value: Value, auto: bool = False) -> bool:
    """Whether a sharding, or every one of a tree of shardings, surely splits over an axis of a mesh.

    `auto` asks for a mesh whose axes are surely Auto too.
    """
    found = leaves(site.program.evaluator.trees.expanded(value))
    enough = any if site.assuming else all  # of several specs one that splits
    return bool(found) and enough(_splits(site, leaf, auto) for leaf in found)


def _splits(site: Site, value: Value, auto: bool) -> bool:
    parts = site.sharding_parts(value)
    if parts is None:
        return False
    specs = [site.spec_of(option) for option in options(parts[1])]
    enough = any if site.assuming else all  # of several specs one that splits
    if not enough(_names_an_axis(site, spec) for spec in specs):
        return False
    mesh = site.mesh_of(parts[0])
    return not auto or (mesh is not None and has_auto_axes(site, mesh))


def _names_an_axis(site: Site, spec: Spec | None) -> bool:
    if spec is None:
        return False
    computed = site.assuming and spec.open  # `P(*axes)`
    return computed or any(entry.axes for entry in spec.entries)


def has_auto_axes(site: Site, mesh: Mesh) -> bool:
    """Whether all axes of a mesh are Auto on the user's release."""
    if mesh.axis_types == "default":
        return mesh.api == "jax.sharding.Mesh" or (mesh.api == "jax.make_mesh" and site.runs("jax", "<0.9"))
    return mesh.axis_types == "auto"


def spread(site: Site, value: Value, auto: bool = False, depth: int = 0) -> bool:
    """Whether a value is surely spread over a mesh: an array, or all arrays of a tree."""
    if depth > _DEPTH:
        return False
    match value:
        case Items(items=items, open=False):
            return bool(items) and all(spread(site, item, auto, depth + 1) for item in items)
        case Table(entries=entries, open=False):
            return bool(entries) and all(spread(site, item, auto, depth + 1) for _, item in entries)
    found = options(value)
    if len(found) > 1:
        enough = any if site.assuming else all  # what a loop makes of it stays where it is
        return enough(spread(site, option, auto, depth + 1) for option in found)
    if isinstance(value, Leaves):
        return spread(site, value.of, auto, depth + 1)
    if not isinstance(value, Made) or value.call is None:
        return False
    if value.api == "jax.tree.map" and value.call.positional:
        return spread(site, mapped(site, value.call), auto, depth + 1)
    return shards(site, target(site, value), auto)


def mapped(site: Site, call: CallArguments) -> Value:
    """What the function of a `tree.map` makes of a leaf."""
    evaluator = site.program.evaluator
    function = evaluator.value(call.positional[0], call.environment)
    if isinstance(function, Function):
        return evaluator.apply(function, CallArguments(call.place, (), {}, open_positional=True))
    return Unknown()


def places(site: Site, node: ast.AST) -> bool:
    """Whether a call is one that places its argument: in a mesh or on a device."""
    if not isinstance(node, ast.Call):
        return False
    callee = site.value(node.func)
    return any(
        (isinstance(option, Api) and option.name in PLACING)
        or (
            isinstance(option, Wrapped)
            and option.call is not None
            and "out_shardings" in option.call.keywords
        )
        or (
            isinstance(option, Wrapped) and option.call is not None and "in_shardings" in option.call.keywords
        )
        for option in options(callee)
    )


def placed_around(site: Site, node: ast.AST) -> bool:
    """Whether an expression stands inside a call that places it, or that only looks at it (a test's assertion)."""
    for outer in site.file.ancestors(node):
        if isinstance(outer, ast.stmt | ast.Lambda):
            return isinstance(outer, ast.Assert)
        if isinstance(outer, ast.Compare):
            return True
        if isinstance(outer, ast.Call) and (
            places(site, outer) or _puts_in_a_map(site, outer) or _looks(site, outer)
        ):
            return True
    return False


def placed_later(site: Site, node: ast.AST) -> bool:
    """Whether the name an expression is bound to is handed to something that places it, or says so by its name."""
    target = name_of(site.file, node)
    for use in reads(site.file, target, only=False) if target is not None else ():
        for outer in site.file.ancestors(use):
            if isinstance(outer, ast.stmt):
                break
            if isinstance(outer, ast.Call) and (places(site, outer) or _says_it_places(outer)):
                return True
    return False


def _says_it_places(call: ast.Call) -> bool:
    name = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
    return any(word in name.lower() for word in ("shard", "place", "put", "constrain", "replicate"))


def _puts_in_a_map(site: Site, call: ast.Call) -> bool:
    """`jax.tree.map(jax.device_put, arrays, shardings)`."""
    return any(places(site, part) or _is_placing(site, part) for part in call.args[:1])


def _is_placing(site: Site, node: ast.AST) -> bool:
    if isinstance(node, ast.Lambda):
        return places(site, node.body)
    return any(isinstance(option, Api) and option.name in PLACING for option in options(site.value(node)))


def _looks(site: Site, call: ast.Call) -> bool:
    name = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
    return any(word in name.lower() for word in ("assert", "allclose", "equal", "print"))


def knows_it_is_traced(site: Site) -> bool:
    """`if isinstance(x, Tracer)` and the like, around the place or before it: the code asks whether it is traced."""
    tests: list[ast.expr] = []
    for outer in site.file.ancestors(site.syntax):
        if isinstance(outer, ast.If | ast.IfExp):
            tests.append(outer.test)
        elif isinstance(outer, ast.FunctionDef | ast.AsyncFunctionDef):
            tests += [
                part.test
                for part in outer.body
                if isinstance(part, ast.If) and part.lineno < site.call.lineno
            ]
    return any(word in site.text(test) for test in tests for word in ASKS_TRACED)
