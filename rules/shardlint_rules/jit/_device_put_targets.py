"""Where `device_put` is asked to put something: in a call, through a `tree.map`, by what callers give. For SL201."""

from __future__ import annotations

import ast

from shardlint.facts.origins import values_on_paths
from shardlint.facts.shardings import SHARDINGS, literal_leaves
from shardlint.model.evaluator.annotations import annotated_classes
from shardlint.model.evaluator.mutations import is_changed
from shardlint.model.traced import Region
from shardlint.model.values import (
    Api,
    Assumed,
    CallArguments,
    CallResult,
    ClassValue,
    Constant,
    Parameter,
    Place,
    Table,
    Transformed,
    Unknown,
    Value,
    options,
)
from shardlint.rules_api.site import Site
from shardlint.source.lazy import dataclass
from shardlint.syntax import FileFacts
from shardlint.syntax.bindings import lookup_bindings, replaces_none, sole_assigned_value
from shardlint.syntax.nodes import walk_nodes
from shardlint.syntax.path_tests import is_not_none
from shardlint_rules.jit._mapped_trees import TREE_MAP, tree_of_lambda_parameter

PUT = "jax.device_put"
MAPS = (TREE_MAP, "builtins.map")
_NUMBERS = ("int", "float", "complex", "bool", "np.ndarray", "numpy.ndarray")
_DEPTH = 4  # so many objects within objects are looked into, and functions around one


@dataclass(frozen=True)
class Placement:
    """The name of device_put as it is written, where it puts things, and what, in words."""

    function: ast.expr
    target: ast.expr
    what: str


def find_placement(site: Site) -> Placement | None:
    """Return the placement by the site's call; None if it places nothing."""
    if site.api == PUT:
        target = site.argument("device")
        if target is None and site.form == "call":
            target = _target_of_bound_put(site, site.call.func) or _unpacked_target(site)
        if target is None:
            return None
        if site.form == "call":
            what = site.text(site.call.args[0]) if site.call.args else "the value"
            return Placement(site.call.func, target, what)
        mapping = _tree_map_around_partial(site)
        what = site.text(mapping.args[1]) if mapping is not None and len(mapping.args) > 1 else "the value"
        return Placement(site.call.args[0], target, what) if mapping is not None else None
    if site.form != "call" or not site.call.args:
        return None
    bound = _target_of_bound_map(site)
    if bound is not None or len(site.call.args) < 2:
        return Placement(site.call.func, bound, site.text(site.call.args[0])) if bound is not None else None
    function = site.call.args[0]
    what = site.text(site.call.args[1])
    if (
        isinstance(function, ast.Name | ast.Attribute)
        and (target := _target_of_bound_put(site, function)) is not None
    ):
        return Placement(function, target, what)
    if not all(isinstance(one, Api) and one.name == PUT for one in options(site.value(function))):
        return None
    return Placement(function, site.call.args[2], what) if len(site.call.args) > 2 else None


def _unpacked_target(site: Site) -> ast.expr | None:
    """Where `device_put(x, *args)` and `device_put(x, **options)` put it, of a tuple or dict that nothing changes."""
    match site.call:
        case ast.Call(args=[_, ast.Starred(value=opened)], keywords=[]):
            held = sole_assigned_value(site.file, opened) if isinstance(opened, ast.Name) else opened
            one = isinstance(held, ast.Tuple | ast.List) and len(held.elts) == 1
            return held.elts[0] if isinstance(held, ast.Tuple | ast.List) and one else None
        case ast.Call(args=[_], keywords=[ast.keyword(arg=None, value=opened)]):
            held = sole_assigned_value(site.file, opened) if isinstance(opened, ast.Name) else opened
            keys = held.keys if isinstance(held, ast.Dict) else []
            named = [isinstance(key, ast.Constant) and key.value == "device" for key in keys]
            changed = isinstance(opened, ast.Name) and any(
                is_changed(site.program.evaluator, site.file, one) for one in site.file.find_mentions(opened.id)
            )
            return held.values[0] if isinstance(held, ast.Dict) and named == [True] and not changed else None
    return None


def _target_of_bound_map(site: Site) -> ast.expr | None:
    """Where `place = partial(tree.map, partial(jax.device_put, device=sharding))` puts the tree that it is given."""
    match site.value(site.call.func):
        case Transformed(api=Api(name="functools.partial"), inner=Api(name=name), call=CallArguments() as bound):
            if name in MAPS and len(bound.positional) == 2 and len(site.call.args) == 1 and not bound.keywords:
                return _target_of_partial(site, site.program.evaluator.value(bound.positional[1], bound.environment))
    return None


