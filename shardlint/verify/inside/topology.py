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
    fixtures,
    load,
    numerics,
    place,
    tree,
)
from shardlint.verify.inside.accelerators import Mistaken, Unavailable
from shardlint.verify.levels import DEVICES_MAX
from shardlint.verify.report import FAIL, PASS, PLAIN, SKIP, Failure, Result, size_text
from shardlint.verify.spec import P, sizes_text
from shardlint.verify.topology import Topology, out_of_memory, parse_topology

LEVEL = "topology"
# Parts of the CUDA compiler that come in wheels of their own, by what XLA and jax say without them.
_MISSING = {
    "No PTX compilation provider": 'ptxas and nvlink, which are not installed: pip install "shardlint[cuda]"',
    "cuDNN not found": "cuDNN, which the program asks for by name: pip install nvidia-cudnn-cu13",
}


def run_topology(
    fixture: Fixture, sizes: Mapping[str, int], name: str, emit: Callable[[Result], None]
) -> None:
    """Compile a fixture for the topology of this name, on a mesh of these axis sizes, and emit the result.

    Nothing the user's code raises gets out of here.
    """
    line = ""

    def tell(status: str, **more: Any) -> None:
        emit(Result(fixture.label(), LEVEL, status, dict(sizes), line=line, topology=name, **more))

    try:
        topology = parse_topology(name)
        if topology.devices != devices_of(sizes):
            raise Unavailable(
                f"{topology.name} has {topology.devices} devices, mesh {sizes_text(sizes)} {devices_of(sizes)}"
            )
        explicit = fixture.axis_types == EXPLICIT
        mesh = accelerators.mesh_on(accelerators.describe(topology), topology, sizes, explicit)
        function = load.resolve(fixture.fn)
        line = load.place_of(function)
        args = _arguments(fixture, sizes, mesh)
        found, under = _compile(fixture, function, args, mesh, topology)
        program = _program(found, sizes, topology)
        checked = _check(found, program, fixture, mesh, topology)
    except (Unavailable, place.Indivisible, compiled.NoShardings) as error:
        tell(SKIP, reason=str(error))
    except _Refused as error:
        tell(FAIL, failures=[Failure("memory", str(error))])
    except Mistaken as error:
        tell(FAIL, failures=[Failure("fixture", str(error))])
    except Exception as error:
        tell(FAIL, failures=[_raised(error)])
    else:
        tell(
            FAIL if checked.failures else PASS,
            checked=checked.count,
            failures=checked.failures,
            notes=[memory_text(program, topology)],
            how=f"{found.how} for {topology.name}, under {under}",
            program=program,
        )


class _Refused(Exception):
    """A program the compiler refuses for want of memory, and the figures it gives."""


def _arguments(fixture: Fixture, sizes: Mapping[str, int], mesh: Any) -> list[Any]:
    """The fixture's arguments, described by shape, dtype and how they lie on the topology's mesh.

    What makes them may fill arrays, which no device of a topology can hold: it is given simulated devices, and where
    they lay is carried over. More than can be simulated are not: there, makers get the topology's mesh.
    """
    if devices_of(sizes) > DEVICES_MAX:
        made = place.make(fixture, mesh)
    else:
        simulated = devices.mesh_of(sizes, fixture.axis_types == EXPLICIT)
        entered, _ = devices.context(fixture.context, simulated)
        with entered:
            made = place.make(fixture, simulated)
    for index, one in enumerate(made):
        for path, where, leaf in tree.flatten(one.tree):
            if path in one.specs and one.specs[path] is None:
                one.specs[path] = _spec_of(leaf.sharding, sizes, f"args[{index}]{where}")
    return place.describe(made, mesh)


def _spec_of(sharding: Any, sizes: Mapping[str, int], where: str) -> P:
    """The spec an array was placed by. Raises `Unavailable` where it has none on this mesh."""
    if isinstance(sharding, jax.sharding.NamedSharding) and dict(sharding.mesh.shape) == dict(sizes):
        return P.of(sharding)
    kind = type(sharding).__name__
    raise Unavailable(f"{where} was placed by a {kind} that is not on the fixture's mesh: give it a spec")


