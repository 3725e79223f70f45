"""Whose block a device holds after some hops of a ring, where the code counts against the ring's direction.

After `s` hops of pairs `(i, (i + 1) % n)` device r holds what started at r - s. Shared by no other rule.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from shardlint.model.reach import lookup
from shardlint.model.values import Api, options
from shardlint.rules_api.site import Site
from shardlint.syntax import last_name
from shardlint.syntax.nodes import says, walk
from shardlint_rules.shard_map._rings import Ring

_Defined = ast.FunctionDef | ast.Lambda


def against_the_ring(site: Site, ring: Ring) -> Iterator[tuple[ast.expr, str]]:
    """The indices of a block that count the wrong way, each with the name that counts the hops."""
    if not ring.direction:
        return
    functions = [one for one in site.file.ancestors(site.call) if isinstance(one, ast.FunctionDef)]
    if not functions:
        return
    names = _moved_by(site, functions)
    for whole in _where(site, functions, names):
        if _turns_both_ways(whole, site):
            continue
        for turn, counter in _turns(whole):
            if not any(_moves(site, one, names) for one in walk(turn)):
                continue
            for node in walk(turn):
                if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mod):
                    if _sign(site, node.left, counter, turn) == ring.direction:
                        yield node, counter


def _moved_by(site: Site, functions: list[ast.FunctionDef]) -> set[str]:
    """The names that the site's hop is called by: that of a partial or lambda, of a helper which only makes the hop."""
    found: set[str] = set()
    for one in site.file.ancestors(site.call):
        if isinstance(one, ast.Assign) and len(one.targets) == 1 and isinstance(one.targets[0], ast.Name):
            if site.form == "partial" or isinstance(one.value, ast.Lambda):
                found.add(one.targets[0].id)
        if isinstance(one, ast.FunctionDef):
            if not any(isinstance(node, ast.For | ast.While) for node in walk(one)):
                found.add(one.name)
            break
    return found


def _where(site: Site, functions: list[ast.FunctionDef], names: set[str]) -> Iterator[ast.FunctionDef]:
    """The outermost function around the hop, and those of the file that call the helper which makes it."""
    outer = functions[-1]
    yield outer
    if outer.name not in names:
        return
    for mention in site.file.mentions(outer.name):
        around = [one for one in site.file.ancestors(mention) if isinstance(one, ast.FunctionDef)]
        if around and around[-1] is not outer:
            yield around[-1]


def _turns_both_ways(function: ast.FunctionDef, site: Site) -> bool:
    """Whether a function sends both ways: an index may be that of either."""
    pairs = {
        site.text(node) for node in walk(function) if isinstance(node, ast.ListComp) and _is_ring(node)
    }
    return len(pairs) > 1


def _is_ring(node: ast.ListComp) -> bool:
    return isinstance(node.elt, ast.Tuple) and any(
        isinstance(one, ast.BinOp) and isinstance(one.op, ast.Mod) for one in node.elt.elts
    )


def _turns(function: ast.FunctionDef) -> Iterator[tuple[ast.AST, str]]:
    """The bodies that are run once a hop, in rising order, each with the name of the number of the hop."""
    inner = {
        one.name: one for one in walk(function) if isinstance(one, ast.FunctionDef) and one is not function
    }
    for node in walk(function):
        match node:
            case ast.For(target=ast.Name(id=name), iter=ast.Call(func=ast.Name(id="range"), args=args)):
                if len(args) < 3:
                    yield node, name
            case ast.Call(func=ast.Attribute(attr="fori_loop"), args=[_, _, body, *_]):
                yield from _counted(body, inner, 0)
            case ast.Call(func=ast.Attribute(attr="scan"), args=[body, *rest], keywords=keywords):
                given = next((one.value for one in keywords if one.arg == "xs"), None)
                over = given or (rest[1] if len(rest) > 1 else None)
                backwards = any(one.arg == "reverse" for one in keywords)
                if isinstance(over, ast.Call) and last_name(over.func) == "arange" and not backwards:
                    if len(over.args) < 3:
                        yield from _counted(body, inner, 1)


def _counted(
    body: ast.expr, inner: dict[str, ast.FunctionDef], index: int
) -> Iterator[tuple[ast.AST, str]]:
    function: _Defined | None = body if isinstance(body, ast.Lambda) else None
    if isinstance(body, ast.Name):
        function = inner.get(body.id)
    if function is not None and len(function.args.args) > index:
        yield function, function.args.args[index].arg


def _moves(site: Site, node: ast.AST, names: set[str]) -> bool:
    if node is site.call:
        return True
    if isinstance(node, ast.Call):
        # `rotate(k)`, and `tree.map(rotate, (k, v))`
        return any(isinstance(one, ast.Name) and one.id in names for one in (node.func, *node.args))
    return False


def _sign(site: Site, node: ast.expr, counter: str, turn: ast.AST) -> int:
    """The sign of the number of the hop in the sum of a device's own index and it; 0 where it is no such sum."""
    terms = list(_terms(node, 1))
    hops = [sign for sign, term in terms if isinstance(term, ast.Name) and term.id == counter]
    others = [term for _, term in terms if not (isinstance(term, ast.Name) and term.id == counter)]
    if len(hops) != 1 or any(says(one, counter) for one in others):
        return 0
    own = [sign for sign, term in terms if _own_index(site, term)]
    if own != [1]:
        return 0
    # A name that is assigned in the turn may count the hops too.
    for other in others:
        for name in walk(other):
            if isinstance(name, ast.Name) and any(
                isinstance(one, ast.Name) and one.id == name.id and isinstance(one.ctx, ast.Store)
                for one in walk(turn)
            ):
                return 0
    return hops[0]


def _terms(node: ast.expr, sign: int) -> Iterator[tuple[int, ast.expr]]:
    match node:
        case ast.BinOp(op=ast.Add(), left=left, right=right):
            yield from _terms(left, sign)
            yield from _terms(right, sign)
        case ast.BinOp(op=ast.Sub(), left=left, right=right):
            yield from _terms(left, sign)
            yield from _terms(right, -sign)
        case _:
            yield sign, node


def _own_index(site: Site, node: ast.expr) -> bool:
    """Whether a term is the device's own index: `axis_index(axis)`, or a name bound once to it."""
    if isinstance(node, ast.Name):
        bindings, _ = lookup(site.file, node, node.id)
        if len(bindings) != 1 or bindings[0].kind != "assign" or bindings[0].value is None:
            return False
        node = bindings[0].value
    if not isinstance(node, ast.Call):
        return False
    found = options(site.value(node.func))
    return len(found) == 1 and isinstance(found[0], Api) and found[0].name == "jax.lax.axis_index"