def _target_of_bound_put(site: Site, function: ast.expr) -> ast.expr | None:
    """Where `put = partial(jax.device_put, device=sharding)` puts what it is given."""
    return _target_of_partial(site, site.value(function))


def _target_of_partial(site: Site, function: Value) -> ast.expr | None:
    """The target of a partial of device_put, as this file writes it."""
    match function:
        case Transformed(
            api=Api(name="functools.partial"), inner=Api(name=inner), call=CallArguments() as bound
        ):
            place = bound.keywords.get("device") if inner == PUT and len(bound.positional) == 1 else None
            here = place is not None and place.file is site.file
            return place.node if place is not None and here and isinstance(place.node, ast.expr) else None
    return None


def is_bound_by_partial(site: Site, target: ast.expr) -> bool:
    """Return whether the target was given to a `functools.partial`, and not in the site's call."""
    return not any(part is target for part in walk_nodes(site.call))


def says_the_same(site: Site, target: ast.expr) -> bool:
    """Return whether an expression of the file has the same value at the site's call as at its own place."""
    if not any(part is target for part in walk_nodes(site.file.tree)):
        return False
    match target:
        case ast.Attribute(value=ast.Name(id="self"), attr=attr):
            owners = [next((one for one in site.file.ancestors(node) if isinstance(one, ast.ClassDef)), None)
                      for node in (target, site.call)]  # fmt: skip
            named = [one for one in site.file.find_mentions(attr) if isinstance(one, ast.Attribute)]
            stores = [one for one in named if isinstance(one.ctx, ast.Store)]
            return owners[0] is not None and owners[0] is owners[1] and len(stores) == 1
    for part in walk_nodes(target):
        if isinstance(part, ast.Name):
            there, here = (lookup_bindings(site.file, node, part.id) for node in (part, site.call))
            if there[1] is not here[1] or [one.node for one in there[0]] != [one.node for one in here[0]]:
                return False
    return True


def _tree_map_around_partial(site: Site) -> ast.Call | None:
    """The `tree.map` or `map` that calls a `functools.partial`."""
    call = site.file.parent(site.call)
    if not isinstance(call, ast.Call) or not call.args or call.args[0] is not site.call:
        return None
    maps = all(isinstance(one, Api) and one.name in MAPS for one in options(site.value(call.func)))
    return call if maps else None


def possible_shardings(site: Site, target: ast.expr) -> list[Value]:
    """Return the possible values of a target: the leaves of a tree, and for a parameter the arguments of the visible
    calls.
    """
    given = tree_of_lambda_parameter(site, target)
    named = sole_assigned_value(site.file, target) if isinstance(target, ast.Name) else None
    if isinstance(named, ast.Attribute) and isinstance(site.value(target), Unknown | Assumed):
        return _values_without_none(site, target, possible_shardings(site, named))
    if given is None and isinstance(target, ast.Tuple | ast.List):
        return [one for part in target.elts for one in possible_shardings(site, part)]
    value = site.program.evaluator.trees.expand_tree_map(site.value(given if given is not None else target))
    # What is assumed is the default of a field, in place of which objects may be given another.
    held = (
        []
        if not isinstance(value, Unknown | Assumed)
        else _values_of_field(site, target) or _values_under_keys(site, target)
    )
    found = [
        one
        for option in held or options(value)
        for way in _possible_values(site, option)
        for one in literal_leaves(way)
    ]
    return _values_without_none(
        site, target, [part for one in found for part in _shardings_held_by_object(site, one)]
    )


def _values_without_none(site: Site, target: ast.expr, values: list[Value]) -> list[Value]:
    """Return the possible values of a target, without a None that a test on the path, or its definition, rules out."""
    if Constant(None) not in values or not _is_never_none(site, target, _DEPTH):
        return values
    return [one for one in values if one != Constant(None)]


def _is_never_none(site: Site, node: ast.expr, depth: int) -> bool:
    """Return whether an expression is a sharding in all calls: `where or rows`, a name that is bound to it."""
    if is_not_none(site.file, node):
        return True
    if all(isinstance(one, CallResult) and one.api in SHARDINGS for one in options(site.value(node))):
        return True
    parts = _possible_expressions(site, node) if depth else []
    return bool(parts) and all(part is not None and _is_never_none(site, part, depth - 1) for part in parts)


