"""Lists, sets and dicts that are changed in place: what they hold at a use, as far as the text says it.

What is put in on every way to the use is there; what is put in by some is one of the leaves of an otherwise unknown
whole, like what a comprehension collects.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from shardlint.model.values import (
    Assumed,
    Constant,
    Environment,
    Function,
    Items,
    Leaves,
    Place,
    Table,
    Value,
    accept_assumed,
    choose_value,
    mark_assumed,
)
from shardlint.source.lazy import dataclass
from shardlint.syntax import Binding, FileFacts, Scope
from shardlint.syntax.bindings import lookup_bindings
from shardlint.syntax.nodes import walk_nodes

if TYPE_CHECKING:
    from shardlint.model.evaluator.evaluate import Evaluator

# Methods that change a list, set or dict.
_CHANGING = (
    *("append", "extend", "insert", "pop", "remove", "clear", "reverse", "sort"),
    *("add", "discard", "update", "setdefault", "popitem"),
)
# How many changes, counted in all turns of loops, are followed one by one.
_MOST = 64
_JUMPS = ast.Break | ast.Continue
_Block = ast.For | ast.AsyncFor | ast.While | ast.If | ast.Try | ast.TryStar | ast.Match


@dataclass(frozen=True)
class _Change:
    """One statement that changes a value in place. `kind` is "put", "add", "merge" or "other"."""

    statement: ast.AST
    kind: str
    keys: tuple[ast.expr, ...] = ()
    value: ast.expr | None = None
    around: tuple[ast.AST, ...] = ()
    """The loops and branches between the value's own block and the change, the outermost first."""
    surely: bool = True


class _Unclear(Exception):
    """Raised if the contents of a container cannot be listed one by one."""


def apply_mutations(
    evaluator: Evaluator, use: Place, binding: Binding, value: Value, env: Environment | None
) -> Value:
    """Return the value of a name at its use, after in-place changes of its list, set or dict."""
    if isinstance(value, Assumed):
        return mark_assumed(apply_mutations(evaluator, use, binding, value.value, env), value)
    if not isinstance(value, Items | Table) or value.open or getattr(value, "kind", "") == "tuple":
        return value
    file, name = use.file, binding.name
    key = f"{name} changed in place"
    changes = file.remember_for_node(
        key, binding.scope.node, lambda: tuple(_changes_of_name(file, binding.scope, name))
    )
    if not changes:
        return value
    told = _changes_before_use(evaluator, file, use.node, binding, changes)
    if told is None:
        return replace(value, open=True)
    if not told:
        return value
    return _MutationApplier(evaluator, file, env).apply_all(value, told)


def filled_in_parts(evaluator: Evaluator, file: FileFacts, mentions: Sequence[ast.AST], value: Value) -> Value:
    """Return the value of an attribute that methods change in place, in an unknown order."""
    if not isinstance(value, Items | Table) or value.open or getattr(value, "kind", "") == "tuple":
        return value
    found = [change for mention in mentions if (change := _change_by_mention(file, mention)) is not None]
    if not found:
        return value
    return _MutationApplier(evaluator, file, None).evaluate_any_leaf(value, found)


def is_changed(evaluator: Evaluator, file: FileFacts, mention: ast.AST) -> bool:
    """Return whether a mention changes its object in place: itself, or through a function of the project that gets
    it.
    """
    if _change_by_mention(file, mention) is not None:
        return True
    call = file.parent(mention)
    return isinstance(call, ast.Call) and mention in call.args and _is_changer(evaluator, file, mention)


def _changes_of_name(file: FileFacts, scope: Scope, name: str) -> Iterator[_Change]:
    for mention in file.mentions_in(scope, name):
        if not isinstance(mention, ast.Name):
            continue
        found = _change_by_mention(file, mention)
        if found is not None:
            yield found
            continue
        call = file.parent(mention)
        if isinstance(call, ast.Call) and mention in call.args and isinstance(file.parent(call), ast.Expr):
            yield _Change(mention, "handed")


def _receiving_parameter(evaluator: Evaluator, file: FileFacts, mention: ast.AST) -> tuple[Function | None, str | None]:
    """The function of the project that is called with what is mentioned, and the parameter that takes it."""
    call = file.parent(mention)
    assert isinstance(call, ast.Call)
    callee = evaluator.value(Place(file, call.func))
    if not isinstance(callee, Function):
        return None, None
    names, index = callee.positional_parameters, next(number for number, one in enumerate(call.args) if one is mention)
    return callee, names[index] if index < len(names) else None


