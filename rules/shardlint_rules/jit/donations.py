"""Shared code of SL220 and SL221: the places of donations, and the certainty that a name's buffer is donated."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from shardlint.facts.lifetime.buffers import BufferHistory, Held
from shardlint.facts.lifetime.donating_calls import Argument, DonatingCall
from shardlint.facts.lifetime.donation import PMAP
from shardlint.facts.lifetime.lifetimes import Lifetimes
from shardlint.facts.shardings import SHARDINGS
from shardlint.model import Program
from shardlint.model.evaluator.annotations import annotated_project_classes
from shardlint.model.mesh.meshes import MESH_MAKERS
from shardlint.model.signatures import JITS
from shardlint.model.values import (
    CallResult,
    ClassValue,
    Computed,
    Constant,
    Function,
    Items,
    Parameter,
    Place,
    Transformed,
    Value,
    options,
)
from shardlint.rules_api.rule import Certainty
from shardlint.rules_api.site import Site
from shardlint.source.patterns import compile_lazily
from shardlint.syntax import FileFacts, Scope, last_name
from shardlint.syntax.bindings import lookup_bindings, sole_assigned_value
from shardlint.syntax.nodes import parameters_with_defaults

# What these return is an array on one device, bound to none: jit copies it where other arguments lie elsewhere.
_FRESH = ("jax.numpy.", "jax.random.", "jax.nn.initializers.")
_OVER_DEVICES = (
    "flax.jax_utils.replicate",
    "jax.device_put_replicated",
    "jax.device_put_sharded",
    "jax.pmap",
)
_PLACES = frozenset((*SHARDINGS, *MESH_MAKERS, "jax.sharding.PartitionSpec"))
_NUMBERS = ("int", "float", "bool", "str")
# Fields that hold arrays whatever the class.
_ARRAYS = ("params", "opt_state", "batch_stats", "ema_params", "grads", "weight", "weights", "kernel", "bias")
_WORDS = compile_lazily(
    r"^(new|next|updated?|old|prev|previous|cur|current)_|_(new|next|updated?|old|prev|out)$|[0-9']+$"
)


def certainty_of_handover(
    program: Program, file: FileFacts, call: DonatingCall, held: Held, *arguments: Argument
) -> Certainty | None:
    """Return how surely the call gets the buffer itself, given as these arguments, and no copy of it.

    None where it is not an array of jax's.
    """
    buffer = held[0]
    values = _buffer_values(program, file, held)
    if values and all(_is_surely_no_array(value) for value in values):
        return None
    if arguments and all(_is_number(program, file, argument.node) for argument in arguments):
        return None
    # What stands under one name on two ways is no one buffer, and may be no array on either.
    given = [options(program.value(file, one.node)) if isinstance(one.node, ast.Name) else () for one in arguments]
    if given and all(one and all(map(_is_surely_no_array, one)) for one in given):
        return None
    if buffer.kind == "iterated" or any(_is_iterator_result(value) for value in values):
        return Certainty.POSSIBLE  # what an iterator gives is often numpy
    if any(_is_surely_no_array(value) for value in values):
        return Certainty.POSSIBLE
    over_devices = bool(values) and all(_is_on_jit_devices(value) for value in values)
    if call.api == PMAP or call.placed:
        return Certainty.PROVEN if over_devices else Certainty.POSSIBLE
    if values and all(_makes_fresh_array(value) for value in values):
        others = [argument for argument in call.arguments if argument not in arguments]
        alone = all(_keeps_other_arguments(program, file, argument) for argument in others)
        return Certainty.PROVEN if alone else Certainty.POSSIBLE
    return Certainty.PROVEN


def is_buffer_taken(
    file: FileFacts, call: DonatingCall, argument: Argument, below: tuple[str, ...], array: bool
) -> bool:
    """Return whether the text shows an output that can take the buffer of an argument (of a part of it)."""
    if argument.used is False:
        return False
    first = below[0] if below else ""
    if first and first in argument.parts:
        return True
    if not (argument.taken or (argument.parts and not first) or is_next_value_of_argument(file, call, argument)):
        return False
    return not first or array or first.startswith("[") or first in _ARRAYS


def is_next_value_of_argument(file: FileFacts, call: DonatingCall, argument: Argument) -> bool:
    """Return whether a result is bound to a name for the argument's next value: `new_state = step(state)`."""
    statement = file.parent(call.call)
    while isinstance(statement, ast.Call | ast.Attribute) and "block_until_ready" in file.source_text(statement):
        statement = file.parent(statement)
    if not isinstance(statement, ast.Assign | ast.AnnAssign):
        return False
    targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
    named = {_last_name(part) for target in targets for part in _flatten_targets(target)} - {""}
    return _last_name(argument.node) in named


def _flatten_targets(target: ast.expr) -> list[ast.expr]:
    if isinstance(target, ast.Tuple | ast.List):
        return [part for element in target.elts for part in _flatten_targets(element)]
    return [target]


