"""Functions that nothing in a file calls: they run at the end, with arguments of which nothing is known.

What shard_map and pmap map is called somewhere, though not in sight: such a body runs too, with arguments that vary as
its specs say.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from shardlint.layouts.run_state import OutOfWork
from shardlint.layouts.values import (
    ClassValue,
    Frame,
    FunctionValue,
    Instance,
    Method,
    Partial,
    Transformed,
    Unknown,
    Value,
    known_items,
)
from shardlint.model.values import Place
from shardlint.syntax import last_name

if TYPE_CHECKING:
    from shardlint.layouts.run_state import RunState

# How many steps each may take, and how many in a row that tell nothing of layouts.
_WORK = 6_000
_PATIENCE = 1_000
# A function runs where its own text makes something known and places it, or maps something.
_MAKES = re.compile(
    r"zeros|ones|full|arange|normal|uniform|randint|eye|make_mesh|Mesh\(|Axis\(|device_put|jnp\.array|init\("
)
_PLACES = re.compile(
    r"device_put|shard_map|pmap|sharding_constraint|reshard|filter_shard|NamedSharding|set_mesh|psum|pmean|make_mesh"
)
_MAPS = re.compile(r"shard_map|pmap|replicate\(|in_specs|jit\(\s*(?!self\b|cls\b)[a-z_]\w*\.[a-z_]\w*")
_MAPS_OR_COMPILES = re.compile(r"shard_map|pmap|replicate\(|in_specs|jit\b")
# The same in files that name a library: what says all that a contract of it requires.
_SAYS_ALL = {
    "einshard": re.compile(r"""einshard|make_sharding|["'][^"'\n]*->[^"'\n]*["']"""),
    "haliax": re.compile(r"axis_mapping\(|named_jit\(|\bAxis\(|make_axes\("),
}
# A file says one of these if what it compiles may come to a collective.
_COLLECTIVES = tuple("shard_map pmap psum pmean pmax pmin all_gather all_to_all ppermute axis_index".split())
# The objects of these classes are made by their `__init__`, or of their fields.
_PLAIN_BASES = frozenset(("equinox.Module", "typing.NamedTuple", "flax.struct.PyTreeNode"))


def run_uncalled(run: RunState, frame: Frame) -> None:
    """Run what the module mapped, then the functions of a file that place or map arrays, and what they map."""
    objects: dict[ClassValue, Value] = {}
    _run_mapped(run, objects)
    makes = _MAPS_OR_COMPILES if any(map(run.file.contains_text, _COLLECTIVES)) else _MAPS
    pmapped = _names_of_pmapped(frame) if run.file.contains_text("pmap") else None
    more = [pattern for library, pattern in _SAYS_ALL.items() if run.file.contains_text(library)]
    for node, value in list(_function_definitions(run.file.tree, frame)):
        text = "" if node in run.ran else run.file.source_text(node)
        calls = (pmapped is not None and pmapped.search(text)) or any(one.search(text) for one in more)
        if calls or makes.search(text) or (_PLACES.search(text) and _MAKES.search(text)):
            while not isinstance(value, FunctionValue) and value not in run.uncalled:
                value = getattr(value, "function", None)
                if value is None:
                    break
            if isinstance(value, FunctionValue):
                made = _run_alone(run, value, value, (), objects, opened=True)
                for inner in known_items(made) or (made,):  # a function that makes others
                    if isinstance(inner, FunctionValue) and inner.node not in run.ran:
                        _run_alone(run, inner, inner, (), objects, opened=True)
    _run_mapped(run, objects)


def _names_of_pmapped(frame: Frame) -> re.Pattern[str] | None:
    """Return a pattern of the names by which functions call the pmapped functions of the module or of its classes."""
    made = {name for name, value in frame.names.items() if isinstance(value, Transformed) and value.name == "pmap"}
    classes = (value.node for value in frame.names.values() if isinstance(value, ClassValue) and value.frame is frame)
    attributes = {name for node in classes for name in _pmapped_attributes(node)}
    said = [*(rf"\b{name}\(" for name in sorted(made)), *(rf"self\.{name}\(" for name in sorted(attributes))]
    return re.compile("|".join(said)) if said else None


def _pmapped_attributes(node: ast.ClassDef) -> Iterator[str]:
    """The attributes to which a class binds what pmap makes."""
    for one in ast.walk(node):
        match one:
            case ast.Assign(targets=[ast.Attribute(value=ast.Name(id="self"), attr=name)], value=ast.Call(func=maker)):
                if last_name(maker) == "pmap":
                    yield name