def _is_changer(evaluator: Evaluator, file: FileFacts, mention: ast.AST) -> bool:
    """Return whether a function of the project that is called for its effect changes this argument."""
    callee, name = _receiving_parameter(evaluator, file, mention)
    if callee is None or name is None:
        return False
    other = callee.place.file
    inside = other.mentions_in(other.scope(callee.node), name)
    return any(isinstance(one, ast.Name) and _change_by_mention(other, one) is not None for one in inside)


def _change_by_mention(file: FileFacts, mention: ast.AST) -> _Change | None:
    """How a mention changes what it names; None where it only reads or binds it."""
    keys: list[ast.expr] = []
    inner, outer = mention, file.parent(mention)
    while isinstance(outer, ast.Subscript) and outer.value is inner:
        if isinstance(outer.ctx, ast.Load):
            keys.append(outer.slice)
            inner, outer = outer, file.parent(outer)
            continue
        statement = file.parent(outer)
        if isinstance(statement, ast.Assign) and outer in statement.targets:
            return _Change(statement, "put", (*keys, outer.slice), statement.value)
        return _Change(outer, "other")
    match outer:
        case ast.AugAssign(target=target, op=ast.BitOr() | ast.Add(), value=value) if target is inner:
            return _Change(outer, "merge", tuple(keys), value)
        case ast.AugAssign(target=target) if target is inner:
            return _Change(outer, "other")
        case ast.Attribute(attr=attr) if attr in _CHANGING:
            call = file.parent(outer)
            if isinstance(call, ast.Call) and call.func is outer:
                return _change_by_method(file, call, attr, tuple(keys))
    return None


def _change_by_method(file: FileFacts, call: ast.Call, attr: str, keys: tuple[ast.expr, ...]) -> _Change:
    alone = isinstance(file.parent(call), ast.Expr)
    match attr, call.args, call.keywords:
        case ("append" | "add"), [value], [] if alone:
            return _Change(call, "add", keys, value)
        case ("update" | "extend"), [value], [] if alone:
            return _Change(call, "merge", keys, value)
        case "setdefault", [key, value], [] if alone:
            return _Change(call, "default", (*keys, key), value)
    return _Change(call, "other")


def _changes_before_use(
    evaluator: Evaluator, file: FileFacts, use: ast.AST, binding: Binding, changes: Sequence[_Change]
) -> list[_Change] | None:
    """The changes that a use may see, in order; None where some cannot be followed."""
    scope = binding.scope
    use_home = _enclosing_function(file.evaluation_scope(use))
    inside = use_home is scope
    above = set(_repeated_ancestors(file, use)) if inside else set()
    anchor = _function_block(file, binding)
    found: list[_Change] = []
    for change in changes:
        if _names_target(change, use) or (
            change.kind == "handed" and not _is_changer(evaluator, file, change.statement)
        ):
            continue
        bindings, owner = lookup_bindings(file, change.statement, binding.name)
        if all(one.node is not binding.node for one in bindings):
            if owner is scope or _enclosing_function(file.evaluation_scope(change.statement)) is scope:
                continue  # another value of the same name
        if _enclosing_function(file.evaluation_scope(change.statement)) is not scope:
            return None  # a function inside changes it, when it is called
        around = tuple(reversed(list(_blocks_around(file, change.statement, anchor))))
        shared = [one for one in around if one in above]
        if inside and not _ends_before(change.statement, use) and not any(map(_is_loop, shared)):
            continue
        if not inside and not _ends_before(change.statement, use_home.node if use_home else use):
            if scope.kind != "module":
                return None
        if change.kind == "other":
            return None
        sure = len(bindings) == 1 and not any(_is_loop(one) for one in shared)
        left = tuple(one for one in around if one not in shared)
        sure = sure and all(isinstance(one, ast.For) and not _may_leave_loop(file, one) for one in left)
        found.append(replace(change, around=left, surely=sure))
    return found


def _names_target(change: _Change, use: ast.AST) -> bool:
    """Return whether a use is the very mention through which a statement changes the value."""
    statement = change.statement
    targets: list[ast.AST] = [statement] if change.kind == "handed" else []
    if isinstance(statement, ast.Assign):
        targets = list(statement.targets)
    elif isinstance(statement, ast.AugAssign):
        targets = [statement.target]
    elif isinstance(statement, ast.Call):
        targets = [statement.func]
    return any(part is use for target in targets for part in walk_nodes(target))


