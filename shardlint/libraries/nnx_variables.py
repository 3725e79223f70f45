"""flax NNX: how Variables are made, where their names place them, and what reads and writes them; keys of `Rngs`.

Facts of flax, each tried. Since flax 0.12.0 a Variable with names is placed when it is made, also within jit and
`eval_shape`: by the mesh of its metadata, else by the mesh in context, where there must be one. Since 0.12.2 that is
the mesh of `jax.set_mesh` alone, and the axes may be Explicit. Rules of logical names replace names one by one; what
no rule names is an axis. Names that are empty, and None, ask for nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from shardlint.layouts.layout import Layout, Mesh
from shardlint.layouts.values import (
    MISSING,
    Call,
    ClassValue,
    DictValue,
    Instance,
    Library,
    Native,
    PartitionSpec,
    Sharding,
    Unknown,
    Value,
    as_operand,
    known_items,
)
from shardlint.libraries.contexts import Entered, set_context
from shardlint.libraries.flax_boxes import ONLY_SET_MESH, RULES, find_mesh_of_flax
from shardlint.libraries.jax_initializers import RANDOM_MAKERS
from shardlint.libraries.jax_random import DRAWS
from shardlint.libraries.jax_sharding import check_axes
from shardlint.libraries.meeting import fresh_array, layout_as_array
from shardlint.libraries.nnx_objects import (
    HOME,
    VARIABLES,
    Annotated,
    Object,
    Variable,
    check_unsharded_replacement,
)
from shardlint.libraries.registry import register_function
from shardlint.model.values import Place

_PLACED_WHEN_MADE = (0, 12)
# `variable[...] = x` replaces the array before.
_WRITES_INTO = (0, 12, 1)
_NAMES = ("out_sharding", "sharding", "sharding_names")
_EAGER = "eager sharding of nnx"
_DRAWN = " ".join((*DRAWS.values(), "permutation choice categorical dirichlet"))
_HOOKS = ("on_create_value", "on_get_value", "on_set_value", "create_value", "get_value", "set_value")


def make_variable(
    call: Call, kind: str, value: Value, given: Mapping[str, Value], of: ClassValue | None = None
) -> Variable:
    """A Variable around a value, with metadata; placed by its names."""
    metadata = dict(given)
    if isinstance(value, Annotated):
        metadata, value = {**metadata, **value.metadata}, value.value
    value = as_operand(value)
    names = next((metadata.pop(one) for one in _NAMES if one in metadata), None)
    hooked = any(metadata.get(one, ()) not in ((), None) for one in _HOOKS)
    own = of is not None and any(of.find_attribute(one) is not MISSING for one in _HOOKS)
    if hooked or own or call.open:
        value = Unknown("what a hook makes of it")
    else:
        value = _place_in_variable(call, value, names, metadata)
    # Its own attribute `sharding` is that of the array.
    known = {**metadata, **dict.fromkeys(("out_sharding", "sharding_names"), names)}
    held = DictValue(known if names is not None else metadata, call.open)
    placed = _is_placed(call, names, metadata)
    return Variable(of, {"value": value}, region=call.interpreter.region, kind=kind, metadata=held, placed=placed)


def _is_placed(call: Call, names: Value, metadata: Mapping[str, Value]) -> bool:
    """Return whether flax shards a Variable of these names when it is made, or raises."""
    run = call.interpreter
    eager = metadata.get("eager_sharding", run.contexts.get(_EAGER, True))
    spec = spec_of(call, names, metadata)
    return (
        eager is True
        and run.releases.get("flax", (99,)) >= _PLACED_WHEN_MADE
        and spec is not None
        and any(spec.axes_of_entries())
    )


def _place_in_variable(call: Call, value: Value, names: Value, metadata: Mapping[str, Value]) -> Value:
    """An array as a Variable with these names holds it."""
    run = call.interpreter
    if names is None or names == ():
        return value
    anywhere = Layout(value.shape, value.dtype, varying=value.varying) if isinstance(value, Layout) else value
    release = run.releases.get("flax", (99,))
    eager = metadata.get("eager_sharding", run.contexts.get(_EAGER, True))
    if eager is False:
        return value
    if release < _PLACED_WHEN_MADE or eager is not True:
        return anywhere
    own, mesh = metadata.get("mesh"), find_mesh_of_flax(call)
    if release < ONLY_SET_MESH and own is not None:
        return anywhere
    if isinstance(names, Sharding):
        if isinstance(mesh, Mesh) or own is not None:  # it asserts that both are the same mesh
            return anywhere
        own, names = names.mesh, names.spec
    mesh = mesh if own is None else own
    spec = spec_of(call, names, metadata)
    if mesh is None:
        report_no_mesh(call)
        return Unknown("what raises: no mesh")
    if not isinstance(mesh, Mesh) or spec is None or not isinstance(value, Layout):
        return anywhere
    if not check_axes(call, mesh, spec, tell=True):
        return Unknown("what raises")
    if not mesh.is_automatic and not mesh.is_explicit:
        return anywhere
    function_ = "jax.reshard" if mesh.is_explicit else "jax.lax.with_sharding_constraint"
    return run.call_value(Library(function_), (value, Sharding(mesh, spec)), {}, call.function_place)


def report_no_mesh(call: Call) -> None:
    """Record a Variable with names that finds no mesh, at the call that makes its module, outside of any `__init__`."""
    run = call.interpreter
    places = [*(one for one in run.calls if isinstance(one, Place)), call.place]
    inside = [_is_in_init(one) for one in places]
    first = max(inside.index(True) - 1, 0) if True in inside else len(places) - 1
    legacy = "yes" if run.legacy is not None else ""
    line = str(call.place.line)
    run.record_violation(
        "variable.meshless", places[first], *(places[:first] or (None,)), legacy=legacy, line=line,
        file=call.place.file.path.name,
    )  # fmt: skip


def _is_in_init(place: Place) -> bool:
    function = place.file.evaluation_scope(place.node).enclosing_function()
    return function is not None and function.name == "__init__"


def spec_of(call: Call, names: Value, metadata: Mapping[str, Value]) -> PartitionSpec | None:
    """The spec that names stand for; None where it is not known."""
    spec = names if isinstance(names, PartitionSpec) else PartitionSpec(names) if isinstance(names, tuple) else None
    if spec is None or spec.open or None in spec.axes_of_entries():
        return None
    replaced: dict[str, Value] = {}
    for rules in (call.interpreter.contexts.get(RULES, ()), metadata.get("sharding_rules") or ()):
        pairs = [known_items(one) for one in known_items(rules) or ()]
        if known_items(rules) is None or any(one is None or len(one) != 2 for one in pairs):
            return None
        for one in pairs:
            if one is not None and isinstance(one[0], str):
                replaced[one[0]] = one[1]
    entries = tuple(replaced.get(one, one) if isinstance(one, str) else one for one in spec.entries)
    found = PartitionSpec(entries)
    return None if None in found.axes_of_entries() else found


def _make_variable(call: Call) -> Value:
    """A Variable as a program makes it: directly, or one of a class of the project."""
    of = call.args[0] if call.args and isinstance(call.args[0], ClassValue) and call.name.endswith("__new__") else None
    args = call.args[1:] if of is not None else call.args
    kind = call.name.removesuffix(".__new__").rpartition(".")[2]
    keywords = dict(call.keywords)
    value = args[0] if args else keywords.pop("value", Unknown("a value"))
    if of is not None and of.find_attribute("__init__") is not MISSING:
        made = make_variable(call, kind, Unknown("a value"), {}, of)
        call.interpreter.doubts += 1
        return made
    return make_variable(call, kind, value, keywords, of)


for _kind in VARIABLES:
    register_function(f"{HOME}.{_kind}", f"{HOME}.{_kind}.__new__")(_make_variable)


@register_function(f"{HOME} with_partitioning with_metadata")
def with_metadata(call: Call) -> Value:
    """An initializer whose results carry names, a mesh and other metadata."""
    keywords = dict(call.keywords)
    given = keywords.pop("initializer", call.argument_at(0, "initializer"))
    if call.function_name == "with_partitioning":
        names = keywords.pop("sharding", call.argument_at(1, "sharding"))
        mesh = keywords.pop("mesh", call.argument_at(2, "mesh", None))
        keywords |= {"out_sharding": names} | ({"mesh": mesh} if mesh is not None else {})
    if call.open:
        return Unknown("an initializer")

    def initialize_with_metadata(again: Call) -> Value:
        made = again.interpreter.call_value(given, again.args, again.keywords, again.place, again.open)
        if isinstance(made, Annotated):
            return Annotated(made.value, {**keywords, **made.metadata})
        return Annotated(made, keywords)

    return Native(call.name, initialize_with_metadata)


@register_function(f"{HOME} use_eager_sharding")
def use_eager_sharding(call: Call) -> Value:
    """Turns it on or off that Variables are placed when they are made: at once, or for a block."""
    sets = {_EAGER: call.argument_at(0, "value")}
    set_context(call.interpreter, sets)
    return Entered(call.name, sets=sets)


@register_function("flax.config.update", "flax.configurations.config.update")
def configure_sharding(call: Call) -> Value:
    """The same setting by its name."""
    if call.argument_at(0, "name") in ("flax_always_shard_variable",):
        use_eager_sharding(replace(call, args=call.args[1:2]))
    return None


# reading and writing


@register_function(f"{HOME}.Variable get_value get_raw_value copy replace")
def read_variable(call: Call) -> Value:
    """Its value; of `copy` and `replace`, a Variable like it."""
    held = call.args[0]
    if not isinstance(held, Variable):
        return Unknown("a value")
    if call.function_name in ("copy", "replace"):
        value = call.argument_at(1, "value", held.as_operand)
        made = held.with_parts({"value": as_operand(value)})
        made.region = call.interpreter.region
        return made
    index = call.argument_at(-1, "index", ...)
    return held.as_operand if index is ... else Unknown("a part of a value")


@register_function(f"{HOME}.Variable set_value set_raw_value copy_from update_from_state")
def write_variable(call: Call) -> Value:
    """Replaces its value."""
    held, value = call.args[0], call.argument_at(1, "value", Unknown("a value"))
    if isinstance(held, Instance):
        whole = call.argument_at(-1, "index", ...) is ...
        if whole:
            check_unsharded_replacement(call.interpreter, held, value, call.place)
        call.interpreter.write_attribute(
            held, "value", as_operand(value) if whole else _array_after_update(held)
        )
    return None


@register_function(f"{HOME}.Variable.__setattr__")
def write_value(call: Call) -> Value:
    """Replaces its value by an assignment; the interpreter writes it."""
    if call.args[1] == "value":
        check_unsharded_replacement(call.interpreter, call.args[0], call.args[2], call.place)
    return None


@register_function(f"{HOME}.Variable.__setitem__")
def write_item(call: Call) -> Value:
    """Writes into its array: with `...` the array given, if it is like the one before, or else this one."""
    held, index, value = call.args[0], call.args[1], call.args[2]
    given = as_operand(value)
    alike = isinstance(given, Layout) and isinstance(held.as_operand, Layout) and given == held.as_operand
    if index is ... and call.interpreter.releases.get("flax", (99,)) < _WRITES_INTO:
        check_unsharded_replacement(call.interpreter, held, given, call.place)
        alike = True
    call.interpreter.write_attribute(
        held, "value", given if index is ... and alike else _array_after_update(held)
    )
    return None


def _array_after_update(instance: Instance) -> Value:
    """An array after some of it was replaced."""
    before = instance.as_operand
    if not isinstance(before, Layout):
        return Unknown("a value") if not isinstance(before, DictValue) else before
    explicit = before.is_explicit
    return replace(before, spec=before.spec if explicit else None, committed=before.committed or None,
                   mesh=before.mesh if explicit or before.committed else None, varying=None)  # fmt: skip


# keys


@register_function(f"{HOME} Rngs RngStream")
def make_rngs(call: Call) -> Value:
    """Streams by name, each with a key and a count."""
    made = Object(None, {}, call.open, region=call.interpreter.region, kind="Rngs")
    given = dict(call.keywords)
    first = given.pop("default", call.argument_at(0, "default", None))
    if first is not None:
        given["default"] = first
    if isinstance(first, DictValue):
        given = {**given, **{key: one for key, one in first.entries.items() if isinstance(key, str)}}
        given.pop("default", None)
        made.open = made.open or first.open
    made.attributes = {name: make_stream(call, one) for name, one in given.items()}
    return made


def make_stream(call: Call, seed: Value) -> Value:
    """A stream of keys that begins with a seed or a key."""
    key = fresh_array(call, (), "key") if isinstance(seed, int) else replace(layout_as_array(seed), dtype="key")
    plain = replace(call, keywords={}, open=False)
    parts = {
        "key": make_variable(plain, "RngKey", key, {}),
        "count": make_variable(plain, "RngCount", fresh_array(call, key.shape, "uint32"), {}),
    }
    return Object(None, dict(parts), region=call.interpreter.region, kind="RngStream")


def next_key(call: Call, source: Value, name: str = "default") -> Layout:
    """The next key of a stream, or of the one of a name in `Rngs`."""
    run = call.interpreter
    held = run.current_copy(source) if isinstance(source, Instance) else source
    if isinstance(held, Object) and held.kind == "Rngs":
        held = held.attributes.get(name, held.attributes.get("default", Unknown("a stream")))
    if not isinstance(held, Object) or held.kind != "RngStream":
        return Layout(dtype="key")
    held = run.current_copy(held)
    key, count = (held.attributes.get(one, Unknown("a key")) for one in ("key", "count"))
    if isinstance(count, Variable):
        run.write_attribute(count, "value", Layout((), "uint32"))
    found = layout_as_array(run.current_copy(key) if isinstance(key, Variable) else key)
    alone = run.mesh is None and (run.mesh_known or run.legacy is not None)
    if run.traced or (found.committed is False and alone) or (found.committed and found.mesh == run.mesh):
        return replace(found, dtype="key", shape=())
    return Layout((), "key", varying=found.varying)


@register_function(f"{HOME}.Rngs.__call__", f"{HOME}.RngStream.__call__")
def draw_key(call: Call) -> Value:
    """The next key."""
    return next_key(call, call.args[0])


@register_function(f"{HOME}.Rngs fork split broadcast", f"{HOME}.RngStream fork split broadcast")
def fork_streams(call: Call) -> Value:
    """Streams with new keys, or with so many of them."""
    held, count = call.args[0], call.keywords.get("split", call.argument_at(1, "k", None))
    if not isinstance(held, Object) or not isinstance(count, int | None) or call.open:
        return Unknown("streams")

    def another_stream(value: Value) -> Value:
        key = next_key(call, value)
        if count is not None:
            key = layout_as_array(
                call.interpreter.call_value(Library("jax.random.split"), (key, count), {}, call.place)
            )
        return make_stream(call, key)

    if held.kind == "RngStream":
        return another_stream(held)
    return Object(None, {name: another_stream(one) for name, one in held.attributes.items()},
                  region=call.interpreter.region, kind="Rngs")  # fmt: skip


@register_function(f"{HOME}.Rngs {_DRAWN}", f"{HOME}.RngStream {_DRAWN}")
def drawn_by_stream(call: Call) -> Value:
    """Random numbers, drawn with the next key."""
    run, function_ = call.interpreter, Library(f"jax.random.{call.function_name}")
    return run.call_value(
        function_, (next_key(call, call.args[0]), *call.args[1:]), call.keywords, call.place, call.open
    )


@register_function(f"{HOME}.Rngs {RANDOM_MAKERS}", f"{HOME}.RngStream {RANDOM_MAKERS}")
def initializer_of_stream(call: Call) -> Value:
    """An initializer that draws with the next key."""
    run, maker = call.interpreter, Library(f"jax.nn.initializers.{call.function_name}")
    made = run.call_value(maker, call.args[1:], call.keywords, call.place, call.open)
    return Native(call.name, lambda again: run.call_value(
        made, (next_key(again, call.args[0]), *again.args), again.keywords, again.place, again.open
    ))  # fmt: skip
