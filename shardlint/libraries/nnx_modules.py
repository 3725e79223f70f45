"""flax NNX: Modules and their states: `split`, `merge`, `state`, `update`, and the shardings of states.

Facts of flax, each tried: `split` and `state` give the Variables of the Module, of which `device_put` and constraints
make others; `update` writes the values of these into the Variables of a Module; `merge` makes a Module that has them.
"""

from __future__ import annotations

from dataclasses import replace

from shardlint.layouts.layout import Layout, Mesh
from shardlint.layouts.values import (
    AnyTree,
    Call,
    ClassValue,
    DictValue,
    Instance,
    ListValue,
    PartitionSpec,
    Sharding,
    State,
    Unknown,
    Value,
    as_operand,
)
from shardlint.libraries.jax_sharding import check_axes
from shardlint.libraries.nnx_objects import (
    HOME,
    Object,
    Variable,
    VariableShardings,
    copy_graph,
    merge_graphs,
    put_state,
    select_by_filters,
    state_of,
)
from shardlint.libraries.nnx_variables import spec_of
from shardlint.libraries.registry import register_function
from shardlint.source.lazy import dataclass

_ANY = AnyTree(Unknown())


@dataclass(eq=False)
class GraphDef(Instance):
    """The structure of a graph, with a copy of it."""

    template: Value = None
    transparent = False


@register_function(*(f"{HOME}.{one}.__new__" for one in ("Module", "Object", "Pytree")))
def make_object(call: Call) -> Value:
    """An object of a class of the project, before its `__init__`."""
    of = call.args[0]
    return Object(of if isinstance(of, ClassValue) else None, region=call.interpreter.region)


@register_function(f"{HOME}.Module.__call__")
def call_layer(call: Call) -> Value:
    """A layer that is called."""
    held = call.args[0]
    if not isinstance(held, Object) or held.apply is None:
        return Unknown("what a Module gives")
    return held.apply(replace(call, args=call.args[1:]), held)


@register_function(f"{HOME}.Module train eval set_attributes")
def set_mode(call: Call) -> Value:
    """Sets what layers do: without noise and with known statistics in `eval`."""
    run, held = call.interpreter, call.args[0]
    if call.function_name == "set_attributes" or len(call.args) > 1 or call.keywords or call.open:
        run.forget_changed((held,))
        return None
    quiet = call.function_name == "eval"
    seen: set[int] = set()

    def visit_value(value: Value) -> None:
        value = run.current_copy(value) if isinstance(value, Instance) else value
        if id(value) in seen:
            return
        seen.add(id(value))
        if isinstance(value, Object):
            for name in ("deterministic", "use_running_average"):
                if name in value.attributes:
                    run.write_attribute(value, name, quiet)
        for one in _child_values(value):
            visit_value(one)

    visit_value(held)
    return None


def _child_values(value: Value) -> list[Value]:
    match value:
        case Object(attributes=entries) | DictValue(entries=entries):
            return list(entries.values())
        case ListValue(items=items):
            return list(items)
        case tuple():
            return list(value)
    return []


@register_function(f"{HOME} List Dict data static")
def make_container(call: Call) -> Value:
    """Lists and dicts that may hold Modules; `data` and `static` mark a value."""
    if call.function_name in ("data", "static"):
        return call.argument_at(0, "value")
    if call.function_name == "Dict":
        return call.interpreter.libraries["builtins.dict"](call)
    if not call.args:
        return ListValue([], call.open, region=call.interpreter.region)
    return call.interpreter.libraries["builtins.list"](replace(call, name="builtins.list"))


# states


def take_state(call: Call, node: Value, filters: tuple[Value, ...]) -> Value:
    """The state of a graph: in one part without filters, in a tuple with several."""
    if not isinstance(node, Object | Variable | ListValue | DictValue | tuple):
        return _ANY if len(filters) < 2 else tuple(_ANY for _ in filters)
    state = state_of(call.interpreter, node)
    if not filters:
        return state
    found = select_by_filters(state, filters)
    if found is None:
        return _ANY if len(filters) == 1 else tuple(_ANY for _ in filters)
    return found[0] if len(filters) == 1 else tuple(found)


@register_function(f"{HOME} state variables")
def state_of_graph(call: Call) -> Value:
    """The Variables of a graph by their paths."""
    if call.open:
        return Unknown("a state")
    return take_state(call, call.argument_at(0, "node"), call.args[1:])


@register_function(f"{HOME} split")
def split_graph(call: Call) -> Value:
    """The structure of a graph, and its state in one part for each filter."""
    if call.open:
        return Unknown("a structure and states")
    node, filters = call.argument_at(0, "node"), call.args[1:]
    found = take_state(call, node, filters)
    states = found if len(filters) > 1 and isinstance(found, tuple) else (found,)
    known = isinstance(node, Object | Variable | ListValue | DictValue | tuple)
    template = copy_graph(call.interpreter, node, lambda one: one.with_parts({"value": Unknown("a value")})
                      if isinstance(one, Variable) else Layout()) if known else Unknown("a graph")  # fmt: skip
    return (GraphDef(None, {}, region=call.interpreter.region, template=template), *states)


@register_function(f"{HOME} graphdef")
def graph_definition(call: Call) -> Value:
    """The structure of a graph."""
    found = split_graph(replace(call, args=call.args[:1]))
    return found[0] if isinstance(found, tuple) else Unknown("a structure")


