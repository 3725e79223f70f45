"""jit, grad, vmap, remat and what else makes a function from a function."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial as bind

from shardlint.layouts.layout import Axes, Figure, Layout, Mesh, Size
from shardlint.layouts.pieces import trim_pieces
from shardlint.layouts.values import (
    AnyTree,
    Call,
    Library,
    ListValue,
    Native,
    Partial,
    PartitionSpec,
    Sharding,
    Transformed,
    Unknown,
    Value,
    function_of,
    join_values,
    map_spread,
    map_tree,
    spread_prefix,
    tree_children,
    tree_leaves,
)
from shardlint.libraries.compiled_calls import (
    check_alone,
    check_built,
    check_carried,
    check_reused,
    check_shared,
    list_items,
    numbers_of,
)
from shardlint.libraries.jax_numpy import concatenate_arrays, ravel_array
from shardlint.libraries.jax_sharding import (
    argument_place,
    check_fits,
    pad_spec,
    place_array,
    place_of,
    spec_and_mesh,
    with_mesh_in_context,
)
from shardlint.libraries.jax_trees import ordered_leaves
from shardlint.libraries.mapped_results import mark_gradient, reads_parameter
from shardlint.libraries.meeting import (
    NO_AXES,
    check_devices,
    common_properties,
    context_commits,
    is_whole,
    layout_as_array,
    mark_computed,
    settled_memory,
    typed_sharding,
)
from shardlint.libraries.nnx_lent import Lent
from shardlint.libraries.nnx_objects import VariableShardings, is_object, select_by_filters, state_of
from shardlint.libraries.registry import register_function
from shardlint.model.api import JIT_WRAPPERS
from shardlint.model.values import Place

# Gradients of what does not vary are summed since then, where the check is on.
_SUMS = (0, 6, 1)
# Methods of a jitted function that trace it and run nothing.
_TRACED_ALONE = ("lower", "trace", "eval_shape")


def transform_decorator(make: Callable[[Call, Value], Value]) -> Callable[[Call], Value]:
    """A transform that is also used with its options alone, as `@jit(...)` or `partial(jit, ...)`."""

    def run_transform(call: Call) -> Value:
        given = call.argument_at(0, "fun", None)
        for name in ("f", "func", "fn"):
            given = call.keywords.get(name) if given is None else given
        if given is None:
            return Native(call.name, lambda again: make(call, again.args[0] if again.args else Unknown()))
        return make(call, given)

    return run_transform


@contextmanager
def enter_predicate(call: Call, predicate: Value) -> Iterator[None]:
    """Enter code that runs under a predicate, which may differ between devices."""
    run, before = call.interpreter, call.interpreter.decided
    run.decided = before | layout_as_array(predicate).differs
    try:
        yield
    finally:
        run.decided = before


def run_traced(
    call: Call, function_: Value, args: tuple[Value, ...], keywords: dict[str, Value], opened: bool = False
) -> Value:
    """Run a function under a tracer."""
    run = call.interpreter
    run.traced += 1
    try:
        return run.call_value(function_, args, keywords, call.place, opened)
    finally:
        run.traced -= 1


def make_tracer(value: Value, mapped: bool = False) -> Value:
    """An argument as the traced function sees it: of its sharding, Explicit axes alone.

    `mapped`: in what shard_map or pmap runs, so that it may vary where nothing is said of that.
    """
    array = layout_as_array(value)
    if not isinstance(value, Layout | int | float):
        return value
    if isinstance(value, int | float):
        return Layout(
            (),
            "float32" if isinstance(value, float) else "int32",
            committed=False,
            memory="device",
            host=False,
            varying=frozenset(),
        )
    mesh, spec = typed_sharding(array)
    return replace(
        array, mesh=mesh, spec=spec, device=None, host=False, asked=None,
        memory="device" if array.host else array.memory,
        varying=array.varying if array.varying is not None or mapped else frozenset(),
    )  # fmt: skip


def _static_arguments(call: Call) -> tuple[set[int], set[str]]:
    numbers, names = call.argument_at(-1, "static_argnums", ()), call.argument_at(-1, "static_argnames", ())

    def plain_items(value: Value) -> set[Value]:
        return {one for one in list_items(value) if isinstance(one, int | str)}

    return plain_items(numbers), plain_items(names)


def _run_jit(call: Call, value: Value) -> Value:
    if call.name == "flax.nnx.jit":
        for name in ("in_shardings", "out_shardings"):
            if isinstance(call.keywords.get(name), VariableShardings):
                call.interpreter.record_violation("shardings.variables", place_of(call, -1, name), parameter=name)
    changing = call.name == "flax.nnx.jit"
    numbers, names = _static_arguments(call)
    placing_in, placing_out = call.keywords.get("in_shardings"), call.keywords.get("out_shardings")
    donated = numbers_of(call.keywords.get("donate_argnums", ()))

    def run_compiled(again: Call) -> Value:
        arrays = [
            leaf
            for one in (*again.args, *again.keywords.values())
            for _, leaf in tree_leaves(one)
            if isinstance(leaf, Layout)
        ]
        if placing_in is not None:
            _check_arguments(again, placing_in, again.args)
        given_args = again.args
        if placing_in is not None and not again.interpreter.traced:
            given_args = map_tree(_commit_array, again.args)
        numbered: dict[int, Layout] = {}
        mapped = bool(again.interpreter.axes)
        trace = _number_arguments(again, numbered, mapped, call.name.startswith("equinox"))
        given_all = (*again.args, *again.keywords.values())
        lent = Lent(again, given_all, bind(make_tracer, mapped=mapped)) if changing else None
        args = tuple(
            one if place in numbers else _map_arrays(trace, one, changing) for place, one in enumerate(given_args)
        )
        keywords = {
            name: one if name in names else _map_arrays(trace, one, changing)
            for name, one in again.keywords.items()
        }
        binder = again.interpreter.binder
        try:
            found = run_traced(again, value, args, keywords, again.open)
        finally:
            again.interpreter.binder = binder
            if lent is not None:
                lent.restore_arrays(_free_for_compiler(again, common_properties(arrays) if arrays else Layout()))
        # What a library decides by the results is asked for then.
        placing = placing_out.run(replace(again, args=(found,))) if isinstance(placing_out, Native) else placing_out
        if again.interpreter.traced:
            _check_results(again, placing, found, place_of(call, -1, "out_shardings"))
            return found if placing_in is None and placing is None else map_tree(_mark_placed_result, found)
        if again.name in _TRACED_ALONE and again.name != "lower":
            return found
        used = arrays if changing else _used_arguments(numbered, found)
        check_devices(again, used, _mesh_of(placing), "out_shardings")
        if again.name in _TRACED_ALONE:
            return found
        arrays = [one if one.device is None or one in used else replace(one, device=None) for one in arrays]
        if placing_in is not None:
            used = [replace(one, device=None) for one in used]
        if donated and not again.open:
            check_shared(again, donated, found)
            check_reused(again, value, donated, found, place_of(call, -1, "donate_argnums"))
        if lent is not None:
            lent.finish_created(found)
        if placing_in is None and placing is None:
            again.interpreter.use_arrays(arrays)
            check_built(again, arrays)
            check_alone(again, [*numbered.values()], found)
        results = _results_of_jit(again, found, placing, used, place_of(call, -1, "out_shardings"), changing)
        maybe = [] if changing else [one for one in _used_arguments(numbered, found, -1) if one not in used]
        if placing is None and any(one.mesh != other.mesh for one in maybe for other in (*maybe, *used)):
            results = map_tree(_forget_placement, results)
        check_carried(again, results)
        return results

    return call.interpreter.note_transformed(_Compiled("jit", run_compiled, value, call.place))


def _number_arguments(
    call: Call, arrays: dict[int, Layout], mapped: bool, plain: bool
) -> Callable[[Value], Value]:
    """Return a function that makes tracers of arguments. Each gets a number, by which `arrays` records the argument.

    `plain`: numbers of Python stay what they are.
    """

    def trace_leaf(leaf: Value) -> Value:
        made = leaf if plain and not isinstance(leaf, Layout) else make_tracer(leaf, mapped=mapped)
        if not isinstance(made, Layout) or not isinstance(leaf, Layout):
            return made
        call.interpreter.arguments += 1
        arrays[call.interpreter.arguments] = leaf
        return replace(made, sources=made.sources | {call.interpreter.arguments})

    return trace_leaf


def _used_arguments(arrays: dict[int, Layout], value: Value, sign: int = 1) -> list[Layout]:
    """The arguments on which a result depends: jax drops the others. With -1 those on which it may depend."""
    used = frozenset[int]().union(
        *(leaf.sources for _, leaf in tree_leaves(value) if isinstance(leaf, Layout))
    )
    return [one for number, one in arrays.items() if sign * number in used]


def _forget_placement(leaf: Value) -> Value:
    if not isinstance(leaf, Layout) or leaf.is_explicit:
        return leaf
    return replace(leaf, mesh=None, spec=None, device=None, committed=None)


def _mark_placed_result(leaf: Value) -> Value:
    """A result of a jit with shardings within another one, which may commit it and bring it to a memory."""
    return replace(leaf, committed=None, memory=None, built=None) if isinstance(leaf, Layout) else leaf


def _map_arrays(change: Callable[[Value], Value], tree: Value, kept: bool) -> Value:
    """A tree with a function applied to its arrays; `kept`: but for those of objects of NNX, which stay as they are."""
    if not kept:
        return map_tree(change, tree)
    return map_tree(lambda leaf: leaf if is_object(leaf) else change(leaf), tree, stop=is_object)


def _commit_array(value: Value) -> Value:
    return replace(value, committed=True) if isinstance(value, Layout) else value


class _Compiled(Transformed):
    """A jitted function."""

    @property
    def attributes(self) -> dict[str, Value]:
        """Return its attributes: methods that trace it as a call does."""
        return {name: Native(name, self._trace_function) for name in _TRACED_ALONE}

    def _trace_function(self, call: Call) -> Value:
        found = self.run(call)
        if call.name == "eval_shape":
            return map_tree(_describe_array, found)
        return Unknown("a traced function")


def _describe_array(leaf: Value) -> Value:
    """An array as a description of it, without its sharding."""
    return Layout(leaf.shape, leaf.dtype) if isinstance(leaf, Layout) else Unknown()


def _mesh_of(shardings: Value) -> Mesh | None:
    """The first mesh that shardings name."""
    meshes = (one.mesh for _, one in tree_leaves(shardings) if isinstance(one, Sharding))
    return next((one for one in meshes if isinstance(one, Mesh)), None)


def _check_arguments(call: Call, target: Value, args: tuple[Value, ...]) -> None:
    """Record arguments that do not fit `in_shardings`."""
    if isinstance(target, tuple | ListValue) and len(
        target if isinstance(target, tuple) else target.items
    ) != len(args):
        return
    for path, leaf, one in spread_prefix(target, args):
        spec, on = spec_and_mesh(call, one)
        if isinstance(leaf, Layout) and spec is not None:
            where, path = argument_place(call, path)
            if check_fits(call, leaf, spec, on, where, path) and on is not None and not call.interpreter.traced:
                _check_same(call, leaf, spec, on, where, path)


def _check_results(call: Call, target: Value, value: Value, where: Place) -> None:
    """Record results that do not fit the `out_shardings` of a jit within another one."""
    for path, leaf, one in spread_prefix(target, value) if target is not None else ():
        spec, on = spec_and_mesh(call, one)
        if isinstance(leaf, Layout) and spec is not None:
            check_fits(call, leaf, spec, on, where, f"result{path}")


def _check_same(call: Call, array: Layout, spec: PartitionSpec, mesh: Mesh, where: Place, path: str) -> None:
    """Record an argument that is committed to another sharding than `in_shardings` say: jax does not move it."""
    if not array.committed or array.shape is None:
        return
    wanted = pad_spec(array, spec)
    # One that is asked for on all devices alike is copied to them.
    elsewhere = array.device is not None and mesh.devices is not None and mesh.device_count != 1 and any(wanted)
    other = (
        array.mesh == mesh
        and array.spec is not None
        and None not in (*array.spec, *wanted)
        and array.spec != wanted
    )
    if elsewhere or other:
        asked = str(array.with_shape(array.shape, wanted))
        call.interpreter.record_violation(
            "argument.sharding",
            where,
            array=path,
            have=array.device or str(array),
            wanted=asked,
            line=str(array.made),
            operation="jit",
        )


def _free_for_compiler(call: Call, base: Layout) -> Callable[[Value], Value]:
    """Return a function that maps an array inside a jit to its result outside, placed by the compiler."""
    commits = context_commits(call)
    if commits and any(isinstance(leaf, Layout) and leaf.host for _, leaf in tree_leaves(call.args)):
        # A result that is an argument of the host, untouched, is neither committed nor on the mesh.
        commits, base = None, replace(base, mesh=None)

    def free_leaf(leaf: Value) -> Value:
        array = layout_as_array(leaf)
        if not isinstance(leaf, Layout):
            return Unknown("what a jit returns")
        committed = array.committed or commits if array.committed is not None else None
        if base.committed and not committed:
            committed = None  # one argument that is committed commits all results, if any of them uses it
        apart = array.built == "filled" and not call.args and not call.keywords and committed is False
        array = replace(array, built=call.place if apart else None)
        asked = array.asked
        array = replace(array, memory=settled_memory(call, array), sources=frozenset(), asked=None)
        if array.is_explicit and array.mesh is not None and not array.mesh.partial:
            return replace(array, committed=committed or None, literal=False)
        if asked is not None and asked.depth == 1:
            apart = asked.mesh.device_count not in (None, 1)
            on = replace(array, mesh=asked.mesh, spec=asked.spec, device=None, host=False, literal=False)
            return replace(on, committed=True if apart else committed)
        return replace(
            array,
            mesh=base.mesh,
            spec=None,
            device=base.device,
            committed=committed,
            host=False,
            literal=False,
        )

    return free_leaf


def _replicate_constants(call: Call, free: Callable[[Value], Value]) -> Callable[[Value], Value]:
    """The same of arrays that depend on no other: a mesh in context has copies of them."""
    mesh = call.interpreter.mesh if context_commits(call) else None

    def replicate_constant(leaf: Value) -> Value:
        array = free(leaf)
        if mesh is None or mesh.is_explicit or not isinstance(array, Layout) or array.shape is None:
            return array
        return replace(array, mesh=mesh, spec=((),) * len(array.shape))

    return replicate_constant


def _results_of_jit(
    call: Call, value: Value, target: Value, arrays: list[Layout], where: Place, kept: bool = False
) -> Value:
    """Return the results of a jit that uses some arrays, placed by `out_shardings` or by the compiler."""
    if target is None:
        results = [leaf for _, leaf in tree_leaves(value)]
        # What depends on no argument lies where jax puts new arrays: arguments that nothing uses are left out.
        alone = all(isinstance(one, Layout) and one.is_new for one in results)
        free = _free_for_compiler(call, common_properties(arrays) if arrays and not alone else Layout())
        if alone:
            free = _replicate_constants(call, free)
        return _map_arrays(free, value, kept) if not isinstance(value, Unknown) else AnyTree(Unknown())
    if isinstance(value, Unknown):
        return AnyTree(Layout())

    def place_result(path: str, leaf: Value, one: Value) -> Value:
        if not isinstance(leaf, Layout | int | float):
            return AnyTree(Layout()) if isinstance(leaf, Unknown) else leaf
        if one is None:
            return replace(layout_as_array(leaf), spec=None, literal=False, asked=None)
        return place_array(call, leaf, with_mesh_in_context(call, one), where, f"result{path}")

    return map_spread(place_result, target, value)


for _name in (*JIT_WRAPPERS, "jax.named_call"):
    register_function(_name)(transform_decorator(_run_jit))


def _call_unchanged(call: Call, value: Value) -> Value:
    return value


register_function(
    "jax checkpoint named_call custom_batching.custom_vmap", "jax.custom_vjp", "jax.custom_jvp",
    "equinox filter_checkpoint",
    "flax.linen compact nowrap", "functools lru_cache cache",
    "typing final override no_type_check", "abc.abstractmethod", "jax.profiler.annotate_function",
    "flax.nnx remat", "contextlib.contextmanager", "jaxtyping.jaxtyped", "dataclasses.dataclass",
    "flax.struct.dataclass", "chex.dataclass",
    "jax.tree_util register_pytree_node_class register_dataclass",
)(transform_decorator(_call_unchanged))  # fmt: skip


@register_function("jax.named_scope")
def named_scope(call: Call) -> Value:
    """A context, which is a decorator too."""
    return Native(call.name, lambda again: again.argument_at(0, "fun"))


@register_function("functools.wraps")
def identity_decorator(call: Call) -> Value:
    """A decorator that leaves the function as it is."""
    return Native(call.name, lambda again: again.argument_at(0, "wrapper"))


@register_function("functools.partial", "jax.tree_util.Partial", "equinox.Partial", "functools.partialmethod")
def make_partial(call: Call) -> Value:
    """A function with arguments given."""
    if not call.args or call.open:
        return Unknown("a partial")
    return Partial(call.args[0], call.args[1:], call.keywords)


def _run_gradient(call: Call, value: Value) -> Value:
    with_value = "value_and_grad" in call.name
    has_aux = call.keywords.get("has_aux", False)
    numbers = call.argument_at(1, "argnums", 0)
    chosen = call.keywords.get("wrt", Library("flax.nnx.Param"))

    def run_differentiated(again: Call) -> Value:
        found = again.interpreter.call_value(value, again.args, again.keywords, again.place, again.open)
        wanted = numbers if isinstance(numbers, tuple) else (numbers,)
        loss = layout_as_array(found[0] if isinstance(found, tuple) and found else found)
        grads: list[Value] = []

        arrays = [leaf for _, leaf in tree_leaves(again.args) if isinstance(leaf, Layout)]
        committed = False if all(one.committed is False for one in arrays) else None
        sources = frozenset[int]().union(*(one.sources for one in arrays))
        if len(arrays) > 1:
            sources = frozenset(-abs(one) for one in sources)  # it may depend on some of them alone
        apart = any(one.mesh != arrays[0].mesh for one in arrays)

        def gradient_of(leaf: Value) -> Value:
            if not reads:
                return leaf
            if not isinstance(leaf, Layout | float):
                return AnyTree(Layout()) if isinstance(leaf, Unknown) else Unknown("a gradient")
            array = replace(layout_as_array(leaf), asked=None, sources=sources)
            if isinstance(leaf, Layout):  # it may depend on other arguments alone
                array = replace(array, committed=committed)
                if not array.is_explicit:
                    array = replace(array, mesh=None if apart else array.mesh, spec=None)
            return _sum_along_devices(again, array, loss)

        for one in wanted:
            reads = not isinstance(one, int) or reads_parameter(function_of(value), one)
            argument = again.args[one] if isinstance(one, int) and one < len(again.args) else Unknown()
            if call.name.startswith("flax.nnx") and is_object(argument):  # of its Params
                argument = (select_by_filters(state_of(again.interpreter, argument), (chosen,)) or [Unknown()])[0]
            grads.append(
                map_tree(gradient_of, argument) if not isinstance(argument, Unknown) else AnyTree(Layout())
            )
        gradient = tuple(grads) if isinstance(numbers, tuple) else grads[0]
        aux = found[1] if isinstance(found, tuple) and len(found) == 2 else Unknown()
        if with_value:
            return (found, gradient)
        return (gradient, aux) if has_aux is True else gradient

    return Transformed(call.name, run_differentiated, value, call.place)


def _sum_along_devices(call: Call, gradient: Layout, loss: Layout) -> Layout:
    """A gradient in a mapped body: jax sums it over the axes along which the loss varies, and its argument does not.

    Without the check, and in pmap, each device has that of its own data, also of a loss that is summed over devices.
    """
    run = call.interpreter
    figure = loss.figure
    unseen = figure if figure is not None and figure.kind == "unseen" else None
    if run.checks_varying:
        along = loss.varying or (unseen.axes if unseen is not None else None)
        if gradient.varying is None or not along or run.releases.get("jax", (99,)) < _SUMS:
            return gradient
        axes = along - gradient.varying
        return replace(gradient, summed=(axes, call.place), figure=unseen) if axes else gradient
    if not run.axes:
        return gradient
    summed = figure.axes if figure is not None and figure.kind in ("sum", "unseen") else frozenset[str]()
    own = (loss.differs | summed) - gradient.differs
    varying, is_old = None, run.releases.get("jax", (99,)) < _SUMS
    if loss.varying is not None and gradient.varying is not None and not (own and is_old):
        varying = gradient.varying | loss.varying | own
    figure = Figure("gradient", own, call.place) if own else None
    return replace(
        gradient, varying=varying, equal=gradient.equal - own, differs=gradient.differs | own, reduced=loss.reduced,
        figure=figure, statistic=mark_gradient(loss, own, call.place),
    )  # fmt: skip


register_function(
    "jax grad value_and_grad", "equinox filter_grad filter_value_and_grad", "flax.nnx grad value_and_grad",
)(transform_decorator(_run_gradient))  # fmt: skip


@register_function("jax jvp vjp linearize", "equinox filter_jvp filter_vjp")
def make_derivative(call: Call) -> Value:
    """`jvp` gives the function's value twice; of `vjp` the value is known."""
    given = call.argument_at(0, "fun")
    points = call.argument_at(1, "primals")
    if call.name.endswith("jvp") and isinstance(points, tuple):
        found = call.interpreter.call_value(given, points, {}, call.place)
        tangents = call.argument_at(2, "tangents")
        varying = frozenset[str]()
        for _, leaf in tree_leaves((points, tangents)):
            varying = varying | (leaf.varying or frozenset()) if isinstance(leaf, Layout) else varying
        out = map_tree(
            lambda leaf: (
                replace(leaf, varying=varying | (leaf.varying or frozenset()))
                if isinstance(leaf, Layout)
                else leaf
            ),
            found,
        )
        return (found, out)
    return (call.interpreter.call_value(given, call.args[1:], {}, call.place), Unknown("a pullback"))


