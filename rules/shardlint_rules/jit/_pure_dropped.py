"""Statements that only make new arrays: a tree map of what only computes, `x.at[i].set(y)`. Part of SL203."""

from __future__ import annotations

import ast

from shardlint.model.api import JIT_WRAPPERS
from shardlint.model.evaluator.trees import MAPS
from shardlint.model.lifetime.effects import only_returns
from shardlint.model.mesh.shardings import PLACING
from shardlint.model.reach import lookup
from shardlint.model.values import Api, Function, Place, Transformed, Value, options
from shardlint.rules_api.rule import Lines
from shardlint.rules_api.site import Site
from shardlint.syntax import FileFacts, last_name
from shardlint.syntax.nodes import walk
from shardlint_rules.jit._dropped import COUNTS, MAKING

_UPDATES = ("set", "add", "subtract", "multiply", "mul", "divide", "power", "min", "max", "apply")
UPDATES = Lines(
    rf"[\w.\[\]\"']+\.at\[[^#\n]*\]\.(?:{'|'.join(_UPDATES)})\(", file_says=r"jax|jnp", saying=(".at[",)
)
"""Statements that begin with an update of an array."""
MAPPED = Lines(
    r"(?:\w+\.)*(?:tree_map|tree\.map)\(", file_says=r"jax", saying=("tree_map(", "tree.map(")
)
"""Statements that begin with a map over trees."""
# Methods of arrays that only give another one: `block_until_ready` waits, `item` may be called to wait.
_METHODS = frozenset(
    "reshape astype transpose squeeze ravel flatten swapaxes sum mean max min std var copy repeat view dot clip round"
    " numpy _numpy".split()
)
_OF_A_PLACE = ("get", "set", "add")
_PURE = ("jax.numpy.", "jax.lax.", "jax.nn.", "jax.random.")
_PLACING_NAMES = ("device_put", "with_sharding_constraint", "with_logical_constraint")
_BUILTIN = frozenset(
    "len int float bool str tuple list dict set max min range sum abs zip sorted slice type getattr hasattr isinstance"
    .split()
)
# Of numpy what only computes: a conversion by itself (`np.asarray`) may be called to wait.
_NUMPY = frozenset(
    "concatenate stack vstack hstack tile repeat pad reshape transpose expand_dims squeeze swapaxes moveaxis zeros ones"
    " zeros_like ones_like full full_like arange broadcast_to where clip mean sum prod".split()
)
_DEPTH = 3


def update_dropped(site: Site) -> ast.Call | None:
    """`x.at[i].set(y)` as a statement of its own; not of a reference in a kernel, which it changes."""
    call = site.syntax.value if isinstance(site.syntax, ast.Expr) else None
    if (
        not isinstance(call, ast.Call)
        or not isinstance(call.func, ast.Attribute)
        or call.func.attr not in _UPDATES
    ):
        return None
    at = call.func.value
    array = at.value.value if isinstance(at, ast.Subscript) and isinstance(at.value, ast.Attribute) else None
    if array is None or not isinstance(array, ast.Name | ast.Attribute | ast.Subscript):
        return None
    named = last_name(array) or site.text(array)
    if "ref" in named.lower() or (site.anywhere("pallas") and not _made_here(site, array)):
        return None
    return call


def _made_here(site: Site, array: ast.expr) -> bool:
    """Whether the function binds a name to what an array function or method makes: that is no reference."""
    if not isinstance(array, ast.Name):
        return False
    bindings, owner = lookup(site.file, array, array.id)
    made = [one.value for one in bindings if one.kind == "assign" and isinstance(one.value, ast.Call)]
    return owner is site.scope and any(_computes(site, Place(site.file, one), 0) for one in made)


def library_dropped(site: Site) -> str | None:
    """The library function that a statement calls for an array in another place, and nothing else.

    Of flax its logical constraints; of libraries that are not known what is called as the functions of jax are.
    """
    if not isinstance(site.file.parent(site.call), ast.Expr) or len(site.call.args) < 2:
        return None
    found = options(site.value(site.call.func))
    names = {one.name for one in found if isinstance(one, Api)}
    if len(names) != 1 or len(found) > 1:
        return None
    name = names.pop()
    return name if name.rpartition(".")[2] in _PLACING_NAMES and not name.startswith("jax.") else None