@register_function(f"{HOME} merge")
def merge_graph(call: Call) -> Value:
    """A graph of a structure and states."""
    structure = call.argument_at(0, "graphdef")
    if not isinstance(structure, GraphDef) or call.open or call.keywords:
        return Unknown("a graph")
    return merge_graphs(call.interpreter, structure.template, call.args[1:])


@register_function(f"{HOME} update")
def update_graph(call: Call) -> Value:
    """Writes the values of states into a graph."""
    node = call.argument_at(0, "node")
    if call.open:
        call.interpreter.forget_changed(call.args)
    for one in call.args[1:]:
        put_state(call.interpreter, node, one, call.place)
    return None


@register_function(f"{HOME} clone")
def clone_graph(call: Call) -> Value:
    """A graph with Variables of its own."""
    def copy_again(one: Variable | Layout) -> Value:
        if isinstance(one, Layout):
            return one
        made_ = one.with_parts(dict(one.attributes))
        made_.region = call.interpreter.region
        return made_

    return copy_graph(call.interpreter, call.argument_at(0, "node"), copy_again)


@register_function(f"{HOME} to_pure_dict as_pure pure to_arrays", f"{HOME}.State to_pure_dict")
def to_pure_dict(call: Call) -> Value:
    """A state with arrays in place of Variables."""
    return _pure_tree(call.argument_at(0, "state") if call.args else Unknown("a state"))


def _pure_tree(tree: Value) -> Value:
    if isinstance(tree, DictValue):
        return DictValue({key: _pure_tree(one) for key, one in tree.entries.items()}, tree.open)
    return as_operand(tree)


@register_function(f"{HOME} display tabulate has_data")
def return_nothing(call: Call) -> Value:
    """Changes nothing."""
    return Unknown("text")


# specs and shardings


def _specs_of_tree(call: Call, tree: Value) -> Value:
    """A tree with specs in place of the arrays of Variables."""
    if isinstance(tree, Variable):
        found = tree.with_parts({"value": _spec_of_variable(call, tree)})
        found.region = call.interpreter.region
        return found
    if isinstance(tree, DictValue):
        kind = State if isinstance(tree, State) else DictValue
        return kind({key: _specs_of_tree(call, one) for key, one in tree.entries.items()}, tree.open)
    if isinstance(tree, ListValue):
        return ListValue([_specs_of_tree(call, one) for one in tree.items], tree.open)
    if isinstance(tree, Object):
        return tree.with_tree({name: _specs_of_tree(call, one) for name, one in tree.tree_children().items()})
    if isinstance(tree, tuple):
        return tuple(_specs_of_tree(call, one) for one in tree)
    return PartitionSpec(()) if isinstance(tree, Layout) else Unknown("a spec")


def _spec_of_variable(call: Call, variable: Variable) -> PartitionSpec:
    """The names of a Variable as a spec; one without names is replicated."""
    metadata = variable.metadata
    if metadata is None or metadata.open:
        return PartitionSpec((), True)
    names = metadata.entries.get("out_sharding")
    if names is None or names == ():
        return PartitionSpec(()) if isinstance(variable.as_operand, Layout) else PartitionSpec((), True)
    return spec_of(call, names, metadata.entries) or PartitionSpec((), True)


@register_function(f"{HOME} get_partition_spec")
def get_partition_spec(call: Call) -> Value:
    """The specs of a state, each in its Variable."""
    tree = call.argument_at(0, "tree")
    return _ANY if isinstance(tree, Unknown | AnyTree) else _specs_of_tree(call, tree)


@register_function(f"{HOME} get_named_sharding")
def get_named_sharding(call: Call) -> Value:
    """The shardings of a state, each in its Variable."""
    tree, mesh = call.argument_at(0, "tree"), call.argument_at(1, "mesh")
    specs = _specs_of_tree(call, tree) if not isinstance(tree, Unknown | AnyTree) else None
    if not isinstance(specs, DictValue):
        return VariableShardings({}, True)
    found = _shardings_of_tree(call, specs, mesh if isinstance(mesh, Mesh) else Unknown("a mesh"))
    return VariableShardings(found.entries, found.open) if isinstance(found, DictValue) else Unknown("shardings")


def _shardings_of_tree(call: Call, tree: Value, mesh: Mesh | Unknown) -> Value:
    if isinstance(tree, DictValue):
        return State(
            {key: _shardings_of_tree(call, one, mesh) for key, one in tree.entries.items()}, tree.open
        )
    if not isinstance(tree, Variable):
        return Unknown("a sharding")
    spec = tree.as_operand
    raises = isinstance(mesh, Mesh) and isinstance(spec, PartitionSpec) and not check_axes(call, mesh, spec, tell=True)
    known = isinstance(spec, PartitionSpec) and not raises
    return tree.with_parts({"value": Sharding(mesh, spec) if known else Unknown("a sharding")})


@register_function(f"{HOME}.Module sow perturb")
def sow_value(call: Call) -> Value:
    """Stores a value in the Module, in a Variable of which no more is known."""
    held, name = call.args[0], call.argument_at(2, "name")
    if isinstance(held, Object) and isinstance(name, str):
        call.interpreter.write_attribute(held, name, Unknown("what is sown"))
    elif isinstance(held, Object):
        call.interpreter.forget_changed((held,))
    return call.argument_at(3, "value") if call.function_name == "perturb" else Unknown("a condition")