def _run_mapped(run: RunState, objects: dict[ClassValue, Value]) -> None:
    while run.uncalled:
        made, _ = run.uncalled.popitem()  # the outermost, which calls those inside of it
        _run_transformed(run, made, objects)


def _function_definitions(tree: ast.Module, frame: Frame) -> Iterator[tuple[ast.FunctionDef, Value]]:
    for statement in tree.body:
        if isinstance(statement, ast.FunctionDef):
            yield statement, frame.names.get(statement.name)
        elif isinstance(statement, ast.ClassDef):
            owner = frame.names.get(statement.name)
            for inner in statement.body:
                if isinstance(inner, ast.FunctionDef) and isinstance(owner, ClassValue):
                    yield inner, owner.names.get(inner.name)


def _run_transformed(run: RunState, transformed: Transformed, objects: dict[ClassValue, Value]) -> None:
    function, given, takes = transformed.function, 0, transformed.takes
    while function is not None and not isinstance(function, FunctionValue):
        takes = getattr(function, "takes", None) if takes is None else takes
        given += len(function.args) if isinstance(function, Partial) else isinstance(function, Method)
        function = getattr(function, "function", None)
    files = [run.file, *([function.frame.file] if function is not None else [])]
    if transformed.name == "jit" and not any(file.contains_text(name) for file in files for name in _COLLECTIVES):
        return
    names = function.positional_parameters if function is not None else []
    optional = len(function.node.args.defaults) if function is not None else 0
    count = len(names) - optional - given if takes is None else takes
    args: list[Value] = [Unknown(f"the parameter `{name}`") for name in names[given : given + max(count, 0)]]
    args += [Unknown("an argument")] * (count - len(args))
    hidden = function is None and takes is None
    _run_alone(run, transformed, function, tuple(args), objects, bound=given > 0, opened=hidden)


def _run_alone(
    run: RunState,
    value: Value,
    function: FunctionValue | None,
    args: tuple[Value, ...],
    objects: dict[ClassValue, Value],
    bound: bool = False,
    opened: bool = False,
) -> Value:
    """Return the result of a call of a function, or of its transformed form, with an unknown context."""
    if run.readers is not None and (function is None or function.node not in run.readers):
        return None
    run.mesh, run.mesh_known, run.axes, run.legacy, run.contexts = None, False, {}, None, {}
    rest = run.work - _WORK
    run.allow_work(min(run.work, _WORK), without_layout=_PATIENCE)
    run.binder = "jax.jit" if isinstance(value, Transformed) and value.name == "jit" else ""
    run.root = Place(function.frame.file, function.node) if function is not None else None
    place = getattr(value, "place", None) or run.root or Place(run.file, run.file.tree)
    found: Value = None
    try:
        if (
            function is not None
            and function.owner is not None
            and not bound
            and function.positional_parameters[:1] == ["self"]
        ):
            args = (_object_of(run, function.owner, place, objects), *args[1:])
        found = run.call_value(value, args, {}, place, opened)
    except OutOfWork:
        run.forget_position()
    run.binder, run.root, run.assumed = "", None, False
    run.work += max(rest, 0)
    return found


def _object_of(run: RunState, owner: ClassValue, place: Place, objects: dict[ClassValue, Value]) -> Value:
    """An object of a class, of which nothing is known but what its `__init__` says and no method changes."""
    bases = [base for one in owner.ancestor_classes for base in one.bases]
    if not all(isinstance(one, ClassValue) or getattr(one, "name", "") in _PLAIN_BASES for one in bases):
        return Unknown("the parameter `self`")
    if owner not in objects:
        objects[owner] = Unknown("an object that is being made")
        made = run.call_value(owner, (), {}, place, opened=True)
        if isinstance(made, Instance):
            for name in _changed_attributes(owner).intersection(made.attributes):
                made.attributes[name] = Unknown("a method changes it")
        objects[owner] = made
    return objects[owner]


def _changed_attributes(owner: ClassValue) -> set[str]:
    """The attributes that methods other than `__init__` write."""
    methods = (
        one
        for each in owner.ancestor_classes
        for one in each.node.body
        if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef) and one.name != "__init__"
    )
    return {
        node.attr
        for method in methods
        for node in ast.walk(method)
        if isinstance(node, ast.Attribute) and not isinstance(node.ctx, ast.Load)
    }
