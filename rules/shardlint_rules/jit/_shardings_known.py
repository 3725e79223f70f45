"""What jit made without shardings that the code computes: before, of its shapes, or afterwards. For one rule."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from shardlint.model.values import (
    Api,
    CallResult,
    ClassValue,
    Function,
    Parameter,
    Place,
    Transformed,
    Unknown,
    Value,
    options,
)
from shardlint.rules_api.site import Site
from shardlint.source.patterns import regex
from shardlint.syntax import last_name
from shardlint.syntax.nodes import walk
from shardlint_rules.jit.optimizers import init_by_name, init_of
from shardlint_rules.jit.placed import places
from shardlint_rules.jit.reads import name_of, reads

_NAMES = ("get_sharding", "get_partition_spec", "get_named_sharding")
_READERS = tuple(f"flax.{kind}.{name}" for kind in ("linen", "nnx") for name in _NAMES)
_MAPS = (
    "jax.tree.map",
    "jax.tree_util.tree_map",
    "jax.tree_util.tree_map_with_path",
    "jax.tree.map_with_path",
)
_SHARDINGS = ("jax.sharding.NamedSharding", "jax.sharding.PartitionSpec")
_DEPTH = 4
_MAKING = ("__init__", "__new__", "__post_init__")
_KEY = regex(r"key|rng|seed|prng")
_MAKES = regex(r"init|create|make|new_|fresh")
_OTHER = regex(r"data|batch|repl|rng|input|no_")
_PLACES_INSIDE = ("constrain", "shard", "device_put", "partition")


def shardings_after(site: Site, function: ast.AST, call: ast.Call) -> ast.Call | None:
    """Where the shardings of what a jitted function made are computed from the arrays, if these are placed nowhere.

    None where the function may place them itself, or is given what lies on a mesh.
    """
    target = name_of(site.file, call)
    found: list[ast.Call] = []
    for use in reads(site.file, target) if target is not None else ():
        outer = list(_calls_around(site, use))
        reading = [one for one in outer if _reads_shardings(site, one)]
        found += reading
        if not reading and any(_puts(site, one) or _may_place(one, use) for one in outer):
            return None
    # What costs most is asked last.
    if not found or not _places_nothing(site, function) or any(_lies_on_a_mesh(site, one) for one in _given(call)):
        return None
    return min(found, key=lambda one: one.lineno)


def shardings_before(site: Site, function: ast.AST, call: ast.Call) -> ast.Assign | None:
    """Where the shardings of what a jitted function makes were computed from its shapes, if nothing places it by them.

    The shapes are those of `jax.eval_shape` of the same function, in the same scope. That one may be unknown.
    """
    if not isinstance(function, ast.expr) or not _is_lost(site, function, call):
        return None
    around, text = _function(site, site.syntax), ast.unparse(_called(function))
    for mention in site.file.mentions("eval_shape"):
        shaped = site.file.parent(mention)
        if not isinstance(shaped, ast.Call) or shaped.func is not mention or not shaped.args:
            continue
        if _function(site, shaped) is not around or shaped.lineno > call.lineno:
            continue
        if ast.unparse(_called(shaped.args[0])) == text:
            found = _computed_from(site, shaped, 0)
            if found is not None and found.lineno <= call.lineno:
                return found
    return None


def shardings_named(site: Site, function: ast.AST, call: ast.Call) -> ast.Name | None:
    """A name of the function around that says it is the shardings of what an `init` gives, which nothing places.

    `state = jax.jit(init_state)(key)` beside `state_mesh_shardings`.
    """
    target = name_of(site.file, call)
    if (
        target is None
        or not isinstance(function, ast.expr)
        or not _MAKES.search(ast.unparse(function).lower())
    ):
        return None
    around = _function(site, call)
    if not isinstance(around, ast.FunctionDef) or not _is_lost(site, function, call):
        return None
    named = regex(rf"^_?{target.id}(_\w+)?_shardings?$")
    before = (
        node
        for node in walk(around)
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store) and named.search(node.id)
    )
    return next((node for node in before if node.lineno < call.lineno), None)


def _is_lost(site: Site, function: ast.expr, call: ast.Call) -> bool:
    """Whether what a call makes is placed nowhere: inside, by what it is given, or afterwards."""
    if not _places_nothing(site, function, unknown=True) or _takes_a_sharding(site, function, call):
        return False
    return not _placed(site, call)


def _takes_a_sharding(site: Site, function: ast.expr, call: ast.Call) -> bool:
    """Whether what a function is given lies on a mesh and may lead what it makes there: not so of random keys."""
    place = Place(site.file, function)
    if init_of(site, place) or init_by_name(site, place):
        return False
    return any(
        _lies_on_a_mesh(site, one) and not _KEY.search(ast.unparse(one).lower()) for one in _given(call)
    )


def _called(function: ast.expr) -> ast.expr:
    """The function that a lambda does no more than call."""
    body = function.body if isinstance(function, ast.Lambda) else None
    return body.func if isinstance(body, ast.Call) else function


def _function(site: Site, node: ast.AST) -> ast.AST | None:
    around = (
        one for one in site.file.ancestors(node) if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef)
    )
    return next(around, None)


def _computed_from(site: Site, made: ast.expr, depth: int) -> ast.Assign | None:
    """Where shapes, or what is made of them, become a name that says that it is shardings."""
    statement = next((one for one in site.file.ancestors(made) if isinstance(one, ast.stmt)), None)
    if not isinstance(statement, ast.Assign) or len(statement.targets) > 1 or depth > _DEPTH:
        return None
    names = [one for one in walk(statement.targets[0]) if isinstance(one, ast.Name)]
    if depth or statement.value is not made:
        maker = last_name(statement.value.func) if isinstance(statement.value, ast.Call) else ""
        if any(_says_shardings(one) for one in (*(name.id for name in names), maker)):
            return statement
    for name in names if not depth or len(names) == 1 else ():
        for use in reads(site.file, name, only=False):
            found = _computed_from(site, use, depth + 1)
            if found is not None:
                return found
    return None


def _says_shardings(name: str) -> bool:
    return "shard" in name.lower() and not _OTHER.search(name.lower())


def _placed(site: Site, call: ast.Call) -> bool:
    """Whether what a call makes may be placed: on the spot, by name, or where it is given with shardings."""
    if any(_puts(site, one) for one in _calls_around(site, call)):
        return True
    target = name_of(site.file, call)
    if target is None:
        return True
    for use in reads(site.file, target, only=False):
        around = _calls_around(site, use)
        for one in around:
            if _puts(site, one):
                return True
            if _may_place(one, use) and not _only_holds(site, one) and not places(site, one):
                return True
    return False


def _only_holds(site: Site, call: ast.Call) -> bool:
    """Whether a call makes an object of a dataclass or named tuple of the project, which keeps what it is given."""
    found = options(site.value(call.func))
    return bool(found) and all(
        isinstance(one, ClassValue)
        and not any(isinstance(part, ast.FunctionDef) and part.name in _MAKING for part in one.node.body)
        for one in found
    )


def _puts(site: Site, call: ast.Call) -> bool:
    """Whether a call puts what it is given where it should be: not a step that takes it so, which is later."""
    if not places(site, call):
        return False
    found = options(site.value(call.func))
    steps = (isinstance(one, Transformed) and isinstance(one.inner, Function | Transformed) for one in found)
    if any(isinstance(one, Transformed) and _hands_through(one) for one in found):
        return True
    return not all(steps) and not all(isinstance(one, Transformed) and _is_init(one) for one in found)


def _is_init(value: Transformed) -> bool:
    """Whether what is jitted is the `init` of something: it makes a state of what it is given, and gives another."""
    made = value.call.positional[0].node if value.call is not None and value.call.positional else None
    return isinstance(made, ast.Attribute) and made.attr == "init"


def _hands_through(value: Transformed) -> bool:
    """Whether a jitted function gives back what it is given: `jax.jit(lambda x: x, out_shardings=...)`."""
    node = value.inner.node if isinstance(value.inner, Function) else None
    return isinstance(node, ast.Lambda) and isinstance(node.body, ast.Name)


def _places_nothing(site: Site, function: ast.AST, unknown: bool = False) -> bool:
    """Whether the text of a function says nothing of where its arrays go; `unknown`: or it is out of sight."""
    if isinstance(function, ast.FunctionDef | ast.Lambda):
        return not _speaks_of_places(ast.unparse(function))
    found = options(site.value(function)) if isinstance(function, ast.expr) else ()
    return bool(found) and all(_is_plain(one, unknown) for one in found)


def _is_plain(value: Value, unknown: bool) -> bool:
    while isinstance(value, Transformed) and value.api.name == "functools.partial":
        value = value.inner
    if unknown and isinstance(value, Unknown | Parameter | CallResult):
        return True
    return isinstance(value, Function) and not _speaks_of_places(value.place.text())


def _speaks_of_places(text: str) -> bool:
    return any(word in text for word in _PLACES_INSIDE)


def _given(call: ast.Call) -> Iterator[ast.expr]:
    yield from call.args
    yield from (one.value for one in call.keywords)


def _lies_on_a_mesh(site: Site, node: ast.expr) -> bool:
    return site.shardings.spread(site.program.followed(site.value(node)), auto=False)


def _calls_around(site: Site, node: ast.AST) -> Iterator[ast.Call]:
    for outer in site.file.ancestors(node):
        if isinstance(outer, ast.stmt | ast.Lambda):
            return
        if isinstance(outer, ast.Call):
            yield outer


def _reads_shardings(site: Site, call: ast.Call) -> bool:
    """Whether a call makes shardings of the tree it is given."""
    found = options(site.value(call.func))
    names = {one.name for one in found if isinstance(one, Api)}
    if not names or len(names) < len(found):
        return False
    if names <= set(_READERS):
        return True
    return names <= set(_MAPS) and bool(call.args) and _makes_a_sharding(site, call.args[0])


def _makes_a_sharding(site: Site, function: ast.expr) -> bool:
    return isinstance(function, ast.Lambda) and any(
        isinstance(part, ast.Call)
        and any(isinstance(one, Api) and one.name in _SHARDINGS for one in options(site.value(part.func)))
        for part in walk(function.body)
    )


def _may_place(call: ast.Call, use: ast.AST) -> bool:
    """Whether a function is given the arrays and, by a word, shardings for them."""
    others = [one for one in _given(call) if use not in walk(one)]
    said = [ast.unparse(one).lower() for one in (*others, call.func)]
    return any("shard" in one or "mesh" in one for one in said)