def _mapped_dimension(spec: Value, place: int) -> Value:
    """The mapped dimension of an argument: a number, None, or not known."""
    if isinstance(spec, tuple | ListValue):
        items = spec if isinstance(spec, tuple) else spec.items
        return items[place] if place < len(items) else Unknown()
    return spec


def _run_vmap(call: Call, value: Value) -> Value:
    in_axes, out_axes = call.argument_at(1, "in_axes", 0), call.argument_at(2, "out_axes", 0)
    name = call.keywords.get("axis_name")

    def run_mapped(again: Call) -> Value:
        size: Size = None
        axes, first = NO_AXES, None
        arrays = [leaf for _, leaf in tree_leaves(again.args) if isinstance(leaf, Layout)]
        on_explicit = any(one.is_explicit for one in arrays)

        def map_leaf(_: str, leaf: Value, axis: Value) -> Value:
            nonlocal size, axes, first
            if axis is None:
                return leaf
            shape = leaf.shape if isinstance(leaf, Layout) else None
            if not shape or not isinstance(axis, int) or not -len(shape) <= axis < len(shape):
                return _row_of_any(leaf)
            at = axis % len(shape)
            size = shape[at] if size is None else size
            own = _explicit_axes(leaf, at, on_explicit)
            if own is not None and first is not None and own != first:
                left, right = ("/".join(one) or "none" for one in (first, own))
                again.interpreter.record_violation("vmap.conflict", again.place, left=left, right=right)
            first = own if first is None else first
            axes = own or axes
            return without_dimension(leaf, at)

        inner = [
            one if isinstance(one, Unknown) else map_spread(map_leaf, _mapped_dimension(in_axes, place), one)
            for place, one in enumerate(again.args)
        ]
        before = dict(again.interpreter.axes)
        if isinstance(name, str):
            again.interpreter.axes[name] = size
        try:
            result = again.interpreter.call_value(
                value, tuple(inner), {key: Unknown() for key in again.keywords}, again.place, again.open
            )
        finally:
            again.interpreter.axes = before

        def out_of_map(leaf: Value) -> Value:
            if not isinstance(leaf, Layout) or leaf.shape is None or out_axes != 0:
                return _row_of_any(leaf)
            if leaf.mesh is not None and not leaf.is_explicit:
                return leaf.with_shape((size, *leaf.shape))  # the compiler places it
            spec = (
                (axes, *leaf.spec)
                if leaf.spec is not None
                else ((axes, *((NO_AXES,) * len(leaf.shape))) if axes and leaf.mesh is None else None)
            )
            return leaf.with_shape((size, *leaf.shape), spec)

        return (
            map_tree(out_of_map, result) if not isinstance(result, Unknown) else Unknown("what vmap returns")
        )

    return call.interpreter.note_transformed(Transformed("vmap", run_mapped, value, call.place))


