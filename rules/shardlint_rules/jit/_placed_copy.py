"""Batches that are placed under another name, and go to a jitted function under the first one too. For SL235."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from shardlint.model.evaluator.trees import MAPS
from shardlint.model.mesh.shardings import PLACING
from shardlint.model.reach import lookup
from shardlint.model.values import Api, Function, Place, options
from shardlint.rules_api.site import Site
from shardlint.source.lazy import dataclass
from shardlint.source.patterns import regex
from shardlint.syntax import last_name
from shardlint.syntax.nodes import walk
from shardlint_rules.jit._batch_elsewhere import splits
from shardlint_rules.jit.batch_loops import jitted, roots

_PROCESS_LOCAL = "jax.make_array_from_process_local_data"
_SAYS = regex(r"(?i)put|shard|place|prefetch|global|device|distribut|make_array|constrain")
_DEPTH = 2


@dataclass(frozen=True)
class HostCopy:
    """An argument of a jitted function, the name it is a part of, what that is called once it is placed, and where."""

    argument: ast.expr
    name: str
    placed: str
    line: int


def host_copies(site: Site) -> Iterator[HostCopy]:
    """The arguments of jitted functions behind `batch = shard(host_batch)` that are of `host_batch` still."""
    statement, scope = site.syntax, site.scope.function()
    if not isinstance(statement, ast.Assign) or len(statement.targets) != 1 or scope is None:
        return
    target, call = statement.targets[0], statement.value
    if not isinstance(target, ast.Name) or not isinstance(call, ast.Call):
        return
    before = {one.id: one for one in walk(call) if isinstance(one, ast.Name)}
    names = _placed(site, call) - {target.id}
    names = frozenset(one for one in names if one in before and _comes_unplaced(site, before[one]))
    if not names or not _splits(site, Place(site.file, call), 0):
        return
    taking = [one for one in site.file.walked(scope).calls if one.lineno > statement.lineno]
    either = names | {target.id}
    reading = {_call(site, one, either) for one in taking if _reads(site, one, target.id)}
    if not reading:
        return
    for other in taking:
        if _call(site, other, either) in reading:
            continue  # run with both, to compare them
        given = [*other.args, *(one.value for one in other.keywords)]
        if len(given) < 2 or site.file.home(other).function() is not scope:
            continue
        found = [(one, root) for one in given if (root := _root(one)) is not None and root.id in names]
        if not found or len(found) == len(given) or not jitted(site, other):
            continue
        for argument, root in found:
            if _same(site, root, before[root.id]):
                yield HostCopy(argument, root.id, target.id, statement.lineno)


def _placed(site: Site, call: ast.Call) -> frozenset[str]:
    """The names of what a call puts somewhere: its first argument, of a `tree.map` what it goes over."""
    found = options(site.value(call.func))
    index = 1 if any(isinstance(one, Api) and one.name in (*MAPS, _PROCESS_LOCAL) for one in found) else 0
    given = call.args[index : index + 1]
    return roots(site, given[0]) if given else frozenset()


def _root(node: ast.expr) -> ast.Name | None:
    """The name of which an argument is the whole, or an entry."""
    while isinstance(node, ast.Subscript):
        node = node.value
    return node if isinstance(node, ast.Name) else None


def _reads(site: Site, call: ast.Call, name: str) -> bool:
    """Whether a call is given what has a name, or a part of it."""
    given = (*call.args, *(one.value for one in call.keywords))
    return any((root := _root(one)) is not None and root.id == name for one in given)


def _call(site: Site, call: ast.Call, leaving: frozenset[str]) -> str:
    """A call as it is written, without the arguments that are of these names."""
    given = (*call.args, *(one.value for one in call.keywords))
    others = [site.text(one) for one in given if (root := _root(one)) is None or root.id not in leaving]
    return ", ".join((site.text(call.func), *others))


def _same(site: Site, one: ast.Name, other: ast.Name) -> bool:
    """Whether a name is bound at two places by the same statements."""
    bound = [{id(binding.node) for binding in lookup(site.file, name, name.id)[0]} for name in (one, other)]
    return bound[0] == bound[1]


def _comes_unplaced(site: Site, name: ast.Name) -> bool:
    """Whether a name comes from a loop, a caller or an iterator, and no line before says that it was placed."""
    bindings, scope = lookup(site.file, name, name.id)
    if scope is None or scope.kind == "module" or not bindings:
        return False
    for one in bindings:
        drawn = isinstance(one.value, ast.Call) and last_name(one.value.func) in ("next", "get_batch", "next_batch")
        if one.kind not in ("param", "for") and not drawn:
            return False
        if one.kind != "param" and one.value is not None and _SAYS.search(site.text(one.value)):
            return False
    return True


def _splits(site: Site, call: Place, depth: int) -> bool:
    """Whether a call puts what it is given over a mesh, by a sharding that splits it: itself, or in what it calls."""
    node, file = call.node, call.file
    if not isinstance(node, ast.Call) or depth > _DEPTH:
        return False
    for one in options(site.program.value(file, node.func)):
        if isinstance(one, Api) and one.name in MAPS and node.args:
            function = site.program.value(file, node.args[0])
            return any(isinstance(inner, Function) and _inside(site, inner, depth) for inner in options(function))
        if isinstance(one, Api) and (one.name in PLACING or one.name == _PROCESS_LOCAL):
            named = {word.arg: word.value for word in node.keywords}
            at, word = (0, "sharding") if one.name == _PROCESS_LOCAL else (1, PLACING[one.name])
            where = node.args[at] if len(node.args) > at else named.get(word)
            return where is not None and splits(site, Place(file, where))
        if isinstance(one, Function) and _inside(site, one, depth):
            return True
    return False


def _inside(site: Site, function: Function, depth: int) -> bool:
    """Whether a function places something so."""
    calls = [one for one in walk(function.node) if isinstance(one, ast.Call)]
    return any(_splits(site, Place(function.place.file, one), depth + 1) for one in calls)
