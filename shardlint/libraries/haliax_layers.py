"""haliax: scans, folds and maps over a named axis, and the layers of `haliax.nn`.

Facts of haliax 1.4, each tried: arrays with the axis give a row each, plain arrays with dimensions one along their
first, others go whole; results have the axis in front. A layer's weights are drawn, so the mapping in context places
them, and its biases are made where jax makes them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import field, replace
from itertools import pairwise

from shardlint.layouts.attributes import attribute_of_value
from shardlint.layouts.layout import Layout, Size, are_surely_different
from shardlint.layouts.values import (
    MISSING,
    AnyTree,
    Call,
    Instance,
    Library,
    Native,
    Unknown,
    Value,
)
from shardlint.libraries.haliax_axes import (
    Axis,
    NamedArray,
    axes_of,
    call_haliax,
    call_jax,
    make_named,
    map_named,
    named_leaves,
    permute_axes,
    positions_of_axes,
    record_violation,
    selected_axes,
)
from shardlint.libraries.haliax_mappings import auto_sharded
from shardlint.libraries.registry import register_function
from shardlint.source.lazy import dataclass

_ANY = AnyTree(Unknown())


# rows along an axis


def _gives_rows(leaf: Value, axis: tuple[str, Size]) -> bool:
    """Return whether an array has a row for each entry of an axis: one with the axis, or a plain one with
    dimensions.
    """
    if isinstance(leaf, NamedArray):
        own = {one.name: one.size for one in leaf.axes or ()}
        return axis[0] in own and not are_surely_different(own[axis[0]], axis[1])
    return isinstance(leaf, Layout) and leaf.rank != 0


def _rows_of_trees(call: Call, trees: tuple[Value, ...], axis: tuple[str, Size]) -> list[Value]:
    """The arrays of trees that give a row each, those with the axis with it in front."""
    found: list[Value] = []

    def note_rows(leaf: Value) -> Value:
        if not _gives_rows(leaf, axis):
            return leaf
        if isinstance(leaf, NamedArray):
            names = [axis[0], *(one for one in leaf.axis_names if one != axis[0])]
            found.append(permute_axes(call, leaf, names).plain_array)
        else:
            found.append(leaf)
        return leaf

    map_named(note_rows, trees)
    return found


def _with_rows(call: Call, trees: tuple[Value, ...], axis: tuple[str, Size], rows: Iterator[Value]) -> Value:
    """The trees with a row in the place of each array that has some."""

    def take_row(leaf: Value) -> Value:
        if not _gives_rows(leaf, axis):
            return leaf
        if isinstance(leaf, NamedArray):
            return make_named(call, next(rows), [each for each in leaf.axes or () if each.name != axis[0]])
        return next(rows)

    return map_named(take_row, trees)


def _with_axis(call: Call, tree: Value, axis: Axis) -> Value:
    """Results with an axis in front, of which the arrays have the dimension already."""

    def add_axis(leaf: Value) -> Value:
        if not isinstance(leaf, NamedArray):
            return leaf
        array = leaf.plain_array
        if array.shape and array.shape[0] is None:
            array = replace(array, shape=(axis.size, *array.shape[1:]))
        return make_named(call, array, (axis, *leaf.axes) if leaf.axes is not None else None)

    return map_named(add_axis, tree) if not isinstance(tree, Unknown) else tree


def _axis_with_size(axis: tuple[str, Size], rows: list[Value]) -> Axis:
    """The axis of a scan, whose size its arrays tell where it is given by name."""
    sizes = [one.shape[0] for one in rows if isinstance(one, Layout) and one.shape]
    return Axis(axis[0], sizes[0] if axis[1] is None and sizes else axis[1])


@register_function("haliax scan fold map")
def run_scan(call: Call) -> Value:
    """A function that runs a body for each entry along an axis."""
    body, chosen = (
        call.argument_at(0, "f" if "f" in call.keywords else "fn"),
        selected_axes(call.argument_at(1, "axis")),
    )
    if chosen is None or len(chosen) != 1 or call.open:
        return Unknown("a scan over an axis that is not known")
    return Native(call.name, lambda again: _run_scan(call.function_name, body, chosen[0], again))


def _run_scan(kind: str, body: Value, axis: tuple[str, Size], call: Call) -> Value:
    """Return the result of a scan, fold or map. The first argument is the carry, except for a map."""
    run = call.interpreter
    init, args = (None, call.args) if kind == "map" else (call.args[0] if call.args else Unknown(), call.args[1:])
    given = (*args, *call.keywords.values())
    if call.open or any(isinstance(one, AnyTree) for one in given):
        return (_ANY, _ANY) if kind == "scan" else _ANY
    rows = _rows_of_trees(call, given, axis)
    along = _axis_with_size(axis, rows)

    def run_scan_body(again: Call) -> Value:
        carry, own = again.args
        found = _with_rows(call, given, axis, iter(own))
        positional, named = found[: len(args)], dict(zip(call.keywords, found[len(args) :], strict=True))
        first = () if kind == "map" else (carry,)
        left = run.call_value(body, (*first, *positional), named, call.place)
        return left if kind == "scan" else (None, left) if kind == "map" else (left, None)

    native = Native("haliax.scan", run_scan_body)
    found = run.call_value(
        Library("jax.lax.scan"), (native, init, tuple(rows)), {"length": along.size}, call.place
    )
    if not isinstance(found, tuple):
        return Unknown("what a scan gives")
    after, results = found[0], _with_axis(call, found[1], along)
    return (after, results) if kind == "scan" else results if kind == "map" else after


@register_function("haliax vmap")
def run_vmap(call: Call) -> Value:
    """A function that runs for each entry along an axis at once."""
    body, chosen = call.argument_at(0, "fn"), selected_axes(call.argument_at(1, "axis"))
    plain = set(call.keywords) <= {"fn", "axis"} and not call.open
    if chosen is None or len(chosen) != 1 or not plain:
        return Unknown("a vmap over axes that are not followed")
    return Native(call.name, lambda again: _run_vmap(body, chosen[0], again))


def _run_vmap(body: Value, axis: tuple[str, Size], call: Call) -> Value:
    run = call.interpreter
    given = (*call.args, *call.keywords.values())
    if call.open or any(isinstance(one, AnyTree) for one in given):
        return _ANY
    for one in named_leaves(given):
        if axis[0] in one.axis_names and positions_of_axes(call, one, (axis,)) is None:
            return Unknown("what raises")
    rows = _rows_of_trees(call, given, axis)
    along = _axis_with_size(axis, rows)
    count = len(call.args)

    def run_vmap_body(again: Call) -> Value:
        found = _with_rows(call, given, axis, iter(again.args))
        return run.call_value(body, found[:count], dict(zip(call.keywords, found[count:], strict=True)), call.place)

    if not rows:  # jax is told how many there are
        rows = [Layout((along.size,), "int32", host=True, committed=False, varying=frozenset())]
    mapped = run.call_value(Library("jax.vmap"), (Native("haliax.vmap", run_vmap_body),), {}, call.place)
    return _with_axis(call, run.call_value(mapped, tuple(rows), {}, call.place), along)


# layers


@dataclass(eq=False)
class Layer(Instance):
    """An object of a layer of `haliax.nn`: its arrays are attributes, what jax does not see is in `fields`."""

    kind: str = ""
    fields: dict[str, Value] = field(default_factory=dict)

    def library_classes(self) -> frozenset[str]:
        """The classes that it is of."""
        return frozenset((f"haliax.nn.{self.kind}", "equinox.Module"))

    def with_parts(self, attributes: dict[str, Value]) -> Instance:
        """The same layer with other arrays."""
        return Layer(None, attributes, self.open, region=self.region, kind=self.kind, fields=self.fields)

    def is_like(self, other: Instance) -> bool:
        """Return whether both are of one kind, with equal fields."""
        return isinstance(other, Layer) and (self.kind, self.fields) == (other.kind, other.fields)

    def computed_attribute(self, name: str) -> Value:
        """A field."""
        return self.fields.get(name, MISSING)


def _make_layer(call: Call, kind: str, parts: dict[str, Value], **fields: Value) -> Value:
    return Layer(None, parts, region=call.interpreter.region, kind=kind, fields=fields)


def _make_weight(call: Call, axes: Value) -> Value:
    """A weight that is drawn, and scaled."""
    drawn = call_haliax(call, "random.truncated_normal", call.argument_at(-1, "key"), axes, -3, 3)
    return call_haliax(call, "multiply", drawn, 1.0)


@register_function("haliax.nn.Linear.init")
def make_linear(call: Call) -> Value:
    """`weight` has the axes of the output and the input, `bias` those of the output."""
    inside, outside = call.argument_at(0, "In"), call.argument_at(1, "Out")
    one, two = axes_of(inside), axes_of(outside)
    known = one is not None and two is not None
    joint = ((*two, *one) if call.argument_at(-1, "out_first", True) is True else (*one, *two)) if known else Unknown()  # type: ignore[misc]
    weight, use = _make_weight(call, joint), call.argument_at(-1, "use_bias", True)
    bias = call_haliax(call, "zeros", outside) if use is True else None if use is False else Unknown("a bias")
    return _make_layer(call, "Linear", {"weight": weight, "bias": bias}, In=inside, Out=outside)


@register_function("haliax.nn.Linear.__call__")
def apply_linear(call: Call) -> Value:
    """A contraction with the weight over the input, and the bias added."""
    layer, given = call.args[0], call.argument_at(1, "inputs")
    weight, bias = layer.attributes["weight"], layer.attributes["bias"]
    inside = selected_axes(layer.fields["In"])
    if isinstance(given, NamedArray) and given.axes is not None and inside:
        missing = next((name for name, _ in inside if name not in given.axis_names), None)
        if missing is not None:  # the weight is summed over it
            record_violation(call, "named.input", axis=missing, array=str(given))
    scaled = call_haliax(call, "multiply", weight, 1.0)
    found = call_haliax(call, "dot", given, scaled, axis=layer.fields["In"])
    if bias is None or isinstance(found, Unknown):
        return found
    return auto_sharded(call, call_haliax(call, "add", found, bias))


@register_function("haliax.nn.Embedding.init")
def make_embedding(call: Call) -> Value:
    """`weight` has the axes of the vocabulary and of the vectors."""
    vocabulary, vectors = call.argument_at(0, "Vocab"), call.argument_at(1, "Embed")
    one, two = axes_of(vocabulary), axes_of(vectors)
    joint = (*one, *two) if one is not None and two is not None else Unknown()
    return _make_layer(
        call, "Embedding", {"weight": _make_weight(call, joint)}, Vocab=vocabulary, Embed=vectors
    )


@register_function("haliax.nn.Embedding __call__ embed unembed")
def apply_embedding(call: Call) -> Value:
    """The vectors of numbers; or a contraction with them."""
    layer, given = call.args[0], call.argument_at(1, "input_ids" if "input_ids" in call.keywords else "input_embeds")
    weight = layer.attributes["weight"]
    if call.function_name == "unembed":
        found = call_haliax(call, "dot", given, weight, axis=layer.fields["Embed"])
    else:
        found = call_haliax(call, "take", weight, layer.fields["Vocab"], given)
    return call_haliax(call, "multiply", found, 1.0)


@register_function("haliax.nn LayerNorm.init RmsNorm.init")
def make_norm(call: Call) -> Value:
    """`weight` and `bias` have the axes given."""
    axes, parts = call.argument_at(0, "axis"), {}
    for name, option in (("weight", "use_weight"), ("bias", "use_bias")):
        use = call.argument_at(-1, option, True)
        made = call_haliax(call, "ones" if name == "weight" else "zeros", axes) if use is True else None
        parts[name] = made if isinstance(use, bool) else Unknown("a weight")
    return _make_layer(call, call.name.split(".")[-2], parts, axis=axes)


@register_function("haliax.nn LayerNorm.__call__ RmsNorm.__call__")
def apply_norm(call: Call) -> Value:
    """The array divided by a statistic over the axes, times the weight."""
    layer, given = call.args[0], call.argument_at(1, "x")
    if not isinstance(given, NamedArray):
        return _ANY
    statistic = call_haliax(call, "mean", given, layer.fields["axis"])
    found = call_haliax(call, "multiply", call_haliax(call, "subtract", given, statistic), statistic)
    weight, bias = layer.attributes["weight"], layer.attributes["bias"]
    found = found if weight is None else call_haliax(call, "multiply", weight, found)
    return found if bias is None else call_haliax(call, "add", found, bias)


@register_function("haliax.nn MLP.init")
def make_mlp(call: Call) -> Value:
    """Linear layers, between which the names `mlp` and `mlp2` alternate."""
    given, depth = call.argument_at(2, "width"), call.argument_at(3, "depth")
    width = Axis("mlp", given) if isinstance(given, int) else given
    if not isinstance(width, Axis) or not isinstance(depth, int) or not 0 <= depth <= 64:
        return Unknown("a layer")
    names = [width if place % 2 == 0 else Axis(f"{width.name}2", width.size) for place in range(depth)]
    axes = [call.argument_at(0, "Input"), *names, call.argument_at(1, "Output")]
    options = {name: one for name, one in call.keywords.items() if name in ("use_bias", "out_first", "key")}
    layers = []
    for place, (one, two) in enumerate(pairwise(axes)):
        bias = {"use_bias": call.argument_at(-1, "use_final_bias", True)} if place == depth else {}
        layers.append(make_linear(replace(call, args=(one, two), keywords={**options, **bias})))
    activation = call.argument_at(4, "activation", Library("haliax.nn.relu"))
    return _make_layer(call, "MLP", {"layers": tuple(layers)}, activation=activation)


@register_function("haliax.nn MLP.__call__")
def apply_mlp(call: Call) -> Value:
    """The layers, with the activation between them."""
    layer, found = call.args[0], call.argument_at(1, "x")
    *others, last = layer.attributes["layers"]
    for one in others:
        found = call.interpreter.call_value(one, (found,), {}, call.place)
        found = call.interpreter.call_value(layer.fields["activation"], (found,), {}, call.place)
    return call.interpreter.call_value(last, (found,), {}, call.place)


@register_function("haliax.nn Dropout")
def make_dropout(call: Call) -> Value:
    """A layer without arrays."""
    return _make_layer(call, "Dropout", {})


@register_function("haliax.nn Dropout.__call__ dropout")
def apply_dropout(call: Call) -> Value:
    """An array of the same axes."""
    given = call.argument_at(1 if isinstance(call.args[0], Layer) else 0, "x")
    if not isinstance(given, NamedArray):
        return _ANY
    return given.with_parts({"array": replace(given.plain_array, spec=given.plain_array.typed_spec)})


# stacks of layers


@register_function("haliax.nn Stacked.init BlockSeq.init", "haliax.nn.scan Stacked.init BlockSeq.init")
def make_stacked(call: Call) -> Value:
    """Return a function that makes a stack of modules. Each module takes its slice of the arguments with the axis."""
    block, module = call.argument_at(0, "Block"), call.argument_at(1, "module")
    maker = attribute_of_value(call.interpreter, module, "init", call.place)
    if not isinstance(block, Axis) or "Stacked" not in call.name:
        return Unknown("a stack")

    def make_stack(again: Call) -> Value:
        made = _run_vmap(maker, (block.name, block.size), again)
        return _make_layer(again, "Stacked", {"stacked": made}, Block=block)

    return Native(call.name, make_stack)


@register_function("haliax.nn.Stacked fold scan vmap")
def apply_stacked(call: Call) -> Value:
    """The modules of a stack one after the other, or at once."""
    layer, kind = call.args[0], call.function_name
    block = layer.fields["Block"]
    keywords = {name: one for name, one in call.keywords.items() if name != "unroll"}
    run = call.interpreter

    def apply_module(again: Call) -> Value:
        carry, module, *rest = again.args if kind != "vmap" else (None, *again.args)
        given = rest if kind == "vmap" else [carry, *rest]
        return run.call_value(module, tuple(given), again.keywords, again.place)

    native, axis = Native("haliax.nn.Stacked", apply_module), (block.name, block.size)
    if kind == "vmap":
        return _run_vmap(native, axis, replace(call, args=(layer.attributes["stacked"], *call.args[1:])))
    args = (call.argument_at(1, "init"), layer.attributes["stacked"], *call.args[2:])
    keywords.pop("init", None)
    return _run_scan(kind, native, axis, replace(call, args=args, keywords=keywords))


@register_function("haliax.nn.Stacked unstacked get_layer")
def unstack_modules(call: Call) -> Value:
    """One module of a stack, or all of them."""
    layer = call.args[0]
    block, index = layer.fields["Block"], call.argument_at(1, "index", 0)

    def unstack_leaf(leaf: Value) -> Value:
        if isinstance(leaf, NamedArray) and block.name in leaf.axis_names:
            number = index if isinstance(index, int) else 0
            return call_haliax(call, "take", leaf, block.name, number)
        return call_jax(call, "shardlint.index", leaf, 0) if isinstance(leaf, Layout) and leaf.rank else leaf

    made = map_named(unstack_leaf, layer.attributes["stacked"])
    if call.function_name == "get_layer":
        return made
    return (made,) * block.size if isinstance(block.size, int) and block.size <= 64 else Unknown("modules")