def _explicit_axes(array: Layout, place: int, beside: bool) -> Axes | None:
    """The Explicit axes of a dimension; none of an array that is on no mesh, `beside` one that is on such a mesh."""
    if beside and is_whole(array):
        return NO_AXES
    spec = array.typed_spec
    return None if spec is None or place >= len(spec) else spec[place]


def without_dimension(array: Layout, place: int) -> Layout:
    """An array without one of its dimensions."""
    shape = array.shape or ()
    spec, pieces = array.spec, array.pieces
    found = array.with_shape(
        (*shape[:place], *shape[place + 1 :]),
        (*spec[:place], *spec[place + 1 :]) if spec is not None and len(spec) == len(shape) else None,
    )
    return replace(found, pieces=trim_pieces((*pieces[:place], *pieces[place + 1 :]))) if pieces else found


register_function("jax vmap", "equinox filter_vmap", "flax.nnx vmap")(transform_decorator(_run_vmap))


@register_function("jax eval_shape", "equinox filter_eval_shape")
def eval_shape(call: Call) -> Value:
    """The result as descriptions of arrays, without shardings."""
    if not call.args:
        return Unknown("a shape")
    found = run_traced(
        call,
        call.args[0],
        tuple(map_tree(make_tracer, one) for one in call.args[1:]),
        call.keywords,
        call.open,
    )
    return map_tree(_describe_array, found)


