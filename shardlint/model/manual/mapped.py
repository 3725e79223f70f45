"""`shard_map` and `pmap`: what they map, how its arguments are split, and what running the body tells."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import replace
from itertools import zip_longest
from typing import TYPE_CHECKING, Literal

from shardlint.model import api
from shardlint.model.api import JIT_WRAPPERS
from shardlint.model.manual.bodies import Body
from shardlint.model.manual.copies import calls_of, carried_copies, copied_at, is_copies
from shardlint.model.manual.varying import (
    COPIES,
    NONE,
    Axes,
    Axis,
    Event,
    Known,
    Leaf,
    Local,
    Record,
    Tree,
    axes_of,
    leaves,
)
from shardlint.model.mesh.meshes import Mesh, mesh_of, spec_of
from shardlint.model.signatures import Parameters, parameters_of, wrappings
from shardlint.model.values import (
    Api,
    CallArguments,
    CallResult,
    Constant,
    Function,
    Items,
    Place,
    Table,
    Transformed,
    Unknown,
    Value,
    options,
)
from shardlint.source.lazy import dataclass
from shardlint.syntax import FileFacts

if TYPE_CHECKING:
    from shardlint.model import Program

# By name, those of whose bodies and arguments the same is true.
MAPS = {
    "jax.shard_map": "jax.shard_map",
    "jax.pmap": "jax.pmap",
    "flax.nnx.shard_map": "jax.shard_map",
    "flax.nnx.pmap": "jax.pmap",
    "equinox.filter_pmap": "jax.pmap",
}
_SCAN = "jax.lax.scan"
Check = Literal["on", "off", "unknown"]


@dataclass(frozen=True)
class Mapped:
    """One function through `shard_map` or `pmap`. `check` says whether replication is checked; of pmap it never is."""

    api: str
    inner: Value
    settings: CallArguments
    mesh: Mesh | None
    check: Check
    in_specs: Value | None
    out_specs: Value | None
    axis: Axis | None
    """The axis of a pmap."""


@dataclass(frozen=True)
class Ran:
    """A body run: its result, what happened, and the events that were divided away."""

    mapped: Mapped
    result: Local
    events: tuple[Event, ...]
    cancelled: frozenset[int]
    manual: Axes
    copies: tuple[Place, ...] = ()
    """Where the copies of random keys are made that every call in sight of a pmapped function gives it."""


def mapped(program: Program, file: FileFacts, call: ast.expr, form: str) -> Iterator[Mapped]:
    """The functions mapped by a `shard_map` or `pmap` call, decorator or partial, wherever the partial is called."""
    found = list(wrappings(program, file, call, form, tuple(MAPS)))
    for one in found:
        yield _read(program, one.api, one.inner, one.settings)
    if found:
        return
    # A partial of it, or what a helper of the project makes: for the functions that it is called with.
    made = program.evaluator.value(Place(file, call))
    if (
        isinstance(made, Transformed)
        and isinstance(made.inner, Api)
        and made.inner.name in MAPS
        and made.call is not None
    ):
        for inner in _mapped_by(program, file, call, 0):
            yield _read(program, made.inner.name, inner, made.call)


def _mapped_by(program: Program, file: FileFacts, node: ast.AST, depth: int) -> Iterator[Value]:
    """The functions that something that maps functions is called with, or decorates."""
    parent = file.parent(node)
    match parent:
        case ast.Call() if parent.func is node and parent.args:
            yield program.evaluator.value(Place(file, parent.args[0]))
        case ast.FunctionDef() if node in parent.decorator_list:
            yield program.evaluator.function(file, parent)
        case ast.Assign(targets=[ast.Name(id=name)]) if depth < 2:
            for use in file.mentions(name):
                if isinstance(use, ast.Name) and isinstance(use.ctx, ast.Load):
                    yield from _mapped_by(program, file, use, depth + 1)


def _read(program: Program, named: str, inner: Value, settings: CallArguments) -> Mapped:
    signature, name = api.SIGNATURES.get(named, ()), MAPS[named]

    def given(*names: str) -> Value | None:
        for one in names:
            place = settings.get(one, signature)
            if place is not None:
                return program.evaluator.value(place, settings.environment)
        return None

    if name == "jax.pmap":
        axis = axes_of(given("axis_name") or Unknown())
        return Mapped(
            name, inner, settings, None, "off", given("in_axes"), given("out_axes"), axis[0] if axis else ""
        )
    check = given("check_vma", "check_rep")
    said: Check = "on" if check is None and not settings.open_keywords else "unknown"
    if isinstance(check, Constant):
        said = "on" if check.value else "off"
    mesh = given("mesh")
    found = (
        [mesh_of(one, program.evaluator) for one in options(program.followed(mesh))]
        if mesh is not None
        else []
    )
    return Mapped(
        name,
        inner,
        settings,
        found[0] if len(found) == 1 else None,
        said,
        given("in_specs"),
        given("out_specs"),
        None,
    )


def run(program: Program, one: Mapped, summed: bool) -> Ran | None:
    """Run the body of a mapped function; None where it is not seen."""
    inner = one.inner
    while isinstance(inner, Transformed) and inner.api.name in (*JIT_WRAPPERS, "jax.named_call"):
        inner = inner.inner
    parameters, written = _parameters(program, inner), definition(program, inner)
    if parameters is None or written is None:
        return None
    if _refused(program, one):
        return None
    manual = _manual(program, one)
    by_jax = summed and one.check == "on" and one.api == "jax.shard_map"
    given = _given(program, one, parameters.positional, parameters.star, written)
    if given is None:
        return None
    given = _copied_states(program, one, _told_by_calls(program, one, given))
    split = NONE.union(*(leaf.over for local in given for leaf in leaves(local) if leaf.kind != "key"))
    for carried in (True, False):
        told, copies = _copied_keys(program, one, given, carried)
        body = Body(program.evaluator, program.followed, manual, by_jax)
        body.split = split
        result = body.calls.apply(Known(inner), told, {}, one.settings.place)
        ran = Ran(one, result, tuple(body.events), frozenset(body.cancelled), manual, copies)
        body.end()
        if all(_same_key(leaf) for leaf in leaves(result)):
            break  # else the keys of the next turn are no copies any more
    return ran


def _same_key(leaf: Leaf) -> bool:
    return leaf.kind != "key" or not leaf.over


def _told_by_calls(program: Program, one: Mapped, given: list[Local]) -> list[Local]:
    """The arguments, with the objects that the first call in sight of the mapped function gives, and what is copies."""
    inner, split = one.inner, one.api == "jax.pmap"
    if not isinstance(inner, Function):
        return given
    for end in program.flow.ends(inner.place.file, inner.node).found:
        if end.kind != "called" or not isinstance(end.place.node, ast.Call):
            continue
        nodes = end.place.node.args
        if any(isinstance(node, ast.Starred) for node in nodes):
            continue
        values = [program.evaluator.value(Place(end.place.file, node)) for node in nodes]
        given = [
            _as_copies(local)
            if node is not None and split and not _is_key(local) and is_copies(program, end.place.file, node) else local
            for local, node in zip_longest(given, nodes[: len(given)])
        ]
        return [
            replace(local, value=value) if isinstance(local, Leaf) and isinstance(value, CallResult) else local
            for local, value in zip_longest(given, values[: len(given)])
            if local is not None
        ]
    return given


def _copied_keys(
    program: Program, one: Mapped, given: list[Local], carried: bool
) -> tuple[list[Local], tuple[Place, ...]]:
    """The arguments, with the random keys of which all calls in sight give copies, and where each call makes them.

    `carried`: what the function returned, given copies, counts as copies too.
    """
    inner = one.inner
    at = [index for index, local in enumerate(given) if _is_key(local)]
    if one.api != "jax.pmap" or not isinstance(inner, Function) or not at:
        return given, ()
    calls = calls_of(program, inner)
    if not calls:
        return given, ()
    result, copies = list(given), list[Place]()
    for index in at:
        local = given[index]
        places = _given_by(calls, inner, index, len(given))
        if places is None or not isinstance(local, Leaf):
            continue
        made = [copied_at(program, place.file, place.node) for place in places]
        if None not in made:
            copies += [place for place in made if place is not None]
        elif not carried or not all(carried_copies(program, place, (inner,)) for place in places):
            continue
        result[index] = replace(local, over=NONE)
    return result, tuple(copies)


def _copied_states(program: Program, one: Mapped, given: list[Local]) -> list[Local]:
    """The arguments, with the states of which all calls in sight give one copy to each device."""
    inner = one.inner
    if one.api != "jax.pmap" or one.axis is None or not isinstance(inner, Function):
        return given
    calls = calls_of(program, inner)
    if not calls:
        return given
    axis = frozenset([one.axis])
    result = list(given)
    for index, local in enumerate(given):
        if isinstance(local, Leaf) and not local.kind and local.over | local.maybe == axis:
            places = _given_by(calls, inner, index, len(given))
            if places is not None and all(carried_copies(program, one, (inner,)) for one in places):
                result[index] = replace(local, over=NONE, maybe=axis, kind=COPIES)
    return result


def _given_by(calls: list[Place], inner: Function, index: int, count: int) -> list[Place] | None:
    """What each of some calls gives a parameter of `count`, by position or name; None where one does not tell."""
    names = inner.positional
    name = names[index] if index < len(names) else ""
    nodes = [_argument(call.node, index, count, name) for call in calls]
    found = [Place(call.file, node) for call, node in zip(calls, nodes, strict=True) if node is not None]
    return found if len(found) == len(calls) else None


def _argument(call: ast.AST, index: int, count: int, name: str) -> ast.expr | None:
    """What a call gives a parameter, by position or `name`: `count` are all there are, a method's receiver included."""
    if not isinstance(call, ast.Call) or any(isinstance(one, ast.Starred) for one in call.args):
        return None
    told = next((one.value for one in call.keywords if one.arg == name), None)
    if told is not None:
        return told
    given = list(call.args)
    if isinstance(call.func, ast.Attribute) and len(given) + len(call.keywords) < count:
        given.insert(0, call.func.value)
    return given[index] if index < len(given) else None


