"""Loops over batches: what a turn of one goes over, what it draws, and whether it places that."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from shardlint.model.api import JIT_WRAPPERS
from shardlint.model.values import Api, CallResult, ClassValue, Function, Transformed, Value, options
from shardlint.rules_api.site import Site
from shardlint.source.lazy import dataclass
from shardlint.source.patterns import regex
from shardlint.syntax import last_name
from shardlint.syntax.nodes import walk

# What says that something places arrays, by its name.
PLACING = (
    "shard",
    "put",
    "place",
    "prefetch",
    "global",
    "device",
    "replicate",
    "constrain",
    "distribute",
    "to_mesh",
)
_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.GeneratorExp)
# What splits arrays inside of a compiled function.
_CONSTRAINTS = ("with_sharding_constraint", "filter_shard", "with_logical_constraint", "reshard", "shard_map")
_SPLITS = regex("|".join((*_CONSTRAINTS, r"shard\w*\(", "constrain")))
# What turns a batch into arrays of this process, bound to no device.
_CONVERTS = ("asarray", "array", "astype", "float32", "int32", "stack", "tree_map", "map")
_DEPTH = 4


@dataclass(frozen=True)
class Loop:
    """A loop: its node, the expression that it goes over, if any, and what runs in each turn."""

    node: ast.AST
    over: ast.expr | None
    names: frozenset[str]
    body: tuple[ast.AST, ...]

    @property
    def line(self) -> int:
        """Where it begins."""
        return getattr(self.node, "lineno", 0)

    def walk(self) -> Iterator[ast.AST]:
        """What runs in each turn."""
        for one in self.body:
            yield from walk(one)


def loop_of(node: ast.AST) -> Loop | None:
    """A node as a loop, if it is one over batches: `for`, a comprehension, or `while` with `next` in it."""
    if isinstance(node, ast.For):
        return Loop(node, node.iter, names_in(node.target) | _drawn(node.body), tuple(node.body))
    if isinstance(node, ast.While):
        drawn = _drawn(node.body)
        return Loop(node, None, drawn, tuple(node.body)) if drawn else None
    if isinstance(node, _COMPREHENSIONS) and len(node.generators) == 1:
        over = node.generators[0]
        return Loop(node, over.iter, names_in(over.target), (node.elt,))
    return None


def names_in(node: ast.AST) -> frozenset[str]:
    """The names in an expression."""
    return frozenset(one.id for one in walk(node) if isinstance(one, ast.Name))


def _drawn(body: Sequence[ast.stmt]) -> frozenset[str]:
    """What `batch = next(iterator)` binds in a loop."""
    found: set[str] = set()
    for one in body:
        if isinstance(one, ast.Assign) and isinstance(one.value, ast.Call):
            if isinstance(one.value.func, ast.Name) and one.value.func.id == "next":
                found.update(*(names_in(target) for target in one.targets))
    return frozenset(found)


def roots(site: Site, node: ast.expr, depth: int = 0) -> frozenset[str]:
    """The names whose arrays an expression holds: of `(x, y["z"])` x and y, of a leaf of a tree the tree."""
    if depth > _DEPTH:
        return frozenset()
    match node:
        case ast.Subscript(value=inner) | ast.Attribute(value=inner) | ast.Starred(value=inner):
            return roots(site, inner, depth + 1)
        case ast.Tuple(elts=parts) | ast.List(elts=parts):
            return frozenset().union(*(roots(site, one, depth + 1) for one in parts))
        case ast.Dict(values=parts):
            return frozenset().union(*(roots(site, one, depth + 1) for one in parts))
        case ast.Call(func=func, args=[first, *_]) if last_name(func) in (
            "asarray",
            "array",
            "items",
            "values",
        ):
            return roots(site, first, depth + 1)
        case ast.Call(func=ast.Attribute(value=inner, attr="items" | "values" | "astype")):
            return roots(site, inner, depth + 1)
        case ast.Name(id=name):
            return _behind(site, node, name, depth)
    return frozenset()


def _behind(site: Site, node: ast.Name, name: str, depth: int) -> frozenset[str]:
    """A name, or what it goes through where it is of a lambda or a comprehension."""
    for outer in site.file.ancestors(node):
        if isinstance(outer, ast.Lambda) and name in {arg.arg for arg in outer.args.args}:
            call = site.file.parent(outer)
            if not isinstance(call, ast.Call) or last_name(call.func) not in ("map", "tree_map"):
                return frozenset()
            given = [one for one in call.args if one is not outer]
            return roots(site, given[0], depth + 1) if given else frozenset()
        if isinstance(outer, ast.DictComp | ast.ListComp | ast.GeneratorExp | ast.SetComp):
            for one in outer.generators:
                if name in names_in(one.target):
                    return roots(site, one.iter, depth + 1)
        if isinstance(outer, ast.stmt):
            break
    return frozenset((name,))


def host_batches(loop: Loop) -> frozenset[str]:
    """The names that hold a loop's batch as it comes, or as this process's arrays (`x = jnp.asarray(x)`)."""
    held, changed = set(loop.names), set[str]()
    for node in loop.walk():
        if not isinstance(node, ast.Assign):
            continue
        targets = frozenset().union(*(names_in(one) for one in node.targets))
        converted = _converts(node.value) and not names_in(node.value).isdisjoint(held)
        drawn = isinstance(node.value, ast.Call) and last_name(node.value.func) == "next"
        if converted:
            held |= targets
        elif not drawn:
            changed |= targets
    return frozenset(held - changed)


def _converts(node: ast.expr) -> bool:
    """Whether an expression only makes arrays of what it is given: `jnp.asarray(x)`, over a dictionary too."""
    match node:
        case ast.DictComp(value=inner):
            return _converts(inner) or isinstance(inner, ast.Name)
        case ast.Tuple(elts=parts):
            return all(_converts(one) or isinstance(one, ast.Name) for one in parts)
        case ast.Call(func=func, args=args) if last_name(func) in ("map", "tree_map") and args:
            first = args[0]
            body = first.body if isinstance(first, ast.Lambda) else first
            return _converts(body) or last_name(body) in ("asarray", "array")
        case ast.Call(func=func):
            return last_name(func) in _CONVERTS and last_name(func) not in ("map", "tree_map")
        case ast.Subscript():
            return True
    return False


def jitted(site: Site, call: ast.Call) -> bool:
    """Whether a call surely runs a jitted function that says nothing of where its arguments are."""
    found = options(site.program.followed(site.value(call.func)))
    return all(
        isinstance(one, Transformed)
        and one.api.name in JIT_WRAPPERS
        and one.call is not None
        and not one.call.open_keywords
        and "in_shardings" not in one.call.keywords
        and not constrains(site, one.inner)
        for one in found
    )


def constrains(site: Site, function: Value) -> bool:
    """Whether a jitted function may constrain what it computes: then its arguments are split with that."""
    met: set[ast.AST] = set()
    return any(_constrains(site, one, met, 0) for one in options(function))


def _constrains(site: Site, function: Value, met: set[ast.AST], depth: int) -> bool:
    while isinstance(function, Transformed):
        function = function.inner
    if not isinstance(function, Function):
        # Of a module or something out of sight: what the program constrains may be in it.
        return not isinstance(function, Api) and _somewhere(site)
    if function.node in met:
        return False
    met.add(function.node)
    file = function.place.file
    if depth > _DEPTH or _SPLITS.search(file.text(function.node)):
        return True
    calls = [one for one in walk(function.node) if isinstance(one, ast.Call)]
    return any(
        _constrains(site, one, met, depth + 1) for call in calls for one in options(site.program.value(file, call.func))
    )


def _somewhere(site: Site) -> bool:
    """Whether anything that runs with a file has a word for constraints, the file itself aside."""
    return any(
        file is not site.file and file.says(word) for file in site.program.together(site.file) for word in _CONSTRAINTS
    ) or sum(site.file.source.text.count(word) for word in _CONSTRAINTS[:3]) > 1


def places(site: Site, loop: Loop) -> bool:
    """Whether a loop, or what it goes over, may place its batches."""
    if loop.over is None:
        said = [site.text(one) for one in loop.body]
        return any(word in text.lower() for text in said for word in PLACING)
    said = [site.text(loop.over)]
    for node in walk(loop.over):
        if isinstance(node, ast.Name):
            scope = site.file.home(node)
            said += [
                site.text(one.value) for one in site.file.bindings(scope, node.id) if one.value is not None
            ]
    callee = loop.over.func if isinstance(loop.over, ast.Call) else loop.over
    for one in options(site.value(callee)):
        if isinstance(one, Function | ClassValue):
            said.append(one.place.file.text(one.place.node))
        elif isinstance(one, CallResult) and isinstance(one.by, ClassValue):
            said.append(one.by.place.file.text(one.by.place.node))
    return any(word in text.lower() for text in said for word in PLACING)