@register_function("jax.flatten_util.ravel_pytree")
def ravel_pytree(call: Call) -> Value:
    """One flat array of all leaves, and the function that undoes it."""
    tree = call.argument_at(0, "pytree")
    arrays = [layout_as_array(leaf) for leaf in ordered_leaves(tree)]
    rows = tuple(layout_as_array(ravel_array(replace(call, name="jax.numpy.ravel", args=(one,)))) for one in arrays)
    joined = replace(call, name="jax.numpy.concatenate", args=(rows,))
    flat = layout_as_array(concatenate_arrays(joined)) if rows else Layout((0,))
    return (flat, Native("unravel", lambda again: map_tree(lambda leaf: layout_as_array(leaf), tree)))


# lax


def _carry_in_body(call: Call, value: Value) -> Value:
    """A carry as the body of a loop sees it."""
    mapped = bool(call.interpreter.axes)
    return map_tree(
        lambda leaf: make_tracer(leaf, mapped) if isinstance(leaf, Layout | int | float) else leaf, value
    )


def _check_carry(call: Call, before: Value, after: Value) -> Value:
    """Record a carry that varies after the body and not before it; the carry that comes out."""
    run = call.interpreter
    outs = dict(tree_leaves(after))
    for path, leaf in tree_leaves(before):
        out = outs.get(path)
        own, other = (one.typed_spec if isinstance(one, Layout) else None for one in (leaf, out))
        if own is not None and other is not None and None not in (*own, *other) and own != other:
            said = {"before": str(leaf), "after": str(out), "carry": path, "operation": call.function_name}
            run.record_violation("carry.spec", call.place, **said)
            break
    if run.checks_varying:
        for path, leaf in tree_leaves(before):
            out = outs.get(path)
            if (
                isinstance(leaf, Layout)
                and isinstance(out, Layout)
                and leaf.varying is not None
                and out.varying is not None
            ):
                more = out.varying - leaf.varying
                if more:
                    run.record_violation(
                        "carry.varying",
                        call.place,
                        axes=", ".join(sorted(more)),
                        carry=path,
                        before=str(leaf),
                        operation=call.function_name,
                    )
                    break
    return after