def _is_key(local: Local | None) -> bool:
    return isinstance(local, Leaf) and local.kind == "key"


def _as_copies(local: Local) -> Local:
    return replace(local, over=NONE, maybe=local.over | local.maybe) if isinstance(local, Leaf) else local


def definition(program: Program, value: Value) -> Place | None:
    """Where the function is written that a value runs, through transforms, objects that are called and `lax.scan`."""
    while isinstance(value, Transformed):
        value = scanned(program, value) or value.inner
    if isinstance(value, CallResult):
        value = program.evaluator.attribute(value, "__call__")
        while isinstance(value, Transformed):
            value = value.inner
    return value.place if isinstance(value, Function) else None


def scanned(program: Program, value: Value) -> Value | None:
    """The function that `partial(jax.lax.scan, f)` runs in a loop; None of anything else."""
    if not isinstance(value, Transformed) or value.api.name != "functools.partial" or value.call is None:
        return None
    is_scan = isinstance(value.inner, Api) and value.inner.name == _SCAN
    given = value.call.get("f", ("scan", "f")) if is_scan else None
    return program.evaluator.value(given, value.call.environment) if given is not None else None


def _parameters(program: Program, inner: Value) -> Parameters | None:
    """What a mapped function takes; `partial(jax.lax.scan, f)` takes what `f` does, the second as a stack."""
    looped = scanned(program, inner)
    if looped is None:
        return parameters_of(inner, program.evaluator)
    found = parameters_of(looped, program.evaluator)
    return Parameters(found.positional[:2], min(found.required, 2)) if found is not None else None