def _enclosing_function(scope: Scope | None) -> Scope | None:
    """The scope whose names a comprehension reads."""
    while scope is not None and scope.kind == "comprehension":
        scope = scope.parent
    return scope


def _function_block(file: FileFacts, binding: Binding) -> frozenset[ast.AST]:
    """The loops and branches that the binding itself stands in."""
    return frozenset(_blocks_around(file, binding.node, frozenset()))


def _blocks_around(file: FileFacts, node: ast.AST, without: frozenset[ast.AST]) -> Iterator[ast.AST]:
    for outer in file.ancestors(node):
        if isinstance(outer, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda | ast.ClassDef):
            return
        if isinstance(outer, _Block) and outer not in without:
            yield outer


def _repeated_ancestors(file: FileFacts, use: ast.AST) -> Iterator[ast.AST]:
    """Yield the ancestors of a use. A loop is left out if the use is not in its body, because its iterable is read
    once.
    """
    inner = use
    for outer in file.ancestors(use):
        if not isinstance(outer, ast.For | ast.AsyncFor) or inner in outer.body:
            yield outer
        inner = outer


def _is_loop(node: ast.AST) -> bool:
    return isinstance(node, ast.For | ast.AsyncFor | ast.While)


def _may_leave_loop(file: FileFacts, loop: ast.For) -> bool:
    """Return whether an iteration of a loop may leave before its end."""
    return bool(loop.orelse) or file.remember_for_node("jumps", loop, lambda: _holds_jump(loop))


def _holds_jump(loop: ast.For) -> bool:
    return any(isinstance(part, _JUMPS) for part in walk_nodes(loop))


def _ends_before(one: ast.AST, other: ast.AST) -> bool:
    """Return whether one node ends before another begins."""
    end = getattr(one, "end_lineno", 0), getattr(one, "end_col_offset", 0)
    return end <= (getattr(other, "lineno", 0), getattr(other, "col_offset", 0))


