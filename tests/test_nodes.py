"""The walk over the nodes of a tree gives what `ast.walk` gives, but for operators and contexts."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import shardlint.model.program
from shardlint.source.text import Source
from shardlint.syntax import read_facts
from shardlint.syntax.nodes import child_nodes, walk_nodes

_EMPTY = ast.expr_context, ast.operator, ast.unaryop, ast.boolop, ast.cmpop
_SYNTAX = '''
async def f(a, /, b: int = 1, *c, d=None, e, **g) -> int:
    global h
    async with a as (b, *x): pass
    async for i in [j async for j in k if not j]: continue
    try: del a[1:2, ...], b.c
    except (A, B) as error: raise C from error
    else: assert a, f"{b!r:>{d}} {{"
    finally: nonlocal_ = {**g, 1: 2, None: {3}}
    match a:
        case {"x": [1, *rest], **others} | C(1, y=None) if b: yield
        case -1 | None | "s" as name: (yield from x)
        case _: return await (lambda p, *q: (z := p) if not q else -p)
@d(1)
class K(Base, metaclass=M):
    x: int
    y += 1 < 2 <= 3 and 4 or 5 @ 6
    while True: break
from . import a as b, c
import d.e as f
'''


def _below(tree: ast.AST) -> list[ast.AST]:
    return [node for node in ast.walk(tree) if not isinstance(node, _EMPTY)]


@pytest.mark.parametrize("text", [_SYNTAX.replace("yield\n", "pass\n"), Path(shardlint.model.program.__file__).read_text()])
def test_all_nodes_in_the_order_of_ast(text: str) -> None:
    tree = ast.parse(text)
    assert list(walk_nodes(tree)) == _below(tree)
    for node in _below(tree):
        assert child_nodes(node) == [one for one in ast.iter_child_nodes(node) if not isinstance(one, _EMPTY)]


def test_type_parameters_are_nodes() -> None:
    try:
        tree = ast.parse("type X[T: int, *Ts, **P] = list[T]\ndef f[T](x: T): ...\n")
    except SyntaxError:
        pytest.skip("a Python without type parameters")
    assert list(walk_nodes(tree)) == _below(tree)


def test_a_look_into_a_function_is_told() -> None:
    facts = read_facts(Source(Path("a.py"), "def f():\n    return 1\n"), Path("a.py"))
    told: list[object] = []
    facts.looked.report_to(told.append)
    assert any(isinstance(node, ast.Return) for node in walk_nodes(facts.tree))
    assert ("part", "a.py", "f") in told