def _join_varying(call: Call, first: Value, second: Value) -> Value:
    """One of two results of a traced body: it varies along the axes along which either does."""
    if not call.interpreter.axes:
        return join_values(first, second)

    def widen_leaf(_: str, leaf: Value, other: Value) -> Value:
        if not isinstance(leaf, Layout) or not isinstance(other, Layout) or None in (leaf.varying, other.varying):
            return leaf
        return replace(leaf, varying=(leaf.varying or frozenset()).union(other.varying or ()))

    return join_values(map_spread(widen_leaf, second, first), map_spread(widen_leaf, first, second))


def _check_rows(call: Call, rows: Value) -> None:
    """Record an array that is taken row by row, and whose rows are split over Explicit axes."""
    for path, leaf in tree_leaves(rows):
        spec = leaf.typed_spec if isinstance(leaf, Layout) else None
        if spec and spec[0]:
            call.interpreter.record_violation(
                "rows.split",
                call.place,
                array=str(leaf),
                axes="/".join(spec[0]),
                path=path,
                operation=call.name,
            )
            return


def _row_of_tree(call: Call, rows: Value) -> tuple[Value, Size]:
    """One row of a tree of arrays, as the traced body sees it, and how many rows there are."""
    _check_rows(call, rows)
    arrays = [leaf for _, leaf in tree_leaves(rows) if isinstance(leaf, Layout) and leaf.shape]

    def first_row(leaf: Value) -> Value:
        mapped = bool(call.interpreter.axes)
        return (
            without_dimension(make_tracer(leaf, mapped), 0)
            if isinstance(leaf, Layout) and leaf.shape
            else _row_of_any(leaf)
        )

    return map_tree(first_row, rows), arrays[0].shape[0] if arrays and arrays[0].shape else None