class _MutationApplier:
    """Applies changes to a value, one by one."""

    def __init__(self, evaluator: Evaluator, file: FileFacts, env: Environment | None, depth: int = 2) -> None:
        self.evaluator = evaluator
        self.file = file
        self.env = env
        self.depth = depth
        self.done = 0

    def apply_all(self, value: Items | Table, changes: list[_Change]) -> Value:
        """The value with the changes; only what its leaves are, where they are not made on every way."""
        if all(change.surely for change in changes):
            try:
                return self._apply_changes(value, changes, {})
            except _Unclear:
                pass
        return self.evaluate_any_leaf(value, changes)

    def evaluate_any_leaf(self, value: Items | Table, changes: Sequence[_Change]) -> Value:
        """Return the value of any leaf of a container that is filled in an unknown order, or an unknown number of
        times.
        """
        if isinstance(value, Table):
            kept, kinds, keys = bool(value.entries), ("put", "default"), 1
        else:
            kept, kinds, keys = bool(value.items), ("add", "add"), 0
        if kept or any(change.kind not in kinds or len(change.keys) != keys for change in changes):
            return replace(value, open=True)
        made = [
            self._value_in_environment(change.value, {}) for change in changes if change.value is not None
        ]
        # A dict that is filled again below is a part of the tree, not a leaf of it.
        if any(isinstance(one, Table) and not one.entries for one in made):
            return replace(value, open=True)
        if isinstance(value, Table):
            return Leaves(choose_value(made), "dict")
        return Items(value.kind, (), True, tuple(made))

    def _apply_changes(
        self, value: Value, changes: Sequence[_Change], elements: Mapping[ast.AST, Value]
    ) -> Value:
        index = 0
        while index < len(changes):
            first = changes[index]
            if not first.around:
                value = self._apply_change(value, first, elements)
                index += 1
                continue
            loop = first.around[0]
            assert isinstance(loop, ast.For)
            together = [one for one in changes[index:] if one.around and one.around[0] is loop]
            inner = [replace(one, around=one.around[1:]) for one in together]
            env = self._environment_of_elements(elements)
            turns = self.evaluator.trees.iteration_values(Place(self.file, loop.iter), loop.target, env)
            if turns is None:
                raise _Unclear
            for bound in turns:
                value = self._apply_changes(value, inner, {**elements, **bound})
            index += len(together)
        return value

    def _apply_change(self, value: Value, change: _Change, elements: Mapping[ast.AST, Value]) -> Value:
        self.done += 1
        if self.done > _MOST or (change.value is None and change.kind != "handed"):
            raise _Unclear
        if change.kind == "handed":
            return self._change_by_function(value, change.statement, elements)
        keys = [accept_assumed(self._value_in_environment(key, elements)) for key in change.keys]
        assert change.value is not None
        made = self._value_in_environment(change.value, elements)
        return self._change_entry(value, change.kind, keys, made)

    def _change_by_function(self, value: Value, mention: ast.AST, elements: Mapping[ast.AST, Value]) -> Value:
        """Return the value after a function has changed it in place, if it does so once on every path."""
        call = self.file.parent(mention)
        assert isinstance(call, ast.Call)
        env = self._environment_of_elements(elements)
        function, name = _receiving_parameter(self.evaluator, self.file, mention)
        if function is None or name is None or self.depth == 0:
            raise _Unclear
        file = function.place.file
        scope = file.walk_scope(file.scope(function.node))
        changes = [
            change
            for change in _changes_of_name(file, scope, name)
            if change.kind != "handed" or _is_changer(self.evaluator, file, change.statement)
        ]
        if scope.returns or any(list(_blocks_around(file, one.statement, frozenset())) for one in changes):
            raise _Unclear
        given = self.evaluator.bind_parameters(function, self.evaluator.read_arguments(Place(self.file, call), env))
        inner = _MutationApplier(self.evaluator, file, given, self.depth - 1)
        for change in changes:
            value = inner._apply_change(value, change, {})
        if env is not None:
            env.asked += 1
        return value

    def _change_entry(self, value: Value, kind: str, keys: list[Value], made: Value) -> Value:
        puts = kind in ("put", "default")
        if keys and (not puts or len(keys) > 1):
            part = self._entry_at_key(value, keys[0])
            return self._put_entry(value, keys[0], self._change_entry(part, kind, keys[1:], made))
        match kind, value, accept_assumed(made):
            case "put", _, _:
                return self._put_entry(value, keys[0], made)
            case "default", Table(open=False), _:
                first = keys[0]
                there = isinstance(first, Constant) and value.value_under(first.value) is not None
                return value if there else self._put_entry(value, first, made)
            case "add", Items(kind=("list" | "set") as sort, items=items, open=False), _:
                return Items(sort, (*items, made))
            case "merge", Table(open=False), Table(open=False) as more:
                for key, one in more.entries:
                    value = self._put_entry(value, Constant(key), one)
                return value
            case "merge", Items(kind=("list" | "set") as sort, items=items, open=False), Items(open=False) as more:
                return Items(sort, (*items, *more.items))
        raise _Unclear

    def _entry_at_key(self, value: Value, key: Value) -> Value:
        found = value.value_under(key.value) if isinstance(value, Table) and isinstance(key, Constant) else None
        if found is None:
            raise _Unclear
        return found

    def _put_entry(self, value: Value, key: Value, made: Value) -> Value:
        if not isinstance(key, Constant):
            raise _Unclear
        if isinstance(value, Table) and not value.open:
            entries = [(name, one) for name, one in value.entries if name != key.value]
            where = next((n for n, (name, _) in enumerate(value.entries) if name == key.value), len(entries))
            return Table((*entries[:where], (key.value, made), *entries[where:]))
        if isinstance(value, Items) and value.kind == "list" and not value.open and isinstance(key.value, int):
            if -len(value.items) <= key.value < len(value.items):
                items = list(value.items)
                items[key.value] = made
                return replace(value, items=tuple(items))
        raise _Unclear

    def _environment_of_elements(self, elements: Mapping[ast.AST, Value]) -> Environment | None:
        if not elements:
            return self.env
        env = self.env
        return Environment(
            env.values if env is not None else {}, 0, {**(env.elements if env is not None else {}), **elements}
        )

    def _value_in_environment(self, node: ast.expr, elements: Mapping[ast.AST, Value]) -> Value:
        env = self._environment_of_elements(elements)
        value = self.evaluator.value(Place(self.file, node), env)
        if self.env is not None and env is not None and env is not self.env:
            self.env.asked += env.asked
        return value