def _last_name(node: ast.expr) -> str:
    """The last name of an expression, without what says which value it is."""
    name = last_name(node)
    return _WORDS.sub("", _WORDS.sub("", name))


def _buffer_values(program: Program, file: FileFacts, held: Held) -> tuple[Value, ...]:
    """Return the values that made the buffer; empty if they are not visible here."""
    node = held[0].node
    return options(program.value(file, node)) if node is not None and not held[1] else ()


def _is_surely_no_array(value: Value) -> bool:
    """Numbers, text, numpy arrays, shardings, functions, and tuples of these: a donation does nothing to them."""
    if isinstance(value, Constant):
        return True
    if isinstance(value, Items):
        return not value.open and bool(value.items) and all(map(_is_surely_no_array, value.items))
    # A function is one leaf and static, also in a partial, whatever that fills in; a method of a module holds arrays.
    if isinstance(value, Function):
        return not value.bound
    if isinstance(value, Transformed):
        return value.api.name == "functools.partial"
    if not isinstance(value, CallResult) or _is_iterator_result(value):
        return False
    return value.api.startswith(("numpy.", "builtins.")) or value.api in _PLACES


def _is_number(program: Program, file: FileFacts, node: ast.expr) -> bool:
    """Return whether an argument is a field that its class annotates as a number or text: `config.decay`."""
    if isinstance(node, ast.Name):
        value = sole_assigned_value(file, node)
        return isinstance(value, ast.Attribute) and _is_number(program, file, value)
    if not isinstance(node, ast.Attribute):
        return False
    classes = list(_classes_of_object(program, file, node.value))
    fields = [program.evaluator.classes.objects.list_fields(one).get(node.attr) for one in classes]
    annotations = [one[0].annotation for one in fields if one is not None]
    return len(annotations) == len(classes) > 0 and all(last_name(one) in _NUMBERS for one in annotations if one)


def _classes_of_object(program: Program, file: FileFacts, node: ast.expr) -> Iterator[ClassValue]:
    """The classes of the project that an object is of: by what made it, or a parameter's annotation or default."""
    for value in options(program.value(file, node)):
        if isinstance(value, CallResult) and isinstance(value.by, ClassValue):
            yield value.by
        elif isinstance(value, Parameter):
            argument = value.place.node
            if getattr(argument, "annotation", None) is not None:
                yield from annotated_project_classes(program.evaluator, value)
            elif (
                isinstance(argument, ast.arg)
                and (default := _parameter_default(value.place.file, argument)) is not None
            ):
                yield from _classes_of_object(program, value.place.file, default)


def _parameter_default(file: FileFacts, argument: ast.arg) -> ast.expr | None:
    function = file.evaluation_scope(argument).enclosing_function()
    arguments = getattr(function.node, "args", None) if function is not None else None
    return (
        next((given for one, given in parameters_with_defaults(arguments) if one is argument), None)
        if arguments
        else None
    )


def _is_iterator_result(value: Value) -> bool:
    return isinstance(value, CallResult) and value.api in ("builtins.next", "builtins.iter")


def _makes_fresh_array(value: Value) -> bool:
    return isinstance(value, CallResult) and value.api.startswith(_FRESH)


def _is_on_jit_devices(value: Value) -> bool:
    """Return whether an array is on the devices of a function with shardings or a pmap: such a function made it, or a
    placement.
    """
    if not isinstance(value, CallResult):
        return False
    if isinstance(value.by, Transformed):
        settings = value.by.call.keywords if value.by.call is not None else {}
        return value.by.api.name == PMAP or (value.by.api.name in JITS and "out_shardings" in settings)
    if value.api == "jax.device_put":
        return value.call is not None and value.call.argument_for("device", ("x", "device")) is not None
    return value.api in _OVER_DEVICES


def _keeps_other_arguments(program: Program, file: FileFacts, argument: Argument) -> bool:
    """Return whether an argument surely does not make jit move the other arguments to its own devices."""
    return argument.static or _is_uncommitted(program, Place(file, argument.node))


def _is_uncommitted(program: Program, place: Place) -> bool:
    """Return whether an expression is a number, a new array of jax, or arithmetic of these, so that no device is
    requested for it.
    """
    found = options(program.evaluator.value(place))
    return all(_makes_fresh_array(one) or _is_surely_no_array(one) or _is_arithmetic(program, one) for one in found)


def _is_arithmetic(program: Program, value: Value) -> bool:
    """Return whether a value is computed of uncommitted operands."""
    place = value.place if isinstance(value, Computed) else None
    match place.node if place is not None else None:
        case ast.BinOp(left=left, right=right):
            operands = [left, right]
        case ast.UnaryOp(operand=operand):
            operands = [operand]
        case _:
            return False
    assert place is not None
    return all(
        _is_loop_counter(place.file, one) or _is_uncommitted(program, Place(place.file, one))
        for one in operands
    )


