"""Random keys that every process makes alike, of which its own devices or rows are drawn."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from shardlint.facts.bound_names import settled_expression
from shardlint.facts.project_objects import find_classes, stored_values
from shardlint.model import Program
from shardlint.model.values import Api, Function, Place, options
from shardlint.rules_api.site import Site
from shardlint.source.patterns import compile_lazily
from shardlint.syntax import FileFacts, last_name
from shardlint.syntax.bindings import lookup_bindings, sole_returned_value
from shardlint.syntax.nodes import walk_nodes
from shardlint_rules.processes.passed_values import argument_values
from shardlint_rules.processes.single_process_code import whose_devices_counted

SPLIT = "jax.random.split"
DRAWS = tuple(f"jax.random.{name}" for name in ("normal", "uniform", "randint", "truncated_normal", "bernoulli"))
RESHAPE = "jax.numpy.reshape"
# What tells processes, or the parts that they take, apart.
_TOLD = compile_lazily(
    r"(?i)process|rank|host|shard_(?:id|index|idx|count)|num_shards|worker|addressable|local_|environ|time\.|proc_"
    r"|\bmpi|part_"
)
_MADE = ("jax.random.PRNGKey", "jax.random.key")
_HANDED = ("jax.random.split", "jax.random.fold_in", "jax.random.clone", "jax.random.wrap_key_data")
_STACKS = ("array", "asarray", "stack")
_FIRST = ("unreplicate", "unreplicate_tree", "get_first", "unpmap")
_DEPTH = 16


class _Unknown(Exception):
    """Something on the way may tell processes apart, or is not seen."""


def find_equal_key(site: Site) -> tuple[ast.expr, Place] | None:
    """The key that a site draws for each device of this process with, and where all processes make it alike."""
    if _is_only_first_used(site):
        return None
    for key in _list_keys(site):
        made = find_equal_key_creation(site.program, Place(site.file, key))
        if made is not None:
            return key, made
    return None


def _is_only_first_used(site: Site) -> bool:
    """Return whether only the first device's part of the result for the keys is used, which must be equal on all
    devices.

    Weights are made so: `variables = unreplicate(p_init(keys, data))`.
    """
    statement = site.file.parent(site.call)
    target = statement.targets[0] if isinstance(statement, ast.Assign) and len(statement.targets) == 1 else None
    if isinstance(target, ast.Tuple):
        target = next((one.value for one in target.elts if isinstance(one, ast.Starred)), None)
    if not isinstance(target, ast.Name):
        return False
    reads = [
        one
        for one in site.file.find_mentions(target.id)
        if isinstance(one, ast.Name)
        and isinstance(one.ctx, ast.Load)
        and site.file.evaluation_scope(one) is site.file.evaluation_scope(target)
    ]
    return bool(reads) and all(
        _is_stacking_keys(site.file, one) or _is_first_entry_taken(site.file, one) for one in reads
    )


def _is_stacking_keys(file: FileFacts, read: ast.Name) -> bool:
    """`keys = jnp.asarray(keys)`."""
    call = file.parent(read)
    statement = file.parent(call) if isinstance(call, ast.Call) and last_name(call.func) in _STACKS else None
    if not isinstance(statement, ast.Assign) or len(statement.targets) != 1:
        return False
    target = statement.targets[0]
    return isinstance(target, ast.Name) and target.id == read.id


def _is_first_entry_taken(file: FileFacts, read: ast.Name) -> bool:
    """Return whether a name is an argument of a call of whose result the first entry alone is taken."""
    call = file.parent(read)
    call = file.parent(call) if isinstance(call, ast.keyword) else call
    if not isinstance(call, ast.Call) or call.func is read:
        return False
    outer = file.parent(call)
    if isinstance(outer, ast.Subscript):
        return outer.value is call and isinstance(outer.slice, ast.Constant) and outer.slice.value == 0
    return isinstance(outer, ast.Call) and call in outer.args and last_name(outer.func).lstrip("_") in _FIRST


def find_equal_key_creation(program: Program, place: Place) -> Place | None:
    """Where a key is made that is the same in each process; None where the text does not tell so on all ways."""
    try:
        return _find_key_origin(program, place, set(), 0)
    except _Unknown:
        return None


def _list_keys(site: Site) -> Iterator[ast.expr]:
    """The keys that a site gives, where it makes one part for each device of this process."""
    call = site.call
    if site.api == SPLIT:
        count = next((one.value for one in call.keywords if one.arg == "num"), None)
        count = call.args[1] if count is None and len(call.args) > 1 else count
        if call.args and count is not None and _is_local_device_count(site, count):
            yield call.args[0]
    elif site.api in DRAWS:
        shape = next((one.value for one in call.keywords if one.arg == "shape"), None)
        shape = call.args[1] if shape is None and len(call.args) > 1 else shape
        if call.args and shape is not None and _is_local_device_count(site, shape):
            yield call.args[0]
    elif len(call.args) > 1 and _is_local_device_count(site, call.args[1]) and isinstance(call.args[0], ast.Name):
        for one in lookup_bindings(site.file, call.args[0], call.args[0].id)[0]:
            if isinstance(one.value, ast.Call) and isinstance(one.value.func, ast.Name):
                yield from one.value.args[:1]


def _is_local_device_count(site: Site, node: ast.expr) -> bool:
    """Return whether a number, or the first of a shape, is that of this process' devices."""
    node = settled_expression(site.file, node)
    match node:
        case ast.Name(id=name):
            values = [one.value for one in lookup_bindings(site.file, node, name)[0] if one.kind == "assign"]
            return len(values) > 1 and all(one is not None and _is_local_device_count(site, one) for one in values)
        case ast.BinOp(left=left, op=ast.Add()):
            return _is_local_device_count(site, left)
        case ast.Tuple(elts=[first, *_]) | ast.List(elts=[first, *_]):
            return _is_local_device_count(site, first)
    return whose_devices_counted(site.program, site.file, node) == "own"


