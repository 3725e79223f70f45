"""Level `topology`: a fixture compiled by the real compiler of accelerators that are not here.

It proves what that compiler decides: whether the program fits a device's memory, where outputs lie, which donated
buffers are reused, and the collectives that will run. Nothing is executed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import jax

from shardlint.verify.facts import Program
from shardlint.verify.fixture import EXPLICIT, Fixture, devices_of
from shardlint.verify.inside import (
    accelerators,
    checks,
    compiled,
    devices,
    hlo,
    invoke,
    limits,
    load,
    placed_arguments,
    program,
    tree,
)
from shardlint.verify.inside.accelerators import Mistaken, Unavailable
from shardlint.verify.inside.explain import explain_failures
from shardlint.verify.inside.failures import failure_from_exception
from shardlint.verify.levels import DEVICES_MAX
from shardlint.verify.report import FAIL, PASS, PLAIN, SKIP, Failure, Result
from shardlint.verify.spec import P, sizes_text
from shardlint.verify.topology import Topology, check_fits, memory_text, out_of_memory, parse_topology

LEVEL = "topology"
# Parts of the CUDA compiler that come in wheels of their own, by what XLA and jax say without them.
_MISSING = {
    "No PTX compilation provider": 'ptxas and nvlink, which are not installed: pip install "shardlint[cuda]"',
    "cuDNN not found": "cuDNN, which the program uses: pip install nvidia-cudnn-cu13",
}


def run_topology(
    fixture: Fixture, sizes: Mapping[str, int], name: str, emit: Callable[[Result], None]
) -> None:
    """Compile a fixture for the topology of this name, on a mesh of these axis sizes, and emit the result.

    Nothing the user's code raises gets out of here.
    """
    line = ""

    def report_status(status: str, **more: Any) -> None:
        emit(Result(fixture.function_label(), LEVEL, status, dict(sizes), line=line, topology=name, **more))

    try:
        topology = parse_topology(name)
        if topology.device_count != devices_of(sizes):
            raise Unavailable(
                f"{topology.name} has {topology.device_count} devices, mesh {sizes_text(sizes)} {devices_of(sizes)}"
            )
        explicit = fixture.axis_types == EXPLICIT
        mesh = accelerators.mesh_over_topology(accelerators.describe_topology(topology), topology, sizes, explicit)
        function = load.resolve_reference(fixture.fn)
        line = load.place_of(function)
        made = _make_arguments(fixture, sizes, mesh)
        found, under = _compile_for_topology(
            fixture, function, placed_arguments.describe_arguments(made, mesh), mesh, topology
        )
        described = program.describe_program(found, mesh, made, fixture.expected_specs(), topology.name)
        described = replace(described, program=_describe_finished(described.program, found, topology))
        checked = _check_placement(found, described, fixture, mesh, topology)
    except (Unavailable, placed_arguments.Indivisible, compiled.NoShardings) as error:
        report_status(SKIP, reason=str(error))
    except _Refused as error:
        report_status(FAIL, failures=[Failure("memory", str(error))])
    except Mistaken as error:
        report_status(FAIL, failures=[Failure("fixture", str(error))])
    except Exception as error:
        report_status(FAIL, failures=[_failure_of_error(error)])
    else:
        report_status(
            FAIL if checked.failures else PASS,
            checked=checked.count,
            failures=checked.failures,
            notes=[*checked.looked.coverage_sentences(), memory_text(described.program, topology)],
            how=f"{found.how} for {topology.name}, under {under}",
            program=described.program,
        )


class _Refused(Exception):
    """A program the compiler refuses for want of memory, and the figures it gives."""


def _make_arguments(fixture: Fixture, sizes: Mapping[str, int], mesh: Any) -> list[placed_arguments.HostArgument]:
    """The fixture's arguments, with a spec for every array.

    What makes them may fill arrays, which no device of a topology can hold: it is given simulated devices, and where
    they lay is carried over. More than can be simulated are not: there, makers get the topology's mesh.
    """
    if devices_of(sizes) > DEVICES_MAX:
        made = placed_arguments.make_arguments(fixture, mesh)
    else:
        simulated = devices.mesh_of(sizes, fixture.axis_types == EXPLICIT)
        entered, _ = devices.enter_mesh_context(fixture.context, simulated)
        with entered:
            made = placed_arguments.make_arguments(fixture, simulated)
    for index, one in enumerate(made):
        for path, where, leaf in tree.flatten_tree(one.tree):
            if path in one.specs and one.specs[path] is None:
                one.specs[path] = _spec_of(leaf.sharding, sizes, f"args[{index}]{where}")
    return made


def _spec_of(sharding: Any, sizes: Mapping[str, int], where: str) -> P:
    """The spec an array was placed by. Raises `Unavailable` where it has none on this mesh."""
    if isinstance(sharding, jax.sharding.NamedSharding) and dict(sharding.mesh.shape) == dict(sizes):
        return P.make_spec(sharding)
    kind = type(sharding).__name__
    raise Unavailable(f"{where} was placed by a {kind} outside the fixture's mesh: declare a spec for it")


def _compile_for_topology(
    fixture: Fixture, function: Any, args: list[Any], mesh: Any, topology: Topology
) -> tuple[compiled.Compiled, str]:
    """Raises `_Refused` where the program does not fit, `Unavailable` where the compiler lacks a part, `Mistaken`
    where it was not for these devices.
    """
    keywords = invoke.keyword_arguments(function, args, mesh)
    as_it_is = compiled.takes_abstract(function, args)
    called, given = (function, args) if as_it_is else abstract_call(function, args, keywords, fixture.donate)
    entered, under = devices.enter_mesh_context(fixture.context, mesh)
    try:
        with entered:
            found = compiled.compile_function(called, given, keywords if as_it_is else {}, fixture.donate)
    except Exception as error:
        message = str(error)
        if memory := out_of_memory(message):
            raise _Refused(
                f"the compiler refuses the program: it needs {memory.needed} of each device's memory, and "
                f"{topology.chip} has {memory.available}"
            ) from error
        for said, missing in _MISSING.items():
            if said in message:
                raise Unavailable(f"{topology.name} needs {missing}") from error
        raise
    strangers = {device for leaf in found.outputs for device in leaf.sharding.device_set} - set(
        mesh.devices.flat
    )
    if strangers:
        kind = next(iter(strangers)).platform
        raise Mistaken(f"was compiled for {kind}: the program does not say for which devices")
    return (found if as_it_is else _unwrap_compiled(found, function)), under


def abstract_call(
    function: Any, args: Sequence[Any], keywords: Mapping[str, Any], donate: Sequence[int]
) -> tuple[Any, list[Any]]:
    """A `jax.jit` of `function(*args, **keywords)` whose parameters are the arrays of `args` alone, and those in
    their own trees. It returns the arrays of the result, and a list of those that took the place of an argument's.

    Wrappers of `jax.jit` (`equinox.filter_jit`, `nnx.jit`) take a described array for a constant. Here they meet a
    tracer in its place, and their own jit becomes part of this one, in which donation is what `donate` says.
    """
    flat = [jax.tree_util.tree_flatten(value) for value in args]

    def call_with_structs(*given: Any) -> Any:
        whole, before = [], []
        for (leaves, treedef), value in zip(flat, given, strict=True):
            arrays = iter(jax.tree_util.tree_leaves(value))
            filled = [next(arrays) if tree.is_abstract(leaf) else leaf for leaf in leaves]
            whole.append(treedef.unflatten(filled))
            before += filled
        result = function(*whole, **keywords)
        # NNX modules are changed in place; what they hold then is a result like any other.
        held = {id(leaf) for leaf in before}
        changed = [leaf for leaf in jax.tree_util.tree_leaves(whole) if id(leaf) not in held]
        return _only_arrays((result, changed), tree.is_array)

    given = [_only_arrays(value, tree.is_abstract) for value in args]
    return jax.jit(call_with_structs, donate_argnums=tuple(donate)), given


def _only_arrays(value: Any, is_one: Callable[[Any], bool]) -> Any:
    return jax.tree_util.tree_map(lambda leaf: leaf if is_one(leaf) else None, value)


def _unwrap_compiled(found: compiled.Compiled, function: Any) -> compiled.Compiled:
    """Return the compilation of an `abstract_call`, described as that of the function itself."""
    outputs = [
        replace(
            leaf,
            path=leaf.path.removeprefix("0").removeprefix("/"),
            where="out" + leaf.where[len("out[0]") :],
        )
        for leaf in found.outputs
        if leaf.path.partition("/")[0] == "0"
    ]
    how = f"{PLAIN}, wrapped in jax.jit"
    if compiled.can_lower(function):
        how = f"compiled inside a jax.jit ({type(function).__module__.partition('.')[0]})"
    return replace(found, outputs=outputs, how=how)


def _describe_finished(described: Program, found: compiled.Compiled, topology: Topology) -> Program:
    """A program as this compiler finished it: combined, fused and split collectives, and its peak.

    Products are left out: what each costs is told in the partitioner's collectives, which these are not.
    """
    names = {one.parameter: one.leaf.where for one in found.taken if one.parameter is not None}
    finished = hlo.read_module(found.executable.as_text() or "", described.mesh, names=names or None)
    # Of a GPU the temporaries are one buffer, taken whole; of a TPU they are more than what lives at once.
    peak = getattr(found.executable.memory_analysis(), "peak_memory_in_bytes", 0)
    return replace(
        described,
        collectives=tuple(finished.collectives),
        products=(),
        peak_bytes=int(peak or 0) if topology.platform == "tpu" else 0,
    )


def _check_placement(
    found: compiled.Compiled,
    described: program.Described,
    fixture: Fixture,
    mesh: Any,
    topology: Topology,
) -> checks.Checked:
    checked = checks.check_placement(found.outputs, fixture.expected_specs(), mesh, fixture.replicated_limit())
    explain_failures(checked.failures, found.outputs, described)
    checked += checks.check_donation(found)
    checked += limits.check_claims(fixture, described.program)
    failures = check_fits(described.program, topology, fixture.hbm_limit())
    checked += checks.Checked(failures, 1)
    return checked


def _failure_of_error(error: BaseException) -> Failure:
    failure = failure_from_exception(error)
    if "incompatible devices" in failure.message.lower():
        failure.message += (
            "\nthe program makes its own mesh of this machine's devices: take a `mesh` parameter, or use the "
            "mesh in context"
        )
    return failure