def _manual(program: Program, one: Mapped) -> Axes:
    if one.api == "jax.pmap":
        return frozenset([one.axis]) if one.axis is not None else NONE
    named = frozenset(one.mesh.axis_names or ()) if one.mesh is not None else NONE
    specs = [axis for value in (one.in_specs, one.out_specs) for axis in _named(program, value)]
    return named | frozenset(specs)


def _refused(program: Program, one: Mapped) -> bool:
    """Whether jax raises for the specs: they name an axis that `axis_names` leaves to the compiler."""
    place = one.settings.get("axis_names", api.SIGNATURES.get(one.api, ()))
    if place is None:
        return False
    node = place.node
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ("frozenset", "set"):
        node = node.args[0] if node.args else node
    names = program.evaluator.value(Place(place.file, node), one.settings.environment)
    if not isinstance(names, Items) or names.open or names.repeated or not names.items:
        return False
    if not all(isinstance(item, Constant) for item in names.items):
        return False
    left = {axis for value in (one.in_specs, one.out_specs) for axis in _named(program, value)}
    left -= {item.value for item in names.items if isinstance(item, Constant)}
    return any(isinstance(axis, str) for axis in left)


def _named(program: Program, value: Value | None) -> Iterator[Axis]:
    for option in options(value) if value is not None else ():
        match option:
            case Items(items=items):
                for item in items:
                    yield from _named(program, item)
            case Table(entries=entries):
                for _, item in entries:
                    yield from _named(program, item)
            case _:
                spec = spec_axes(program, option)
                for entry in spec or ():
                    yield from entry