def _row_of_any(leaf: Value) -> Layout:
    """A row of an array of which little is known."""
    return leaf.with_shape(None) if isinstance(leaf, Layout) else Layout()


def _stack_results(tree: Value, count: Size) -> Value:
    """Return the results of the iterations of a loop, stacked along a new first dimension."""

    def row_of_leaf(leaf: Value) -> Value:
        if not isinstance(leaf, Layout) or leaf.shape is None:
            return _row_of_any(leaf)
        return leaf.with_shape((count, *leaf.shape), (NO_AXES, *leaf.spec) if leaf.spec is not None else None)

    return map_tree(row_of_leaf, tree)


def _compile_result(call: Call, value: Value, given: Value) -> Value:
    """Return the result of an operation that is compiled as a whole, placed according to its arguments."""
    if call.interpreter.traced or isinstance(value, Unknown):
        return value
    arrays = [leaf for _, leaf in tree_leaves(given) if isinstance(leaf, Layout)]
    check_devices(call, arrays)
    return _results_of_jit(call, map_tree(mark_computed, value), None, arrays, call.place)


@register_function("jax.lax.scan")
def run_scan(call: Call) -> Value:
    """The body runs for each row of `xs`; the carry keeps its type."""
    body, init, rows = call.argument_at(0, "f"), call.argument_at(1, "init"), call.argument_at(2, "xs", None)
    carry = _carry_in_body(call, init)
    row, count = _row_of_tree(call, rows)
    length = call.argument_at(3, "length", None)
    found = run_traced(call, body, (carry, row), {})
    if not isinstance(found, tuple) or len(found) != 2:
        return (Unknown("a carry"), Unknown("stacked results"))
    after = _check_carry(call, carry, found[0])
    rest = _stack_results(
        found[1], count if count is not None else length if isinstance(length, int) else None
    )
    if (
        isinstance(carry, AnyTree) and tree_children(after) is not None
    ):  # it has the structure of what comes after it
        return _compile_result(
            call, (map_tree(lambda leaf: join_values(carry.leaf, leaf), after), rest), (init, rows)
        )
    return _compile_result(call, (_join_varying(call, carry, after), rest), (init, rows))


