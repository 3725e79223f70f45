"""Level `trace`: with explicit axes a program's shardings are part of its types, so that tracing it on an
abstract mesh proves them without a device, for a mesh of any size.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax

from shardlint.verify.declarations import REPLICATED, name_item
from shardlint.verify.fixture import Fixture
from shardlint.verify.inside import checks, devices, fixtures, invoke, load, placed_arguments, tree
from shardlint.verify.inside.coverage import Coverage, Looked
from shardlint.verify.inside.failures import failure_from_exception
from shardlint.verify.inside.jit_output_types import out_shardings_count
from shardlint.verify.paths import idle_globs, path_text, select_glob
from shardlint.verify.report import FAIL, SKIP, Failure, Result
from shardlint.verify.spec import P
from shardlint.verify.texts import size_text

# What jax raises of a sharding that cannot be: any other error may come of there being no devices, and is left to
# the level that has some.
_TYPE_ERRORS = ("ShardingTypeError", "DuplicateSpecError")


def run_trace(
    fixture: Fixture,
    sizes: Mapping[str, int],
    emit: Callable[[Result], None],
    coverage: Coverage | None = None,
) -> bool:
    """Trace a fixture on an abstract mesh of these axis sizes and emit the result, which `coverage` takes in.

    Returns False when the program cannot be traced with these shardings, which leaves the other
    levels nothing to tell. Nothing the user's code raises gets out of here.
    """
    line, coverage = "", coverage or Coverage(fixture, ["trace"])

    def report_status(status: str, **more: Any) -> None:
        emit(Result(fixture.function_label(), "trace", status, dict(sizes), line=line, **more))

    def skip_level(reason: str) -> bool:
        report_status(**fixtures.judge_level(coverage, "trace", None, reason))
        return True

    if reason := _explain_untraceable(fixture):
        return skip_level(reason)
    try:
        kinds = (jax.sharding.AxisType.Explicit,) * len(sizes)
        mesh = jax.sharding.AbstractMesh(tuple(sizes.values()), tuple(sizes), axis_types=kinds)
        function = load.resolve_reference(fixture.fn)
        line = load.place_of(function)
        entered: Any = place_context(fixture.context, mesh)
        with entered:
            args, notes = _abstract_arguments(fixture, mesh, sizes)
            leaves = trace_outputs(function, args, invoke.keyword_arguments(function, args, mesh))
        checked = _check_shardings(leaves, fixture, mesh, notes)
    except placed_arguments.Indivisible as error:
        report_status(SKIP, reason=str(error))
        return True
    except Exception as error:
        failure = failure_from_exception(error)
        if any(kind.__name__ in _TYPE_ERRORS for kind in type(error).__mro__):
            report_status(FAIL, failures=[failure])
            return False
        return skip_level(f"cannot be traced without devices: {failure.message}")
    under = "no mesh context" if fixture.context == "none" else "jax.sharding.use_abstract_mesh(mesh)"
    told_of = fixtures.judge_level(coverage, "trace", checked, "")
    told_of["notes"] = [*notes, *told_of["notes"]]
    if told_of["status"] != SKIP:
        told_of["how"] = f"traced without devices, on explicit axes, under {under}"
    report_status(**told_of)
    return True


def _explain_untraceable(fixture: Fixture) -> str:
    """Why this level can say nothing of a fixture; "" where it can."""
    if not fixture.out and fixture.replicated_limit() is None:
        return "the fixture declares nothing this level can check"
    if fixture.context == "with":
        return "`with mesh:` cannot be entered without devices"
    if fixture.context == "set_mesh" and not hasattr(jax.sharding, "use_abstract_mesh"):
        return f"jax {jax.__version__} has no jax.sharding.use_abstract_mesh (0.7.2 has)"
    return ""


def place_context(kind: str, mesh: Any) -> Any:
    """The context a function is traced in: as `devices.context`, on an abstract mesh."""
    return (
        devices.enter_mesh_context("none", mesh)[0]
        if kind == "none"
        else jax.sharding.use_abstract_mesh(mesh)
    )


def _abstract_arguments(fixture: Fixture, mesh: Any, sizes: Mapping[str, int]) -> tuple[list[Any], list[str]]:
    """The arguments with every array described by shape, dtype and sharding, and sentences for the report."""
    notes: list[str] = []

    def make_abstract(source: Any, mesh: Any) -> Any:
        try:
            return describe_source(source, mesh)
        except Exception as error:
            words = f"{type(error).__name__}: {error}".splitlines()[0][:120]
            if math.prod(sizes.values()) > len(jax.devices()):
                raise
            notes.append(
                "an argument was made on devices, because the function that makes it cannot be traced "
                f"({words})"
            )
            concrete = devices.mesh_of(sizes, explicit=True)
            with devices.enter_mesh_context(fixture.context, concrete)[0]:
                return tree.map_arrays(_shape_of, load.value_of_reference(source, concrete))

    made = placed_arguments.make_arguments(fixture, mesh, make_abstract)
    return placed_arguments.describe_arguments(made, mesh), notes


def describe_source(source: Any, mesh: Any) -> Any:
    """Return the result of a factory with only the shape, dtype and sharding of each array. Nothing is computed."""
    kept: dict[str, Any] = {}

    def make_arrays() -> list[Any]:
        begin()
        leaves, kept["tree"] = jax.tree_util.tree_flatten(load.value_of_reference(source, mesh))
        kept["others"] = [None if _is_either(leaf) else leaf for leaf in leaves]
        kept["is"] = [_is_either(leaf) for leaf in leaves]
        # A leaf that only ever had a shape is no value a trace can return.
        kept["abstract"] = [leaf if tree.is_abstract(leaf) else None for leaf in leaves]
        return [leaf for leaf in leaves if tree.is_array(leaf)]

    with out_shardings_count() as begin:
        made = iter(jax.eval_shape(make_arrays))
    leaves = [
        other if not array else abstract if abstract is not None else next(made)
        for other, array, abstract in zip(kept["others"], kept["is"], kept["abstract"], strict=True)
    ]
    return jax.tree_util.tree_unflatten(kept["tree"], leaves)


def _is_either(leaf: Any) -> bool:
    return tree.is_array(leaf) or tree.is_abstract(leaf)


def _shape_of(leaf: Any) -> Any:
    if not isinstance(leaf, jax.Array) or not isinstance(leaf.sharding, jax.sharding.NamedSharding):
        return jax.ShapeDtypeStruct(leaf.shape, leaf.dtype)
    return jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=leaf.sharding)


def trace_outputs(function: Any, args: Sequence[Any], keywords: Mapping[str, Any]) -> list[tree.Leaf]:
    """The array leaves `function(*args, **keywords)` returns, with the shardings of their types.

    `args` hold described arrays; what is not an array reaches the function as it is. Raises what tracing raises.
    """
    leaves, treedef = jax.tree_util.tree_flatten(list(args))
    places = [index for index, leaf in enumerate(leaves) if tree.is_abstract(leaf)]
    names: list[tuple[str, str]] = []

    def traced_function(arrays: list[Any]) -> list[Any]:
        begin()
        whole = list(leaves)
        for index, array in zip(places, arrays, strict=True):
            whole[index] = array
        out = function(*jax.tree_util.tree_unflatten(treedef, whole), **keywords)
        found, _ = jax.tree_util.tree_flatten_with_path(out)
        arrays_out = [(keys, leaf) for keys, leaf in found if tree.is_array(leaf)]
        names[:] = [(path_text(keys), "out" + jax.tree_util.keystr(keys)) for keys, _ in arrays_out]
        return [leaf for _, leaf in arrays_out]

    with out_shardings_count() as begin:
        traced = jax.jit(traced_function).trace([leaves[index] for index in places])
    return [
        tree.Leaf(path, where, tuple(info.shape), info.dtype, info.sharding)
        for (path, where), info in zip(names, jax.tree_util.tree_leaves(traced.out_info), strict=True)
    ]


def _check_shardings(
    leaves: Sequence[tree.Leaf], fixture: Fixture, mesh: Any, notes: list[str]
) -> checks.Checked:
    """Compare the shardings of output types with what is declared.

    Raises `Indivisible` when the mesh does not divide an expected dimension.
    """
    checked = checks.Checked([], 0)
    out, most, sizes = fixture.expected_specs(), fixture.replicated_limit(), dict(mesh.shape)
    for glob, message in idle_globs(out, [leaf.path for leaf in leaves]).items():
        checked.failures.append(Failure("pattern", message))
        checked.looked.proved.add(name_item("out", glob))
    for leaf in leaves:
        found = select_glob(out, leaf.path)
        if found is None and most is None:
            continue
        text = REPLICATED if found is None else name_item("out", found[0])
        spec = getattr(leaf.sharding, "spec", None)
        if spec is None or leaf.sharding.mesh.empty:
            said = (
                f"{leaf.where} has no sharding in its type, because it was made outside a mesh: not checked"
            )
            checked.looked.missed[text] = said
            notes.append(said)
        elif found is not None:
            wrong = _compare_sharding(leaf, P.make_spec(spec), found[1], mesh, sizes)
            checked.failures += wrong
            checked += checks.weigh_leaf(text, found[1], sizes, bool(wrong))
        elif most is not None:
            checked += _check_replicated_size(leaf, P.make_spec(spec), most, sizes)
    return checked


def _check_replicated_size(leaf: tree.Leaf, spec: P, most: int, sizes: Mapping[str, int]) -> checks.Checked:
    if math.prod(sizes.values()) == 1:
        return checks.Checked([], 0, Looked(idle={REPLICATED: "the mesh has one device"}))
    checked = checks.Checked([], 1, Looked({REPLICATED}))
    if leaf.local_bytes > most and not _axes_by_dimension(spec, len(leaf.shape), sizes):
        held, limit = size_text(leaf.local_bytes), size_text(most)
        message = f"replicated: {held} is more than replicated_bytes_max ({limit})"
        checked.failures.append(
            Failure("replicated", message, leaf.where, leaf.path, leaf.describe_array, "sharded", "P()")
        )
    return checked


def _compare_sharding(
    leaf: tree.Leaf, actual: P, expected: P, mesh: Any, sizes: Mapping[str, int]
) -> list[Failure]:
    try:
        misfit = expected.explain_misfit(leaf.shape, sizes)
    except ValueError as error:
        return [Failure("fixture", str(error), leaf.where, leaf.path, leaf.describe_array)]
    if misfit:
        raise placed_arguments.Indivisible(f"{leaf.where}: {misfit}")
    partial = getattr(leaf.sharding.spec, "unreduced", None)
    if not partial and _axes_by_dimension(actual, len(leaf.shape), sizes) == _axes_by_dimension(
        expected, len(leaf.shape), sizes
    ):
        return []
    failure = Failure("sharding", "", leaf.where, leaf.path, leaf.describe_array, str(expected), _spec_text(actual))
    if partial:
        failure.message = f"not yet summed over {', '.join(sorted(partial))}"
    failure.bytes_expected = leaf.bytes_under(placed_arguments.named_sharding(mesh, expected))
    failure.bytes_actual = leaf.local_bytes
    return [failure]


def _axes_by_dimension(spec: P, ndim: int, sizes: Mapping[str, int]) -> list[tuple[str, ...]]:
    """The axes each dimension is split over, without those of size 1, which split nothing; [] for none
    at all.
    """
    found = [tuple(name for name in names if sizes[name] > 1) for names in spec.axes_by_dimension()]
    return [*found, *[()] * (ndim - len(found))] if any(found) else []


def _spec_text(spec: P) -> str:
    entries = list(spec.entries)
    while entries and entries[-1] in (None, ()):
        entries.pop()
    return str(P(*entries))