def _find_key_origin(program: Program, place: Place, nodes: set[ast.AST], depth: int) -> Place | None:
    node, file = place.node, place.file
    if node in nodes:
        return None
    nodes.add(node)
    if depth > _DEPTH:
        raise _Unknown
    match node:
        case ast.Name():
            return _common_key_origin(program, _bound_places(program, file, node), nodes, depth)
        case ast.Subscript(value=inner, slice=index):
            if not _seems_equal_on_processes(program, file, index, 0):
                raise _Unknown
            return _find_key_origin(program, Place(file, inner), nodes, depth + 1)
        case ast.IfExp(body=one, orelse=other):
            return _common_key_origin(program, [Place(file, one), Place(file, other)], nodes, depth)
        case ast.Attribute(value=ast.Name(id="self")):
            found = [
                Place(cls.place.file, one)
                for cls in find_classes(program, Place(file, node.value))
                if isinstance(cls.place.node, ast.ClassDef)
                for one in stored_values(cls.place.file, cls.place.node, node.attr)
            ]
            return _common_key_origin(program, found, nodes, depth)
        case ast.Call():
            return _key_origin_in_call(program, file, node, nodes, depth)
    raise _Unknown


def _common_key_origin(program: Program, places: list[Place], nodes: set[ast.AST], depth: int) -> Place | None:
    if not places:
        raise _Unknown
    found = [_find_key_origin(program, one, nodes, depth + 1) for one in places]
    return next((one for one in found if one is not None), None)


def _bound_places(program: Program, file: FileFacts, node: ast.Name) -> list[Place]:
    found: list[Place] = []
    for one in lookup_bindings(file, node, node.id)[0]:
        if one.kind == "param":
            places = list(argument_values(program, file, one.scope, one.name))
            if not places:
                raise _Unknown
            found += places
        elif one.kind in ("assign", "walrus", "unpack") and one.value is not None:
            found.append(Place(file, one.value))
        else:
            raise _Unknown
    return found


def _key_origin_in_call(
    program: Program, file: FileFacts, call: ast.Call, nodes: set[ast.AST], depth: int
) -> Place | None:
    found = options(program.value(file, call.func))
    if len(found) != 1 or any(isinstance(one, ast.Starred) for one in call.args):
        raise _Unknown
    arguments = [*call.args, *(one.value for one in call.keywords)]
    if isinstance(found[0], Api) and found[0].name in _MADE and arguments:
        if not _seems_equal_on_processes(program, file, arguments[0], 0):
            raise _Unknown
        return Place(file, call)
    if isinstance(found[0], Api) and found[0].name in _HANDED and call.args:
        if not all(_seems_equal_on_processes(program, file, one, 0) for one in arguments[1:] if found[0].name != SPLIT):
            raise _Unknown
        return _find_key_origin(program, Place(file, call.args[0]), nodes, depth + 1)
    if isinstance(found[0], Function) and isinstance(found[0].node, ast.FunctionDef):
        inside, node = found[0].place.file, found[0].node
        returned = sole_returned_value(inside, node)
        if not _TOLD.search(inside.source_text(node)) and returned is not None:
            return _find_key_origin(program, Place(inside, returned), nodes, depth + 1)
    raise _Unknown


def _seems_equal_on_processes(program: Program, file: FileFacts, node: ast.AST, depth: int) -> bool:
    """Return whether nothing shows that a number differs between processes: it is broadcast, or names no process."""
    if any(isinstance(one, ast.Call) and "broadcast" in last_name(one.func) for one in walk_nodes(node)):
        return True
    if depth > 4 or _TOLD.search(file.source_text(node)) or "axis_index" in file.source_text(node):
        return False
    for name in (one for one in walk_nodes(node) if isinstance(one, ast.Name)):
        for binding in lookup_bindings(file, name, name.id)[0]:
            if binding.kind == "param":
                told = list(argument_values(program, file, binding.scope, binding.name))
                if not all(_seems_equal_on_processes(program, one.file, one.node, depth + 1) for one in told):
                    return False
            elif binding.value is not None and not _seems_equal_on_processes(program, file, binding.value, depth + 1):
                return False
    return True
