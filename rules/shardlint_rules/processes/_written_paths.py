"""Evidence about the writing process in the paths of files, and the contents written there."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from shardlint.facts.project_objects import evaluate_held_member, find_classes, stored_values
from shardlint.model import Program
from shardlint.model.values import Function, Place
from shardlint.rules_api.site import Site
from shardlint.source.patterns import compile_lazily
from shardlint.syntax import FileFacts
from shardlint.syntax.bindings import lookup_bindings
from shardlint.syntax.nodes import child_nodes, walk_nodes
from shardlint_rules.processes.passed_values import argument_values

OWN = compile_lazily(r"(?i)process|host|rank|shard|worker|pid|uuid|tmp|temp|local|dev/null|part[-_]?\{")
_NAMES = compile_lazily(r"(?i)process(?!_allgather)|(?<!multi)host|rank|shard(?!ing)|worker|pid|uuid|(?<![/\w])te?mp")
_DEPTH = 5
_DUMPS = compile_lazily(r"(?:^|\.)(?:dump|write|writelines|save|savez|savez_compressed|writerow|writerows)$")


def is_process_in_path(program: Program, place: Place, depth: int = 0) -> bool:
    """Return whether a path contains the process, by the names in it, in helpers and in the arguments of callers."""
    if (OWN if not depth else _NAMES).search(place.source_text()):
        return True
    return depth < _DEPTH and any(
        is_process_in_path(program, one, depth + 1) for one in _expressions_behind(program, place)
    )


def _expressions_behind(program: Program, place: Place) -> Iterator[Place]:
    """Yield the expressions that the names, helper calls and attributes in an expression are made of.

    Of what a call in sight is given counts only what comes back: `first, params = resume.load(params, reader)`.
    """
    file = place.file
    todo = [place.node]
    while todo:
        part = todo.pop(0)
        todo += (
            [part.func]
            if isinstance(part, ast.Call) and _calls_only_project(program, file, part)
            else child_nodes(part)
        )
        match part:
            case ast.Name(ctx=ast.Load(), id=name):
                bindings, scope = lookup_bindings(file, part, name)
                for one in bindings:
                    if one.kind == "param" and scope is not None:
                        yield from argument_values(program, file, scope, name)
                    elif one.value is not None:
                        yield Place(file, one.value)
            case ast.Attribute(ctx=ast.Load(), value=owner, attr=name):
                for cls in find_classes(program, Place(file, owner)):
                    inside, node = cls.place.file, cls.place.node
                    if isinstance(node, ast.ClassDef):
                        yield from (Place(inside, one) for one in stored_values(inside, node, name))
                        for method in node.body:
                            if isinstance(method, ast.FunctionDef) and method.name == name:
                                yield from _returned_places(Function(Place(inside, method)))
            case ast.Call(func=ast.Name() as func):
                for option in evaluate_held_member(program, Place(file, func)):
                    if isinstance(option, Function):
                        yield from _returned_places(option)


def _calls_only_project(program: Program, file: FileFacts, call: ast.Call) -> bool:
    """Return whether an expression calls functions of the project, and nothing else."""
    found = evaluate_held_member(program, Place(file, call.func))
    return bool(found) and all(isinstance(one, Function) for one in found)


def _returned_places(function: Function) -> Iterator[Place]:
    file, node = function.place.file, function.node
    if isinstance(node, ast.Lambda):
        yield Place(file, node.body)
        return
    yield from (Place(file, one.value) for one in file.walk_scope(file.scope(node)).returns if one.value is not None)


def path_expression_in_file(site: Site, path: ast.expr) -> ast.expr | None:
    """The expression in this file by which a helper makes a path; None where the path stands at the site."""
    for option in evaluate_held_member(site.program, Place(site.file, path.func)) if isinstance(path, ast.Call) else ():
        made = list(_returned_places(option)) if isinstance(option, Function) else []
        if len(made) == 1 and made[0].file is site.file and isinstance(made[0].node, ast.expr):
            return made[0].node
    return None


def written_contents(site: Site, path: ast.expr | None) -> Iterator[ast.expr]:
    """Yield the contents written to a path: the other arguments of the call, or the data written to the file that it
    opens.
    """
    call = site.call
    yield from (one for one in call.args if one is not path and not isinstance(one, ast.Constant))
    yield from (one.value for one in call.keywords if one.arg not in ("mode", "encoding", "newline"))
    statement = site.file.statement(call)
    if not isinstance(statement, ast.With):
        return
    names = {
        one.optional_vars.id
        for one in statement.items
        if one.context_expr is call and isinstance(one.optional_vars, ast.Name)
    }
    for inner in (one for part in statement.body for one in walk_nodes(part) if isinstance(one, ast.Call)):
        parts = [*inner.args, *([inner.func.value] if isinstance(inner.func, ast.Attribute) else [])]
        if _DUMPS.search(site.text(inner.func)) and any(isinstance(one, ast.Name) and one.id in names for one in parts):
            yield from (one for one in inner.args if not (isinstance(one, ast.Name) and one.id in names))