def _possible_expressions(site: Site, node: ast.expr) -> list[ast.expr | None]:
    """Expressions one of which an expression gives, if it may be None; None stands for one that is not seen."""
    match node:
        case ast.BoolOp(op=ast.Or(), values=[*_, last]):
            return [last]
        case ast.IfExp(body=one, orelse=two):
            return [one, two]
        case ast.Name(id=name):
            bindings = lookup_bindings(site.file, node, name)[0]
            replaced = any(replaces_none(site.file, one) for one in bindings)
            left = [one for one in bindings if one.kind != "param" or not replaced]
            return [one.value if one.kind == "assign" else None for one in left]
        case ast.Attribute(value=ast.Name(id="self"), attr=name):
            stores = [one for one in site.file.find_mentions(name) if isinstance(getattr(one, "ctx", None), ast.Store)]
            return [getattr(site.file.parent(one), "value", None) for one in stores]
    return []


def source_of_none(site: Site, target: ast.expr) -> Place:
    """Where a target that may be None gets it: the assignment or field that gives it, else where it is read."""
    if isinstance(target, ast.Name):
        for binding in lookup_bindings(site.file, target, target.id)[0]:
            given = site.program.evaluator.evaluate_binding(site.file, binding)
            if Constant(None) in options(given):
                return Place(site.file, binding.node)
        if isinstance(named := sole_assigned_value(site.file, target), ast.Attribute):
            return source_of_none(site, named)
    if isinstance(target, ast.Attribute):
        around = next((one for one in site.file.ancestors(target) if isinstance(one, ast.ClassDef)), None)
        for one in walk_nodes(around) if around is not None else ():
            match one:
                case ast.AnnAssign(target=ast.Name(id=name)) | ast.Attribute(attr=name, ctx=ast.Store()):
                    if name == target.attr:
                        return Place(site.file, one)
    return Place(site.file, target)


def _shardings_held_by_object(site: Site, value: Value, depth: int = _DEPTH) -> list[Value]:
    """Return the shardings in an object of a class of the project that is made with a tree of them."""
    if (
        not isinstance(value, CallResult)
        or not isinstance(value.by, ClassValue)
        or value.call is None
        or not depth
    ):
        return [value]
    evaluator, call = site.program.evaluator, value.call
    if any(one.place.file.bindings(one.place.file.scope(one.node), name)
           for one in evaluator.project_ancestors(value.by) for name in ("__init__", "__new__")):  # fmt: skip
        return [value]
    given = [
        evaluator.value(place, call.environment) for place in (*call.positional, *call.keywords.values())
    ]
    parts = [part for one in given for leaf in literal_leaves(one) if not isinstance(leaf, Constant)
             for part in _shardings_held_by_object(site, leaf, depth - 1)]  # fmt: skip
    return parts if parts and not call.open_positional and not call.open_keywords else [value]


def _values_under_keys(site: Site, target: ast.expr) -> list[Value]:
    """Return the callers' values of `shardings["x"]`, of a parameter; empty if a caller passes anything else."""
    keys: list[object] = []
    while isinstance(target, ast.Subscript) and isinstance(target.slice, ast.Constant):
        keys.insert(0, target.slice.value)
        target = target.value
    if not keys or not isinstance(target, ast.Name):
        return []
    expanded = site.program.evaluator.trees.expand_tree_map
    found = [
        option for one in values_on_paths(site.program, site.value(target)) for option in options(expanded(one))
    ]
    for key in keys:
        held = [one.value_under(key) if isinstance(one, Table) else None for one in found]
        if None in held:
            return []
        found = [option for one in held if one is not None for option in options(expanded(one))]
    return found


def _values_of_field(site: Site, target: ast.expr) -> list[Value]:
    """Return the values of a field of the class around (`self.rows`) where objects are made; empty if not all are
    visible.
    """
    match target:
        case ast.Attribute(value=ast.Name(id="self"), attr=name):
            node = next((one for one in site.file.ancestors(target) if isinstance(one, ast.ClassDef)), None)
        case _:
            return []
    if node is None:
        return []
    objects, cls = site.program.evaluator.classes.objects, ClassValue(Place(site.file, node))
    if name not in objects.list_fields(cls) or objects.find_init(cls) is not None:
        return []
    ends = site.program.flow.find_class_calls(site.file, node)
    made = [one for end in ends.found if end.kind == "called"
            for one in options(site.program.evaluator.value(end.place))]  # fmt: skip
    lost = [end for end in ends.found if end.kind == "escaped" and not _is_dataclass(site, end.place)]
    if ends.cut or lost or any(not isinstance(one, CallResult) or one.by != cls for one in made):
        return []
    return [option for one in made if isinstance(one, CallResult)
            for option in options(objects.evaluate_field(cls, one, name))]  # fmt: skip


