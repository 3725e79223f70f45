"""Parameters that are placed after the optimizer's state was made of them, and what places them: a helper, fields."""

from __future__ import annotations

import ast
import builtins
from collections.abc import Iterator

from shardlint.model.mesh.shardings import PLACING
from shardlint.model.values import Api, Function, Place, options
from shardlint.rules_api.site import Site
from shardlint.source.lazy import dataclass
from shardlint.source.patterns import regex
from shardlint.syntax import FileFacts, Scope, last_name
from shardlint.syntax.nodes import walk
from shardlint_rules.jit.optimizers import init_by_name, init_of, keeps_state, optimizer_by_name

_OPTIMIZER = ("model", "tx")
_UPDATE = "flax.nnx.update"
_MERGE = "flax.nnx.merge"
_SAYS = regex(r"(?i)shard|place|put|constrain|distribut|restore|load")
_MAPS = ("jax.tree.map", "jax.tree.map_with_path")


@dataclass(frozen=True)
class Later:
    """`params` is what the state was made of, `placed` what it is called after the call that places it."""

    params: str
    placed: str
    state: str
    call: ast.Call


def placed_later(site: Site) -> Later | None:
    """What places the parameters of an optimizer's `init` later in its function; None where the state fits."""
    scope = site.scope.function()
    params = _params(site, site.call.args[0]) if len(site.call.args) == 1 and not site.call.keywords else None
    state = _target(site.file, site.call)
    if scope is None or params is None or state is None or not isinstance(scope.node, ast.FunctionDef):
        return None
    keeps = init_of(site, Place(site.file, site.call.func))
    if keeps is not True and not init_by_name(site, Place(site.file, site.call.func)):
        return None
    if site.shardings.spread(site.value(params)):
        return None
    text = site.text(params)
    if not _set_before(site.file, scope, text, site.call.lineno):
        return None
    for call in sorted(site.file.walked(scope).calls, key=lambda one: one.lineno):
        placed = _target(site.file, call)
        if call.lineno > site.call.lineno and _own_method_places(site, call, text):
            found = Later(text, text, state, call)
            return found if _left_alone(site, scope, found) else None
        if call.lineno <= site.call.lineno or placed is None or not _given(site.file, call, text):
            continue
        if state in (placed, text) or _given(site.file, call, state) or not places_over_a_mesh(site, call):
            continue
        if placed == text and isinstance(params, ast.Name) and _api(site, call) in PLACING:
            return None  # that placement is a trigger of its own
        found = Later(text, placed, state, call)
        return found if _left_alone(site, scope, found) else None
    return None


def variables_placed_later(site: Site) -> Later | None:
    """What places the variables of an NNX model after its optimizer was made; None where the optimizer fits."""
    scope = site.scope.function()
    arguments = site.arguments
    model, tx = (arguments.get(name, _OPTIMIZER) for name in _OPTIMIZER)
    optimizer = _target(site.file, site.call)
    if scope is None or model is None or tx is None or optimizer is None or model.file is not site.file:
        return None
    if not isinstance(model.node, ast.Name | ast.Attribute) or not isinstance(scope.node, ast.FunctionDef):
        return None
    if keeps_state(site, site.program.evaluator.value(tx)) is not True and not optimizer_by_name(site, tx):
        return None
    text = model.text()
    if not _set_before(site.file, scope, text, site.call.lineno):
        return None
    calls = sorted(site.file.walked(scope).calls, key=lambda one: one.lineno)
    placing = [one for one in calls if not _given(site.file, one, optimizer) and _moves_variables(site, one, text)]
    if not placing or placing[0].lineno <= site.call.lineno or not _unmoved(site, scope, optimizer):
        return None
    return Later(text, text, optimizer, placing[0])


def _moves_variables(site: Site, call: ast.Call, model: str) -> bool:
    """Whether a call puts the variables of a model over a mesh: itself, or in a function of the project."""
    if _target(site.file, call) == model and _api(site, call) == _MERGE:
        return any(site.shardings.seems_spread(site.value(one)) for one in call.args)
    if not _given(site.file, call, model):
        return _own_method_moves(site, call, model)
    if _api(site, call) == _UPDATE:
        first, *rest = call.args
        return site.file.text(first) == model and any(site.shardings.seems_spread(site.value(one)) for one in rest)
    for option in options(site.value(call.func)):
        if isinstance(option, Function) and _places_inside(site, option):
            if _target(site.file, call) == model or any(_updates(site, one) for one in _with_callees(site, option, 1)):
                return True
    return False