def map_dropped(site: Site, call: ast.Call) -> bool:
    """Whether a statement is a tree map of a function that only computes, so that it does nothing."""
    if not isinstance(site.file.parent(call), ast.Expr) or len(call.args) < 2:
        return False
    if any(keyword.arg != "is_leaf" for keyword in call.keywords):
        return False
    function = call.args[0]
    if len(call.args) > 2 and isinstance(function, ast.Lambda) and not isinstance(function.body, ast.Call):
        return False  # the trees may be compared by it
    found = options(site.value(function))
    return bool(found) and all(_only_gives(site, one, 0) for one in found)


def mapped_line(site: Site) -> ast.Call | None:
    """The statement that is a map over trees."""
    call = site.syntax.value if isinstance(site.syntax, ast.Expr) else None
    if not isinstance(call, ast.Call):
        return None
    found = options(site.value(call.func))
    return call if found and all(isinstance(one, Api) and one.name in MAPS for one in found) else None


def _is_pure(name: str) -> bool:
    module, _, last = name.rpartition(".")
    return (
        name in (*MAKING, *PLACING, *COUNTS)
        or (module == "builtins" and last in _BUILTIN)
        or (name.startswith(_PURE) and not name.startswith("jax.lax.p"))
    )


def _only_gives(site: Site, value: Value, depth: int) -> bool:
    """Whether all that a function does is to give what it computes: it checks, says, writes and waits for nothing."""
    while isinstance(value, Transformed) and value.api.name in (*JIT_WRAPPERS, "functools.partial"):
        value = value.inner
    if isinstance(value, Api):
        return _is_pure(value.name)
    if not isinstance(value, Function) or depth > _DEPTH:
        return False
    node, file = value.node, value.place.file
    if isinstance(node, ast.Lambda):
        computes = isinstance(node.body, ast.Call | ast.BinOp | ast.Subscript | ast.IfExp)
        return computes and _only_computes(site, file, node.body, depth)
    if not isinstance(node, ast.FunctionDef) or node.decorator_list or not only_returns(value):
        return False
    given = [one.value for one in file.walked(file.scope(node)).returns]
    if not any(one is not None and not isinstance(one, ast.Constant) for one in given):
        return False
    if any(isinstance(one, ast.Expr) and isinstance(one.value, ast.Call) for one in node.body):
        return False
    return all(_only_computes(site, file, one, depth) for one in node.body)


def _only_computes(site: Site, file: FileFacts, body: ast.AST, depth: int) -> bool:
    parts = list(walk(body))
    if any(
        isinstance(one, ast.NamedExpr | ast.Await | ast.Yield | ast.YieldFrom | ast.Raise | ast.Assert) for one in parts
    ):
        return False
    return all(_computes(site, Place(file, one), depth) for one in parts if isinstance(one, ast.Call))


def _computes(site: Site, place: Place, depth: int) -> bool:
    call = place.node
    assert isinstance(call, ast.Call)
    found = options(site.program.value(place.file, call.func))
    if found and all(isinstance(one, Api) for one in found):
        return all(isinstance(one, Api) and (_is_pure(one.name) or _numpy(one.name)) for one in found)
    if found and all(isinstance(one, Function) for one in found):
        return all(_only_gives(site, one, depth + 1) for one in found)
    if isinstance(call.func, ast.Name):
        return call.func.id in _BUILTIN
    if not isinstance(call.func, ast.Attribute):
        return False
    if call.func.attr in _OF_A_PLACE:  # a set or a dict has methods that are called so
        at = call.func.value
        return isinstance(at, ast.Subscript) and isinstance(at.value, ast.Attribute) and at.value.attr == "at"
    return call.func.attr in _METHODS


def _numpy(name: str) -> bool:
    return name.startswith("numpy.") and name.removeprefix("numpy.") in _NUMPY