def _compile(
    fixture: Fixture, function: Any, args: list[Any], mesh: Any, topology: Topology
) -> tuple[compiled.Compiled, str]:
    """Raises `_Refused` where the program does not fit, `Unavailable` where the compiler lacks a part, `Mistaken`
    where it was not for these devices.
    """
    keywords = numerics.keywords(function, args, mesh)
    how = ""
    if not compiled.takes_abstract(function, args):
        how = _how(function)
        function, args = abstract_call(function, args, keywords, fixture.donate)
        keywords = {}
    entered, under = devices.context(fixture.context, mesh)
    try:
        with entered:
            found = compiled.compile_function(function, args, keywords, fixture.donate)
    except Exception as error:
        message = str(error)
        if memory := out_of_memory(message):
            raise _Refused(
                f"needs {memory.needed} of each device's memory, {topology.chip} has {memory.available}: "
                "its compiler refuses the program"
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
        raise Mistaken(f"was compiled for {kind}: nothing in the program says which devices it is for")
    return (replace(found, how=how) if how else found), under


def abstract_call(
    function: Any, args: Sequence[Any], keywords: Mapping[str, Any], donate: Sequence[int]
) -> tuple[Any, list[Any]]:
    """A `jax.jit` of `function(*args, **keywords)` whose parameters are the arrays of `args` alone, and those in
    their own trees.

    Wrappers of `jax.jit` (`equinox.filter_jit`) take a described array for a constant. Here they meet a tracer in its
    place, and their own jit becomes part of this one, in which donation is what `donate` says.
    """
    flat = [jax.tree_util.tree_flatten(value) for value in args]

    def call(*given: Any) -> Any:
        whole = []
        for (leaves, treedef), value in zip(flat, given, strict=True):
            arrays = iter(jax.tree_util.tree_leaves(value))
            whole.append(
                treedef.unflatten([next(arrays) if tree.is_abstract(leaf) else leaf for leaf in leaves])
            )
        return _only_arrays(function(*whole, **keywords), tree.is_array)

    return jax.jit(call, donate_argnums=tuple(donate)), [
        _only_arrays(value, tree.is_abstract) for value in args
    ]


def _only_arrays(value: Any, is_one: Callable[[Any], bool]) -> Any:
    return jax.tree_util.tree_map(lambda leaf: leaf if is_one(leaf) else None, value)


def _how(function: Any) -> str:
    """How a function is taken that `abstract_call` wraps. Raises `Unavailable` for one it would not be true of."""
    if not compiled.can_lower(function):
        return f"{PLAIN}, wrapped in jax.jit"
    if compiled.is_equinox(function):
        return "compiled inside a jax.jit (equinox.filter_jit)"
    module = type(function).__module__.partition(".")[0]
    raise Unavailable(
        f"the jit of {module} changes its arguments in place, which only level execute can tell"
    )


def _program(found: compiled.Compiled, sizes: Mapping[str, int], topology: Topology) -> Program:
    memory = found.executable.memory_analysis()

    def size(name: str) -> int:
        return int(getattr(memory, f"{name}_in_bytes", 0) or 0)

    from shardlint.verify.inside.hlo import read

    collectives = read(found.executable.as_text() or "", sizes).collectives
    return Program(
        mesh=dict(sizes),
        backend=topology.name,
        collectives=tuple(collectives),
        argument_bytes=size("argument_size"),
        output_bytes=size("output_size"),
        alias_bytes=size("alias_size"),
        temporary_bytes=size("temp_size"),
        # Of a GPU the temporaries are one buffer, which is taken whole; of a TPU they are more than what lives at once.
        peak_bytes=size("peak_memory") if topology.platform == "tpu" else 0,
    )


def memory_text(program: Program, topology: Topology) -> str:
    """What a program needs of a device, and of what, in a sentence."""
    needs, has = size_text(program.memory_bytes), size_text(topology.hbm_bytes)
    by = "at its peak" if program.peak_bytes else "in all"
    return (
        f"needs {needs} {by} of the {has} a device has; "
        f"arguments {size_text(program.argument_bytes)}, outputs {size_text(program.output_bytes)} of which "
        f"{size_text(program.alias_bytes)} in donated buffers, temporaries {size_text(program.temporary_bytes)}"
    )


def check_memory(program: Program, topology: Topology, hbm_max: int | None) -> checks.Checked:
    """Compare what a program needs of a device with `hbm_max` bytes, and with what the device has."""
    limit, called = topology.hbm_bytes, f"{topology.chip} has"
    if hbm_max is not None and hbm_max <= limit:
        limit, called = hbm_max, "hbm_max is"
    if program.memory_bytes <= limit:
        return checks.Checked([], 1)
    message = f"needs {size_text(program.memory_bytes)} of each device's memory, {called} {size_text(limit)}"
    return checks.Checked([Failure("memory", message)], 1)


def _check(
    found: compiled.Compiled, program: Program, fixture: Fixture, mesh: Any, topology: Topology
) -> checks.Checked:
    checked = checks.check_placement(found.outputs, fixture.expected(), mesh, fixture.replicated_limit())
    checked += checks.check_donation(found)
    checked += check_memory(program, topology, fixture.hbm_limit())
    return checked


def _raised(error: BaseException) -> Failure:
    failure = fixtures.raised(error)
    if "incompatible devices" in failure.message.lower():
        failure.message += (
            "\nthe program brings its own mesh, of this machine's devices: let it take a `mesh` parameter, or use the "
            "mesh of the context"
        )
    return failure