def spec_axes(program: Program, value: Value) -> tuple[Axes, ...] | None:
    """The axes of each entry of a spec; None where they are not all told."""
    spec = spec_of(value, program.evaluator)
    if spec is None or spec.open or (isinstance(value, CallResult) and value.call and value.call.keywords):
        return None  # `P(unreduced={"x"})` says of an axis what no entry does
    found = [axes_of(entry.value) if not entry.unconstrained else None for entry in spec.entries]
    return None if None in found else tuple(frozenset(one or ()) for one in found)


def _given(
    program: Program, one: Mapped, names: tuple[str, ...], star: bool, body: Place
) -> list[Local] | None:
    specs = one.in_specs
    if one.api == "jax.pmap":
        return [_pmapped(one, specs, index, name, body) for index, name in enumerate(names)]
    if specs is None:
        return None
    if isinstance(specs, Items) and specs.kind in ("tuple", "list") and not specs.open:
        if len(specs.items) != len(names) and not star:
            return [as_given(program, item, body) for item in specs.items][: len(names)]
        return [as_given(program, item, body) for item in specs.items]
    return [as_given(program, specs, body)] * len(names)


def _pmapped(one: Mapped, axes: Value | None, index: int, name: str, body: Place) -> Local:
    value: Value = axes if axes is not None else Constant(0)
    if isinstance(value, Items) and not value.open:
        value = value.items[index] if index < len(value.items) else Unknown()
    axis = frozenset([one.axis]) if one.axis is not None else NONE
    if value == Constant(None):
        return Leaf(traced=True)
    if not isinstance(value, Constant):
        return Leaf(maybe=axis, traced=True)
    key = "key" if any(word in name.lower() for word in ("key", "rng")) else ""
    if any(word in name.lower() for word in _STATES):
        return Leaf(maybe=axis, traced=True)
    return Leaf(axis, traced=True, kind=key, origin=body)


# What is the same on all devices though it comes split into one copy for each: by what people call it.
_STATES = ("state", "param", "variables", "opt", "model", "ema", "weights", "step", "lr", "config", "replica")


def as_given(program: Program, spec: Value, body: Place) -> Local:
    """An argument on each device, by its spec."""
    match spec:
        case Items(items=items, open=False) if spec.kind in ("tuple", "list"):
            return Tree(tuple(as_given(program, item, body) for item in items))
        case Table(entries=entries, open=False):
            return Record(tuple((key, as_given(program, item, body)) for key, item in entries))
        case Constant(value=None):
            return Leaf(traced=True, kind="key")
    found = [spec_axes(program, option) for option in options(spec)]
    if any(one is None for one in found):
        return Leaf(open=True, traced=True)
    sets = [frozenset(axis for entry in one or () for axis in entry) for one in found]
    over = frozenset.intersection(*sets)
    every = frozenset.union(*sets)
    # What is whole on every device may be a key; only what jax.random is given counts.
    kind = "key" if not every else ""
    dims = found[0] if len(found) == 1 else None
    return Leaf(over, every - over, False, NONE, kind, True, frozenset(), body, dims if every else None)


def against(program: Program, result: Local, specs: Value | None) -> Iterator[tuple[Leaf, Axes, Value]]:
    """The leaves of a result, each with the axes its out spec names; those not told are left out."""
    if specs is None:
        return
    if isinstance(specs, Items) and specs.kind in ("tuple", "list") and not specs.open:
        if isinstance(result, Tree) and len(result.items) == len(specs.items):
            for item, spec in zip(result.items, specs.items, strict=True):
                yield from against(program, item, spec)
        elif isinstance(result, Leaf):
            for spec in specs.items:
                yield from against(program, result, spec)
        return
    if isinstance(specs, Table):
        for key, spec in specs.entries:
            inner = (
                result.get(key)
                if isinstance(result, Record)
                else result
                if isinstance(result, Leaf)
                else None
            )
            if inner is not None:
                yield from against(program, inner, spec)
        return
    if len(options(specs)) > 1:
        return
    axes = spec_axes(program, specs)
    if axes is None:
        return
    named = frozenset(axis for entry in axes for axis in entry)
    for leaf in leaves(result):
        yield leaf, named, specs