@register_function("jax.lax.map")
def lax_map(call: Call) -> Value:
    """The function runs for each row."""
    rows = call.argument_at(1, "xs")
    row, count = _row_of_tree(call, rows)
    return _compile_result(call, _stack_results(run_traced(call, call.argument_at(0, "f"), (row,), {}), count), rows)


@register_function("jax.lax.fori_loop")
def fori_loop(call: Call) -> Value:
    """The body runs with a counter and the carry."""
    init = call.argument_at(3, "init_val")
    carry = _carry_in_body(call, init)
    counter = Layout((), "int32", committed=False, host=False, memory="device", varying=frozenset())
    found = run_traced(call, call.argument_at(2, "body_fun"), (counter, carry), {})
    return _compile_result(call, _join_varying(call, carry, _check_carry(call, carry, found)), init)


@register_function("jax.lax.while_loop")
def while_loop(call: Call) -> Value:
    """Condition and body run with the carry."""
    init = call.argument_at(2, "init_val")
    carry = _carry_in_body(call, init)
    predicate = run_traced(call, call.argument_at(0, "cond_fun"), (carry,), {})
    with enter_predicate(call, predicate):
        if call.interpreter.decided:
            run_traced(call, call.argument_at(0, "cond_fun"), (carry,), {})
        found = run_traced(call, call.argument_at(1, "body_fun"), (carry,), {})
    return _compile_result(call, _join_varying(call, carry, _check_carry(call, carry, found)), init)


