"""Attributes that alias what a method donates: `self.best = self.params`, and then `self.update()`."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping

from shardlint.facts.lifetime.buffers import access_path
from shardlint.facts.lifetime.donating_calls import Argument, DonatingCall
from shardlint.facts.lifetime.lifetimes import Lifetimes
from shardlint.facts.lifetime.reads import Reading, part_of_read
from shardlint.model.values import CallResult, ClassValue, options
from shardlint.rules_api.site import Site
from shardlint.source.lazy import dataclass
from shardlint.syntax import FileFacts, Scope
from shardlint_rules.jit.donations import is_buffer_taken

_Loop = ast.For | ast.AsyncFor | ast.While


@dataclass(frozen=True)
class Alias:
    """`node` is the donated attribute, `name` its alias, `read` a read of that, `call` the donation in between."""

    node: ast.Attribute
    name: str
    read: ast.Attribute
    call: DonatingCall
    argument: Argument


def find_donated_aliases(site: Site) -> Iterator[Alias]:
    """The attributes of the file's classes that alias an argument which the site's wrapper donates."""
    donated = site.program.answer_for_node(
        ("donated by methods", site.file.path), lambda: _donating_calls_by_method(site)
    )
    for scope, donating in donated.get(site.call, ()):
        for argument in donating.donated_arguments:
            yield from _find_aliases(site, scope, donating, argument)


def _donating_calls_by_method(site: Site) -> Mapping[ast.AST, list[tuple[Scope, DonatingCall]]]:
    """The calls in the methods of the site's file that donate, by the wrapper that does it."""
    file, donations = site.file, site.program.find_room(Lifetimes).donations
    found: dict[ast.AST, list[tuple[Scope, DonatingCall]]] = {}
    for scope in file.inner_scopes(file.module):
        if scope.kind == "function" and scope.parent is not None and scope.parent.kind == "class":
            for call in scope.calls:
                donating = donations.find_donations(file, call)
                if donating is not None:
                    found.setdefault(donating.by.node, []).append((scope, donating))
    return found


def _find_aliases(site: Site, update: Scope, call: DonatingCall, argument: Argument) -> Iterator[Alias]:
    file, path = site.file, access_path(argument.node)
    if path is None or len(path) != 2 or path[0] != _self_name(update):
        return
    if not is_buffer_taken(file, call, argument, (), False):
        return
    for node in file.find_mentions(path[1]):
        target = _stored_attribute(file, node)
        method = file.evaluation_scope(node).enclosing_function()
        if target is None or method is None or method.parent is not update.parent:
            continue
        assert isinstance(node, ast.Attribute)
        if target.attr == path[1] or _self_name(method) != getattr(node.value, "id", ""):
            continue
        if _is_rebound_afterwards(file, target.attr, update, call.call.lineno):
            continue
        if method is update and node.lineno > call.call.lineno:
            continue
        read = _read_of_attribute(site, target.attr, update.parent)
        if read is not None and (method is update or _are_called_in_one_loop(site, method, update)):
            yield Alias(node, target.attr, read, call, argument)


def _self_name(method: Scope) -> str:
    node = method.node
    if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        return ""
    arguments = [*node.args.posonlyargs, *node.args.args]
    return arguments[0].arg if arguments else ""


def _stored_attribute(file: FileFacts, node: ast.AST) -> ast.Attribute | None:
    """The attribute of self that an attribute of self is stored under, as it is."""
    statement = file.parent(node)
    if not isinstance(node, ast.Attribute) or not isinstance(node.ctx, ast.Load):
        return None
    if not isinstance(statement, ast.Assign) or statement.value is not node or len(statement.targets) != 1:
        return None
    target = statement.targets[0]
    same = isinstance(target, ast.Attribute) and file.source_text(target.value) == file.source_text(node.value)
    return target if same and isinstance(target, ast.Attribute) else None


def _is_rebound_afterwards(file: FileFacts, name: str, update: Scope, line: int) -> bool:
    """Return whether the donating method rebinds the attribute afterwards."""
    return any(
        isinstance(node, ast.Attribute)
        and isinstance(node.ctx, ast.Store)
        and file.evaluation_scope(node).enclosing_function() is update
        and node.lineno >= line
        for node in file.find_mentions(name)
    )


def _read_of_attribute(site: Site, name: str, cls: Scope | None) -> ast.Attribute | None:
    """Where a method reads the data of an attribute."""
    evaluator = site.program.evaluator
    for node in site.file.find_mentions(name):
        method = site.file.evaluation_scope(node).enclosing_function()
        if not isinstance(node, ast.Attribute) or not isinstance(node.ctx, ast.Load) or method is None:
            continue
        compared = isinstance(site.file.parent(node), ast.Compare)
        if method.parent is not cls or _self_name(method) != getattr(node.value, "id", "") or compared:
            continue
        if part_of_read(evaluator, site.file, node) is not Reading.NONE:
            return node
    return None


def _are_called_in_one_loop(site: Site, keeping: Scope, update: Scope) -> bool:
    """Return whether one loop calls both methods of one object, so that the stored array is donated in the next
    iteration.
    """
    if keeping.name == "__init__":
        return True
    for file in site.program.project.files_with_attribute(site.file, keeping.name):
        if file is None:
            return False
        loops = {
            (loop, receiver)
            for receiver, call in _calls_of_method(site, file, keeping)
            for loop in _loops_around(file, call)
        }
        if loops and any(
            (loop, receiver) in loops
            for receiver, call in _calls_of_method(site, file, update)
            for loop in _loops_around(file, call)
        ):
            return True
    return False


def _calls_of_method(site: Site, file: FileFacts, method: Scope) -> Iterator[tuple[str, ast.Call]]:
    """The calls of a method in a file on what is surely an instance of its class, with the text of that."""
    evaluator = site.program.evaluator
    for node in file.find_mentions(method.name):
        call = file.parent(node)
        if not isinstance(node, ast.Attribute) or not isinstance(call, ast.Call) or call.func is not node:
            continue
        found = options(site.program.value(file, node.value))
        if all(
            isinstance(one, CallResult)
            and isinstance(one.by, ClassValue)
            and method.parent is not None
            and any(cls.node is method.parent.node for cls in evaluator.project_ancestors(one.by))
            for one in found
        ):
            yield file.source_text(node.value), call


def _loops_around(file: FileFacts, node: ast.AST) -> Iterator[ast.AST]:
    parent = file.parent(node)
    while parent is not None and not isinstance(parent, ast.FunctionDef | ast.AsyncFunctionDef):
        if isinstance(parent, _Loop):
            yield parent
        parent = file.parent(parent)