def _own_method_moves(site: Site, call: ast.Call, model: str) -> bool:
    """The same of a method that takes the model from the object: `self._place()`."""
    if not model.startswith("self.") or not site.file.text(call.func).startswith("self."):
        return False
    return any(
        isinstance(inner, ast.Call) and _given(site.file, inner, model) and _moves_variables(site, inner, model)
        for option in options(site.value(call.func))
        if isinstance(option, Function) and option.place.file is site.file
        for inner in walk(option.node)
        if inner is not call
    )


def _own_method_places(site: Site, call: ast.Call, params: str) -> bool:
    """Whether `self._place()` puts parameters that the object holds over a mesh, and gives them back to it."""
    if not params.startswith("self.") or not site.file.text(call.func).startswith("self."):
        return False
    return any(
        isinstance(inner, ast.Call)
        and _target(site.file, inner) == params
        and _given(site.file, inner, params)
        and places_over_a_mesh(site, inner)
        for option in options(site.value(call.func))
        if isinstance(option, Function) and option.place.file is site.file
        for inner in walk(option.node)
        if inner is not call
    )


def _updates(site: Site, function: Function) -> bool:
    """Whether a function writes into the variables of a model that it is given."""
    file, names = function.place.file, set(function.positional)
    for node in walk(function.node):
        match node:
            case ast.Call(func=func, args=[ast.Name(id=first), _, *_]) if first in names:
                if getattr(site.program.value(file, func), "name", "") == _UPDATE:
                    return True
            case ast.Call(func=ast.Attribute(attr="set_value"), args=[value]):
                if _puts_any(site, file, value):
                    return True
            case ast.Assign(targets=[ast.Attribute(attr="value")], value=value):
                if _puts_any(site, file, value):
                    return True
            case ast.Assign(targets=[ast.Subscript(slice=ast.Constant(value=builtins.Ellipsis))], value=value):
                if _puts_any(site, file, value):
                    return True
    return False


def _unmoved(site: Site, scope: Scope, optimizer: str) -> bool:
    """Whether nothing that is given an optimizer may place it."""
    file, inside = site.file, [scope]
    if "." in optimizer and scope.parent is not None and scope.parent.kind == "class":
        inside += [one for one in file.inner_scopes(scope.parent) if one.kind == "function" and one is not scope]
    for call in (one for own in inside for one in file.walked(own).calls):
        if not _given(file, call, optimizer):
            continue
        taking = _api(site, call)
        if taking.startswith("flax.nnx.") or _SAYS.search(last_name(call.func)):
            return False
        if any(isinstance(one, Function) and _places_inside(site, one) for one in options(site.value(call.func))):
            return False
    return True


def _params(site: Site, node: ast.expr) -> ast.Name | ast.Attribute | None:
    """`params`, `self.model`, or `eqx.filter(params, eqx.is_array)`."""
    if isinstance(node, ast.Call) and node.args and _api(site, node) == "equinox.filter":
        node = node.args[0]
    return node if isinstance(node, ast.Name | ast.Attribute) else None


def _api(site: Site, call: ast.Call) -> str:
    return str(getattr(site.value(call.func), "name", ""))


def _target(file: FileFacts, call: ast.Call) -> str | None:
    """The one name or attribute that a call's result is bound to."""
    parent = file.parent(call)
    if not isinstance(parent, ast.Assign) or parent.value is not call or len(parent.targets) != 1:
        return None
    target = parent.targets[0]
    return file.text(target) if isinstance(target, ast.Name | ast.Attribute) else None


def _given(file: FileFacts, call: ast.Call, text: str) -> bool:
    """Whether a call is given what is written so, also as part of a tuple."""
    given = [*call.args, *(one.value for one in call.keywords)]
    parts = [part for one in given for part in (one.elts if isinstance(one, ast.Tuple | ast.List) else [one])]
    return any(file.text(one) == text for one in parts)