def _is_dataclass(site: Site, place: Place) -> bool:
    """Return whether a class decorator makes a dataclass, and creates no objects."""
    found = options(site.program.evaluator.value(place))
    made = [one.by if isinstance(one, CallResult) else one for one in found]
    return all(isinstance(one, Api) and one.name.rpartition(".")[2] == "dataclass" for one in made)


def _possible_values(site: Site, value: Value) -> list[Value]:
    """Return the values of an expression on each visible path, also through a class: `self.rows = rows` in
    `__init__`.
    """
    made = isinstance(value, Parameter) and getattr(value.place.scope.node, "name", "") == "__init__"
    given = site.program.callers.visible_argument_values(value) if isinstance(value, Parameter) and made else (value,)
    return [way for one in given for way in values_on_paths(site.program, one)]


def annotated_sharding_class(site: Site, target: ast.expr) -> str:
    """The class of shardings that a parameter, or a field of the class around, is annotated with; else empty."""
    annotation = None
    if isinstance(target, ast.Name):
        bindings, _ = lookup_bindings(site.file, target, target.id)
        if [one.kind for one in bindings] == ["param"]:
            annotation = bindings[0].annotation
    elif (
        isinstance(target, ast.Attribute) and isinstance(target.value, ast.Name) and target.value.id == "self"
    ):
        around = next((one for one in site.file.ancestors(target) if isinstance(one, ast.ClassDef)), None)
        for one in around.body if around is not None else ():
            if isinstance(one, ast.AnnAssign) and getattr(one.target, "id", "") == target.attr:
                annotation = one.annotation
    if annotation is None:
        return ""
    named = annotated_classes(site.program.evaluator, Place(site.file, annotation))
    found = [one.name if isinstance(one, Api) else "" for one in named]
    return (
        found[0].rpartition(".")[2] if found and set(found) <= {*SHARDINGS, "jax.sharding.Sharding"} else ""
    )


def reason_called_eagerly(site: Site) -> str:
    """Why a call in a function that is not always traced is left; empty where all that calls it is traced."""
    eager = _find_eager_call(site, site.file, site.region, _DEPTH)
    if eager is None:
        return ""
    return f"{site.where(eager)} calls the function outside jit, where device_put works"


def _find_eager_call(site: Site, file: FileFacts, region: Region, depth: int) -> Place | None:
    """A call outside traced code that comes to a region, itself or through functions that are traced sometimes."""
    if region.traced != "sometimes" or region.scope is None or not depth:
        return None
    ends = site.program.flow.ends(file, region.scope.node)
    if ends.may_have_unseen_calls:
        return None
    for end in ends.found:
        if end.kind == "called" and not end.is_staged:
            around = site.program.region(end.place.file, end.place.node)
            if around.traced in ("never", "unknown"):
                return end.place
            if (outer := _find_eager_call(site, end.place.file, around, depth - 1)) is not None:
                return outer
    return None


def shard_map_around(site: Site, region: Region) -> Place | None:
    """The `shard_map` in whose body a region is; None where it is in none."""
    return next((step.place for step in region.reasons_inside_out if "shard_map" in step.text), None)


def may_hold_numbers(site: Site, node: ast.expr) -> bool:
    """Return whether the placed value is, or holds, Python numbers or arrays of numpy, which filter_shard leaves
    unchanged.
    """
    match node:
        case ast.Dict(values=parts) | ast.Tuple(elts=parts) | ast.List(elts=parts):
            return any(may_hold_numbers(site, part) for part in parts)
        case ast.BinOp(left=one, right=two):
            return may_hold_numbers(site, one) and may_hold_numbers(site, two)
        case ast.UnaryOp(operand=one):
            return may_hold_numbers(site, one)
        case ast.IfExp(body=one, orelse=two):
            return may_hold_numbers(site, one) or may_hold_numbers(site, two)
        case ast.Attribute(attr="ndim" | "size") | ast.Subscript(value=ast.Attribute(attr="shape")):
            return True
        case ast.Name(id=name):
            for binding in lookup_bindings(site.file, node, name)[0]:
                default = binding.value if binding.kind == "param" else None
                if isinstance(default, ast.Constant) and default.value is not None:
                    return True
                if binding.annotation is not None and site.file.source_text(binding.annotation) in _NUMBERS:
                    return True
    found = [leaf for option in options(site.value(node)) for leaf in literal_leaves(option)]
    return any(_is_number(one) for one in found)


def _is_number(value: Value) -> bool:
    if isinstance(value, Constant):
        return isinstance(value.value, int | float | complex)
    return isinstance(value, CallResult) and (value.api or "").startswith(("numpy.", "math.", "builtins."))