@register_function("jax.lax.cond", "jax.lax.switch")
def run_cond(call: Call) -> Value:
    """Both branches run with the operands."""
    branches: tuple[Value, ...]
    if call.name.endswith("cond"):
        branches, operands = (call.argument_at(1, "true_fun"), call.argument_at(2, "false_fun")), call.args[3:]
    else:
        given = call.argument_at(1, "branches")
        branches = (
            tuple(given.items) if isinstance(given, ListValue) else given if isinstance(given, tuple) else ()
        )
        operands = call.args[2:]
    found: list[Value] = []
    for one in branches:
        with call.interpreter.run_uncertainly(), enter_predicate(call, call.argument_at(0, "pred")):
            found.append(run_traced(call, one, tuple(_carry_in_body(call, each) for each in operands), {}))
    if not found:
        return Unknown("a branch")
    _check_branches(call, found)
    result = found[0]
    for one in found[1:]:
        result = _join_varying(call, result, one)
    own = layout_as_array(call.argument_at(0, "pred")).differs
    result = map_tree(lambda leaf: _vary_by_predicate(leaf, own), result) if own else result
    if call.interpreter.traced:
        return result
    return map_tree(
        lambda leaf: replace(leaf, memory=settled_memory(call, leaf)) if isinstance(leaf, Layout) else leaf, result
    )


def _vary_by_predicate(leaf: Value, axes: frozenset[str]) -> Value:
    """A result of branches that devices take by values of their own."""
    if not isinstance(leaf, Layout):
        return leaf
    return replace(leaf, differs=leaf.differs | axes, equal=leaf.equal - axes)


def _check_branches(call: Call, values: Sequence[Value]) -> None:
    """Record branches whose results vary over different axes."""
    if not call.interpreter.checks_varying:
        return
    first = dict(tree_leaves(values[0]))
    for other in values[1:]:
        for path, leaf in tree_leaves(other):
            one = first.get(path)
            if not isinstance(one, Layout) or not isinstance(leaf, Layout) or one.literal or leaf.literal:
                continue
            if one.varying is not None and leaf.varying is not None and one.varying != leaf.varying:
                axes = ", ".join(sorted(one.varying ^ leaf.varying))
                call.interpreter.record_violation(
                    "branches.varying", call.place, axes=axes, operation=call.function_name
                )
                return
