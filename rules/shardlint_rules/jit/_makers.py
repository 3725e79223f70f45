"""Functions of the project that make a jitted function, and are called again and again for it."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import NamedTuple

from shardlint.model.api import JIT_WRAPPERS
from shardlint.model.values import Function, Place, Transformed, Value, options
from shardlint.rules_api.rule import Lines
from shardlint.rules_api.site import Site
from shardlint.syntax.nodes import walk
from shardlint_rules.jit.reads import name_of, reads
from shardlint_rules.jit.repeated import Loop, bound_in, called_in_a_loop, is_test, loop_around, once_only

_NAMES = r"(?:make|build|get|create|compile|jit|new)_\w*|\w+_(?:fn|factory|maker|builder)"
CALLING_MAKERS = Lines(
    # From the beginning of the line: what is looked for need not begin with one of the texts.
    rf"(?:)[^#\n]*\b(?:{_NAMES})\(",
    r"(?:)[^#\n]*\w\([^()\n]*\)\(",
    saying=(
        *("make_", "build_", "get_", "create_", "compile_", "jit_", "new_"),
        *("_fn(", "_factory(", "_maker(", "_builder(", ")("),
    ),
)
_KEEPING = (*JIT_WRAPPERS, "jax.pmap")


class Remade(NamedTuple):
    """A call of a maker that is made again and again, with what it makes and where that is seen."""

    call: ast.Call
    inner: str
    why: str


def remade(site: Site) -> Iterator[Remade]:
    """The calls in a statement that make a jitted function anew each time and call it."""
    for call in walk(site.syntax):
        if not isinstance(call, ast.Call) or is_test(site.file, call):
            continue
        loop = loop_around(site.file, call)
        if loop is None and _at_once(site, call) is None:
            continue
        uses = _uses(site, call)
        if not uses or (loop is not None and not all(loop in site.file.ancestors(one) for one in uses)):
            continue
        why = _again(site, call, loop)
        made = _made(site, call) if why else None
        if made is not None:
            yield Remade(call, made, why)


def _at_once(site: Site, call: ast.Call) -> ast.Call | None:
    """The call of what a call gives, on the spot."""
    parent = site.file.parent(call)
    return parent if isinstance(parent, ast.Call) and parent.func is call else None


def _uses(site: Site, call: ast.Call) -> list[ast.AST]:
    """Where what a call gives is called; nothing where it goes anywhere else."""
    at_once = _at_once(site, call)
    if at_once is not None:
        return [at_once]
    target = name_of(site.file, call)
    if target is None or site.file.home(target).kind != "function":
        return []
    uses: list[ast.AST] = list(reads(site.file, target, only=False))
    called = [site.file.parent(one) for one in uses]
    right = all(
        isinstance(one, ast.Call) and one.func is use and site.file.home(use) is site.file.home(target)
        for one, use in zip(called, uses, strict=True)
    )
    return uses if right else []


def _again(site: Site, call: ast.Call, loop: Loop | None) -> str:
    """Why a call is made again and again for the same; nothing where it is not known to be."""
    if loop is not None:
        if once_only(site.file, call, loop):
            return ""
        given = [*call.args, *(one.value for one in call.keywords)]
        if isinstance(call.func, ast.Attribute):
            given.append(call.func.value)
        read = {one.id for part in given for one in walk(part) if isinstance(one, ast.Name)}
        return "" if read & bound_in(loop, call) else f"it is called in the loop at line {loop.lineno}"
    scope = site.file.home(call).function()
    if scope is None or not isinstance(scope.node, ast.FunctionDef):
        return ""
    if call.args or call.keywords:
        return ""  # what it is given may differ from call to call
    place = called_in_a_loop(site.program, site.file, scope.node)
    if place is None:
        return ""
    where = site.where(place)
    return f"`{scope.name}` is called in a loop at {where}"


def _made(site: Site, call: ast.Call) -> str | None:
    """The name of the jitted function that a maker of the project makes anew in each call."""
    makers = options(site.value(call.func))
    if not makers or not all(isinstance(one, Function) for one in makers):
        return None
    found = options(site.value(call))
    names = [_fresh(one, [maker for maker in makers if isinstance(maker, Function)]) for one in found]
    return names[0] if names and all(names) else None


def _fresh(value: Value, makers: list[Function]) -> str | None:
    """The name of a function that a jit made in one of these functions has."""
    if not isinstance(value, Transformed) or value.api.name not in _KEEPING:
        return None
    inner: Value = value.inner
    while isinstance(inner, Transformed) and inner.api.name in ("functools.partial", "jax.grad", "jax.value_and_grad"):
        if value.call is None:
            return None
        inner = inner.inner
    if not isinstance(inner, Function) or not any(_inside(inner.place, maker) for maker in makers):
        return None
    return "the lambda" if isinstance(inner.node, ast.Lambda) else f"`{inner.node.name}`"


def _inside(place: Place, maker: Function) -> bool:
    return place.file is maker.place.file and any(one is maker.node for one in place.file.ancestors(place.node))