def _is_loop_counter(file: FileFacts, node: ast.expr) -> bool:
    """Return whether a name is the number of a turn: `for i in range(n)`, `for i, batch in enumerate(batches)`."""
    bindings = lookup_bindings(file, node, node.id)[0] if isinstance(node, ast.Name) else []
    counters = {"range": None, "enumerate": 0}
    return bool(bindings) and all(
        isinstance(one.value, ast.Call)
        and isinstance(one.value.func, ast.Name)
        and one.kind in ("for", "comprehension")
        and counters.get(one.value.func.id, -1) == one.index
        for one in bindings
    )


def is_array(program: Program, file: FileFacts, held: Held) -> bool:
    """Return whether the buffer is surely one array."""
    values = _buffer_values(program, file, held)
    if not values:
        return False
    return all(
        _makes_fresh_array(value) or (isinstance(value, CallResult) and _is_one_placed(program, value))
        for value in values
    )


def _is_one_placed(program: Program, value: CallResult) -> bool:
    if value.api != "jax.device_put" or value.call is None or not value.call.positional:
        return False
    inner = options(program.evaluator.value(value.call.positional[0], value.call.environment))
    return all(_makes_fresh_array(option) for option in inner)


def text_of_expression(file: FileFacts, node: ast.AST) -> str:
    """An expression on one line."""
    return " ".join(file.source_text(node).split())


def wrapper_name(api: str) -> str:
    """A wrapper as people write it."""
    return {"equinox.filter_jit": "eqx.filter_jit", "jax.experimental.pjit.pjit": "pjit"}.get(api, api)


def is_donation_ignored(site: Site, *arguments: Argument) -> bool:
    """Return whether jax ignores the donation of an argument (SL222)."""
    return any(argument.behind for argument in arguments) and site.allows("jax", "<0.12")


def stories_of_donations(site: Site) -> Iterator[tuple[FileFacts, BufferHistory]]:
    """Yield the buffer events of each function that calls the donating function: those of this file, and callers in
    others.
    """
    if not any(name.startswith("donate") for name in site.arguments.keywords):
        return
    lifetimes = site.program.find_room(Lifetimes)
    for _, story in lifetimes.donating_functions(site.file):
        yield site.file, story
    for file, scope in _callers_elsewhere(site):
        yield file, lifetimes.buffer_events(file, scope)


def donation_keyword(site: Site) -> ast.keyword:
    """Where the wrapper asks for donation."""
    return next(keyword for keyword in site.call.keywords if (keyword.arg or "").startswith("donate"))


def donation_node(keyword: ast.keyword, name: str | None, position: int | None) -> ast.AST:
    """Where the donation of a parameter is written: its number or name, or the whole keyword."""
    elements: list[ast.expr] = getattr(keyword.value, "elts", [])
    for element in elements:
        said = element.value if isinstance(element, ast.Constant) else None
        if said is not None and said in (name, position):
            return element
    return keyword


def describe_place(site: Site, file: FileFacts, node: ast.AST) -> str:
    """A place in another file, for messages."""
    root = site.program.project.root
    where = file.path.relative_to(root).as_posix() if file.path.is_relative_to(root) else file.path.name
    return f"{where}:{getattr(node, 'lineno', 0)}"


def _callers_elsewhere(site: Site) -> list[tuple[FileFacts, Scope]]:
    """The functions of other files that call what this wrapper made. What they call is told by their own story."""
    flow, parent = site.program.flow, site.file.parent(site.call)
    if isinstance(parent, ast.FunctionDef | ast.AsyncFunctionDef):
        found, made = list(flow.in_sight(site.file, parent).found), parent.name
    elif site.form == "call":
        found, made = list(flow.calls(Place(site.file, site.call), every=True).found), ""
    else:
        return []
    for maker in _functions_returning_wrapper(site, made):
        for place in flow.in_sight(site.file, maker).direct_calls():
            found += flow.calls(place, every=True).found
    scopes: dict[ast.AST, tuple[FileFacts, Scope]] = {}
    for end in found:
        file = end.place.file
        if end.kind == "called" and file is not site.file:
            function = file.evaluation_scope(end.place.node).enclosing_function()
            scope = function if function is not None else file.module
            if scope.kind in ("function", "module"):
                scopes[scope.node] = (file, scope)
    return list(scopes.values())


def _functions_returning_wrapper(site: Site, made: str) -> list[ast.FunctionDef]:
    """The function that returns what this wrapper makes: `return jax.jit(step)`, or the decorated `def` it holds."""
    scope = site.scope.enclosing_function()
    if scope is None:
        return []
    names = {made} if made else {site.text(target) for target in _assignment_targets(site)}
    for statement in site.file.walk_scope(scope).returns:
        value = statement.value if isinstance(statement, ast.Return) else None
        parts = value.elts if isinstance(value, ast.Tuple) else [value]
        if any(part is site.call or (isinstance(part, ast.Name) and part.id in names) for part in parts):
            return [scope.node] if isinstance(scope.node, ast.FunctionDef) else []
    return []


def _assignment_targets(site: Site) -> list[ast.expr]:
    parent = site.file.parent(site.call)
    return parent.targets if isinstance(parent, ast.Assign) else []
