"""Names that are bound to a value: what stands for a name, and where its binding is read."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from shardlint.syntax import FileFacts
from shardlint.syntax.bindings import lookup_bindings, sole_assigned_value

_NAMES = 4  # how many names in a row stand for each other


def sole_name_of(file: FileFacts, node: ast.AST) -> ast.Name | None:
    """The one name an expression is bound to, by an assignment to nothing else."""
    parent = file.parent(node)
    if (
        isinstance(parent, ast.Assign)
        and len(parent.targets) == 1
        and isinstance(parent.targets[0], ast.Name)
    ):
        return parent.targets[0]
    return None


def reads_of_binding(file: FileFacts, target: ast.Name, only: bool = True) -> Iterator[ast.Name]:
    """The reads that this binding of a name reaches; with `only`, and no other binding."""
    for use, alone in find_binding_reads(file, target):
        if alone or not only:
            yield use


def calls_of_made_function(file: FileFacts, maker: ast.Call) -> Iterator[ast.Call]:
    """The calls, in this file, of the function that a call makes: on the spot, or of its name."""
    parent = file.parent(maker)
    if isinstance(parent, ast.Call) and parent.func is maker:
        yield parent
    target = sole_name_of(file, maker)
    for use in reads_of_binding(file, target) if target is not None else ():
        call = file.parent(use)
        if isinstance(call, ast.Call) and call.func is use:
            yield call


def settled_expression(file: FileFacts, node: ast.expr) -> ast.expr:
    """The expression that a name stands for, where only one gives it."""
    for _ in range(_NAMES):
        value = sole_assigned_value(file, node) if isinstance(node, ast.Name) else None
        if value is None:
            break
        node = value
    return node


def find_binding_reads(file: FileFacts, target: ast.Name) -> list[tuple[ast.Name, bool]]:
    """The reads that a binding of a name reaches, in text order, each with whether no other binding does.

    Found for all bindings of the name at once: a name that is bound again and again is read as often.
    """
    home = file.evaluation_scope(target)
    # A name declared global is read outside of the function that binds it.
    outside = target.id in home.outer_names

    def collect_reads() -> dict[ast.AST, list[tuple[ast.Name, bool]]]:
        found: dict[ast.AST, list[tuple[ast.Name, bool]]] = {}
        for use in file.find_mentions(target.id) if outside else file.mentions_in(home, target.id):
            if isinstance(use, ast.Name) and isinstance(use.ctx, ast.Load):
                bindings, _ = lookup_bindings(file, use, target.id)
                for binding in bindings:
                    if binding.kind != "more":
                        found.setdefault(binding.node, []).append((use, len(bindings) == 1))
        return found

    return file.remember_for_file(("readers", (None if outside else home, target.id)), collect_reads).get(target, [])