def _set_before(file: FileFacts, scope: Scope, text: str, line: int) -> bool:
    """Whether the function itself makes what is written so: what comes in may be placed already."""
    return any(_assigns(one, file, text) and one.lineno < line for one in _statements(file, scope))


def _statements(file: FileFacts, scope: Scope) -> Iterator[ast.stmt]:
    yield from file.walked(scope).statements


def _assigns(statement: ast.stmt, file: FileFacts, text: str) -> bool:
    if not isinstance(statement, ast.Assign):
        return False
    targets = [part for one in statement.targets for part in (getattr(one, "elts", None) or [one])]
    return any(file.text(one) == text for one in targets)


def places_over_a_mesh(site: Site, call: ast.Call) -> bool:
    """Whether a call places what it is given over a mesh: itself, by a tree map, or in a function of the project."""
    if site.shardings.spread(site.value(call)):
        return True
    for option in options(site.value(call.func)):
        if isinstance(option, Function) and _places_inside(site, option):
            return True
    return _api(site, call) in _MAPS and bool(call.args) and _puts(site, Place(site.file, call.args[0]))


def _puts(site: Site, function: Place) -> bool:
    """Whether a function that a tree map calls places its leaf."""
    for option in options(site.program.evaluator.value(function)):
        if isinstance(option, Function) and _places_inside(site, option):
            return True
        if isinstance(option, Api) and option.name in PLACING:
            return True
    return False


def _places_inside(site: Site, function: Function) -> bool:
    """Whether a function calls what places, told where to by a sharding that it or a function it calls writes down."""
    inside = list(_with_callees(site, function, 2))
    return any(_makes_sharding(site, one) for one in inside) and any(
        _puts_any(site, one.place.file, one.node) for one in inside
    )


def _with_callees(site: Site, function: Function, depth: int) -> Iterator[Function]:
    """A function, and those of the project that it calls, or gives to what calls them."""
    yield function
    file = function.place.file
    for node in walk(function.node) if depth else ():
        if isinstance(node, ast.Call):
            given = [one for one in node.args if isinstance(one, ast.Name | ast.Attribute)]
            for called in (node.func, *given):  # `tree.map(place, tree)` calls what it is given
                for one in options(site.program.value(file, called)):
                    if isinstance(one, Function) and one.node is not function.node:
                        yield from _with_callees(site, one, depth - 1)


def _makes_sharding(site: Site, function: Function) -> bool:
    file = function.place.file
    return any(
        isinstance(one, Api) and one.name == "jax.sharding.NamedSharding"
        for node in walk(function.node)
        if isinstance(node, ast.Call)
        for one in options(site.program.value(file, node.func))
    )


def _puts_any(site: Site, file: FileFacts, root: ast.AST) -> bool:
    for node in walk(root):
        if isinstance(node, ast.Name | ast.Attribute) and isinstance(node.ctx, ast.Load):
            if any(isinstance(one, Api) and one.name in PLACING for one in options(site.program.value(file, node))):
                return True
    return False


def _left_alone(site: Site, scope: Scope, found: Later) -> bool:
    """Whether the state is taken together with the placed parameters, and nothing else touches it before."""
    file = site.file
    own = file.statement(site.call)
    others = (one for one in _statements(file, scope) if one is not own)
    if any(_assigns(one, file, found.state) and not _takes(file, one, found) for one in others):
        return False
    inside: list[Scope] = [scope]
    if "." in found.state and "." in found.placed and scope.parent is not None and scope.parent.kind == "class":
        inside += [one for one in file.inner_scopes(scope.parent) if one.kind == "function" and one is not scope]
    calls = [call for one in inside for call in file.walked(one).calls]
    taking = [call for call in calls if _given(file, call, found.state)]
    if taking:
        return all(_given(file, call, found.placed) for call in taking)
    last = scope.node.body[-1] if isinstance(scope.node, ast.FunctionDef) else None
    returned = [file.text(one) for one in getattr(getattr(last, "value", None), "elts", ())]
    return found.state in returned and found.placed in returned


def _takes(file: FileFacts, statement: ast.stmt, found: Later) -> bool:
    """Whether what binds the state again is a call that takes it together with the placed parameters."""
    value = statement.value if isinstance(statement, ast.Assign) else None
    return isinstance(value, ast.Call) and _given(file, value, found.placed)
