"""Which keys of an argument a function reads: `batch["tokens"]`, in itself and in what it gives the argument to."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from shardlint.model import Program
from shardlint.model.reach import lookup
from shardlint.model.signatures import parameters_of
from shardlint.model.values import Api, Function, Place, Transformed, Value, options
from shardlint.source.lazy import dataclass
from shardlint.syntax import FileFacts, Scope
from shardlint.syntax.enclosing import caught
from shardlint.syntax.nodes import walk

_DEPTH = 3
_LOOKING = ("items", "keys", "values", "get", "copy")
Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda


@dataclass(frozen=True)
class KeyRead:
    """A read of a key, or of a nested key."""

    keys: tuple[str, ...]
    place: Place


def keys_read(program: Program, function: Function, parameter: str) -> list[KeyRead]:
    """The keys that every run of a function reads of a parameter; none if the function may add keys."""
    return _Reader(program).function(function, parameter, True, 0) or []


class _Reader:
    def __init__(self, program: Program) -> None:
        self.program = program

    def function(self, function: Function, name: str, surely: bool, depth: int) -> list[KeyRead] | None:
        """The reads in one function and in those it calls; None where what is read may be its own work."""
        file, node = function.place.file, function.node
        scope = file.walked(file.scope(node))
        asked = _asked_for(file, scope)
        uses = list(_uses(file, scope, name))
        found: list[KeyRead] = []
        # What is handed to code not seen here may come back with more keys.
        handed = min((use.lineno for use in uses if self._hands_on(file, use)), default=None)
        for use in uses:
            if _may_change(file, use):
                return None
            keys = _keys(file, use)
            certain = surely and (handed is None or use.lineno < handed) and self._runs(file, scope, use)
            if keys is None:
                inner = self._given_on(file, use, certain, depth)
                if inner is None:
                    return None
                found += inner
            elif certain and keys[0] not in asked and not caught(file, use):
                found.append(KeyRead(keys, Place(file, use)))
        return found

    def _given_on(self, file: FileFacts, use: ast.Name, surely: bool, depth: int) -> list[KeyRead] | None:
        """The reads in a function of the project that is given the whole argument."""
        call = _call_of(file, use)
        if call is None or depth >= _DEPTH:
            return []
        function = _definition(self.program.value(file, call.func))
        if function is None:
            return []
        parameters = parameters_of(self.program.value(file, call.func), self.program.evaluator)
        given = parameters.bind(self.program.evaluator.arguments(Place(file, call))) if parameters else None
        names = [name for name, place in (given or {}).items() if place.node is use]
        return self.function(function, names[0], surely, depth + 1) if len(names) == 1 else []

    def _hands_on(self, file: FileFacts, use: ast.Name) -> bool:
        """Whether the whole argument goes where the text does not follow it."""
        parent = file.parent(use)
        if isinstance(parent, ast.Subscript | ast.Attribute | ast.Compare):
            return False
        call = _call_of(file, use)
        if call is None:
            return not isinstance(parent, ast.Return)
        value = self.program.value(file, call.func)
        return not isinstance(value, Api) and _definition(value) is None

    def _runs(self, file: FileFacts, outer: Scope, node: ast.AST, depth: int = 0) -> bool:
        """Whether a node runs whenever the function does. It is traced, and so is all that `lax.cond` may run."""
        home = file.home(node).function()
        if home is None or depth > _DEPTH or not _straight(file, home, node):
            return False
        if home is outer:
            return True
        ends = self.program.flow.ends(file, home.node)
        return any(
            end.kind == "called"
            and end.place.file is file
            and not any(wrapper.effect == "host" for wrapper in end.wrappers)
            and outer in file.home(end.place.node).outward()
            and file.home(end.place.node).function() is not home
            and self._runs(file, outer, end.place.node, depth + 1)
            for end in ends.found
        )


def _uses(file: FileFacts, scope: Scope, name: str) -> Iterator[ast.Name]:
    """The reads of a parameter that nothing rebinds."""
    parameters = [binding for binding in file.bindings(scope, name) if binding.kind == "param"]
    for use in file.mentions(name):
        if isinstance(use, ast.Name) and isinstance(use.ctx, ast.Load):
            bindings, owner = lookup(file, use, name)
            if owner is scope and bindings == parameters:
                yield use


def _keys(file: FileFacts, use: ast.Name) -> tuple[str, ...] | None:
    """The constant keys read one after another: `batch["image"]["pixels"]`."""
    keys: list[str] = []
    node: ast.AST = use
    parent = file.parent(node)
    while (
        isinstance(parent, ast.Subscript)
        and parent.value is node
        and isinstance(parent.slice, ast.Constant)
        and isinstance(parent.slice.value, str)
    ):
        keys.append(parent.slice.value)
        node, parent = parent, file.parent(parent)
    return tuple(keys) or None


def _may_change(file: FileFacts, use: ast.Name) -> bool:
    """Whether a use may give the argument other keys, or another name by which that is done."""
    parent = file.parent(use)
    while isinstance(parent, ast.Subscript):
        if isinstance(parent.ctx, ast.Store | ast.Del):
            return True
        parent = file.parent(parent)
    here = file.parent(use)
    if isinstance(here, ast.Attribute):
        return here.attr not in _LOOKING
    if isinstance(here, ast.AugAssign):
        return True
    return isinstance(here, ast.Assign | ast.AnnAssign | ast.NamedExpr | ast.withitem)


def _asked_for(file: FileFacts, scope: Scope) -> set[object]:
    """Keys that the function first asks about: `if "mask" in batch`."""
    found: set[object] = set()
    node = scope.node
    for part in walk(node):
        if isinstance(part, ast.Compare) and any(isinstance(op, ast.In | ast.NotIn) for op in part.ops):
            found |= {side.value for side in (part.left, *part.comparators) if isinstance(side, ast.Constant)}
        elif isinstance(part, ast.Call) and isinstance(part.func, ast.Attribute) and part.func.attr == "get":
            found |= {one.value for one in part.args[:1] if isinstance(one, ast.Constant)}
    return found


def _straight(file: FileFacts, home: Scope, node: ast.AST) -> bool:
    """Whether a function that is run comes to a node: no branch, loop or return stands before it."""
    position = (getattr(node, "lineno", 0), getattr(node, "col_offset", 0))
    inner = node
    for outer in file.ancestors(node):
        if outer is home.node:
            break
        match outer:
            case ast.If() | ast.While() | ast.IfExp() if inner is not outer.test:
                return False
            case ast.For() | ast.AsyncFor() if inner is not outer.iter:
                return False
            case ast.BoolOp() if inner is not outer.values[0]:
                return False
            case ast.comprehension() if inner is not outer.iter:
                return False
            case ast.ListComp() | ast.SetComp() | ast.DictComp() | ast.GeneratorExp():
                if inner is not outer.generators[0]:
                    return False
            case ast.Try() | ast.TryStar() | ast.ExceptHandler() | ast.match_case() | ast.Match():
                return False
        inner = outer
    if isinstance(home.node, ast.Lambda):
        return True
    returns = [one for one in file.walked(home).returns if isinstance(one, ast.Return)]
    statement = file.statement(node)
    return all((one.lineno, one.col_offset) >= position or one is statement for one in returns)


def _call_of(file: FileFacts, use: ast.Name) -> ast.Call | None:
    """The call that a name is a whole argument of."""
    parent = file.parent(use)
    if isinstance(parent, ast.keyword):
        parent = file.parent(parent)
    return parent if isinstance(parent, ast.Call) and parent.func is not use else None


def _definition(value: Value) -> Function | None:
    """The one definition a call runs, through transforms."""
    found = options(value)
    one = found[0]
    while isinstance(one, Transformed) and one.api.name:
        one = one.inner
    return one if len(found) == 1 and isinstance(one, Function) else None
