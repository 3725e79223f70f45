"""The same function in float64, on the mesh and on one device: rounding is some ten orders below any
real mistake.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import jax
import numpy as np

from shardlint.verify.inside import checks, compare, compiled, devices, placed_arguments, tree
from shardlint.verify.inside.failures import failure_from_exception
from shardlint.verify.inside.invoke import call_function, keyword_arguments, run_in_float64
from shardlint.verify.inside.single_device_run import (
    ReferenceRun,
    arguments_for_one_device,
    copy_reference_numbers,
    pretend_single_device,
)
from shardlint.verify.report import Failure

# Relative to an element, or to the size of its leaf's numbers. Measured for correct shardings: 8e-16, 7e-7 and
# 3e-2; the smallest common mistake (a missing psum on two devices) gives 0.5.
TOLERANCE = {"float64": 1e-10, "float32": 1e-4, "bfloat16": 5e-2, "float16": 1e-2, "float8": 0.25}
_OWN_MESH = (
    "fn makes its own mesh. Take a `mesh` parameter, use the mesh in context, or declare another reference"
)


class _Stop(Exception):
    """There are no numbers to compare with; the message says why."""


def compare_with(
    function: Any,
    reference: Any,
    hosts: list[Any],
    host_arguments: list[placed_arguments.HostArgument],
    mesh: Any,
    kind: str,
    reference_run: ReferenceRun | None,
) -> tuple[checks.Checked, list[str]]:
    """Call `function` on the mesh, in float64, and compare with `reference` (None: itself) on one device.

    `hosts` are the arguments as host copies, `kind` the context as in `Fixture.context`, `reference_run` what came of
    the run in a process with one device (None: there was none). Returns also sentences for the report. Raises what the
    function raises on the mesh in its own dtypes; where it cannot run in float64 that is said, and its own
    dtypes are compared with a looser tolerance.
    """
    against = "one device" if reference is None else "the reference"
    try:
        hosts, ran, notes = _run_reference(
            reference or function, reference is None, hosts, host_arguments, mesh, kind, reference_run
        )
    except _Stop as stop:
        return checks.Checked([Failure("numbers", str(stop))], 0), []

    def on_mesh(given: list[Any]) -> Any:
        return call_function(function, placed_arguments.place_arrays(given, host_arguments, mesh), mesh, kind)

    if ran.lowest == "float64":
        together, lowest, said = run_in_float64(hosts, on_mesh)
        if lowest != "float64":  # only on the mesh, so that the other side is to be had again
            try:
                ran = _run_on_one_device(reference or function, hosts, host_arguments, mesh, kind, wide=False)
            except _Stop as stop:
                return checks.Checked([Failure("numbers", str(stop))], 0), notes
            notes += said
    else:
        together, lowest = on_mesh(hosts), ran.lowest
    notes += ran.notes
    if reference is None and not ran.returns_arrays:
        notes.append("fn returns no arrays, so it is not known whether the reference ran on one device")
    got = compare.numbers_by_path(together)
    result, summary = compare.check_numbers(got, ran.numbers, _tolerance_by_path(got, lowest), against)
    if result.failures and lowest == "float64":
        # Only now is it worth asking whether the program itself computes in something coarser.
        wide = [tree.map_arrays(tree.upcast_leaf, host) for host in hosts]
        lowest = _lowest_precision(function, wide, host_arguments, mesh, kind)
        if lowest != "float64":
            notes.append(f"fn computes in {lowest}, whatever the dtype of its arguments")
            result, summary = compare.check_numbers(
                got, ran.numbers, _tolerance_by_path(got, lowest), against
            )
        hosts = wide
    if result.failures and (
        unstable := _unstable_failure(got, on_mesh, hosts, _tolerance_by_path(got, lowest))
    ):
        return checks.Checked([unstable], result.count), notes
    if any(failure.where for failure in result.failures):
        # A gradient that is 0 but for rounding differs by all of itself.
        shaken = compare.numbers_by_path(on_mesh([tree.map_arrays(_shake_floats, host) for host in hosts]))
        before = len(result.failures)
        result, summary = compare.check_numbers(
            got, ran.numbers, _tolerance_by_path(got, lowest), against, shaken
        )
        if len(result.failures) < before:
            notes.append(
                "differences up to the effect of rounding the arguments were ignored"
            )
    return result, [*notes, *summary]


def _shake_floats(leaf: Any) -> Any:
    """A host copy in which every other float is the next one up or down."""
    if not isinstance(leaf, np.ndarray) or leaf.dtype not in (np.float32, np.float64):
        return leaf
    ways = np.where(np.arange(leaf.size).reshape(leaf.shape) % 2 == 0, -np.inf, np.inf)
    return np.where(leaf == 0, leaf, np.nextafter(leaf, ways.astype(leaf.dtype)))


def _run_reference(
    function: Any,
    itself: bool,
    hosts: list[Any],
    host_arguments: list[placed_arguments.HostArgument],
    mesh: Any,
    kind: str,
    reference_run: ReferenceRun | None,
) -> tuple[list[Any], ReferenceRun, list[str]]:
    """The arguments both runs are given, what the one on one device gave, and sentences for the report.

    Raises `_Stop`.
    """
    count = len(jax.devices())
    if reference_run is None or reference_run.unmade:
        notes = []
        if reference_run is not None:
            notes.append(
                f"the single-device reference ran on one of {count} devices, because a process with one device "
                f"{reference_run.unmade}"
            )
        return hosts, _run_on_one_device(function, hosts, host_arguments, mesh, kind), notes
    if reference_run.ended:
        raise _Stop(f"the run on one device {reference_run.ended}")
    if reference_run.raised:
        advice = f"\nperhaps {_OWN_MESH}" if itself else ""
        raise _Stop(f"the run on one device {reference_run.raised}{advice}")
    given, other, strange = copy_reference_numbers(hosts, reference_run.arguments)
    if strange:
        note = f"{strange} differs in a process with one device, so the reference ran on one of {count} devices"
        return hosts, _run_on_one_device(function, hosts, host_arguments, mesh, kind), [note]
    notes = []
    if other:
        more = f" and {len(other) - 1} more" if len(other) > 1 else ""
        notes.append(
            f"{other[0]}{more} has other values if it is made on one device; both runs got those of one device"
        )
    return given, reference_run, notes


def _run_on_one_device(
    function: Any,
    hosts: list[Any],
    host_arguments: list[placed_arguments.HostArgument],
    mesh: Any,
    kind: str,
    wide: bool = True,
) -> ReferenceRun:
    """The run on one device, in this process. Raises `_Stop` where it came to nothing."""
    one = devices.mesh_of(dict.fromkeys(mesh.axis_names, 1), devices.is_explicit(mesh))

    def run_reference(given: list[Any]) -> Any:
        return call_function(function, arguments_for_one_device(given, host_arguments, one), one, kind)

    try:
        with pretend_single_device():
            output, lowest, notes = (
                run_in_float64(hosts, run_reference) if wide else (run_reference(hosts), "float32", [])
            )
    except Exception as error:
        raise _Stop(
            f"the run on one device {failure_from_exception(error).message}\nperhaps {_OWN_MESH}"
        ) from error
    spread = [where for _, where, leaf in tree.flatten_tree(output) if placed_arguments.is_spread(leaf)]
    if spread:
        raise _Stop(f"the run on one device used several (out{spread[0]}): {_OWN_MESH}")
    arrays = bool(tree.array_leaves(output, ""))
    return ReferenceRun(lowest=lowest, notes=notes, numbers=compare.numbers_by_path(output), returns_arrays=arrays)


def _unstable_failure(
    got: compare.Numbers, run: Callable[[list[Any]], Any], hosts: list[Any], tolerance: Callable[[str], float]
) -> Failure | None:
    """The failure of a function that returns other numbers when it is called again with the same arguments."""
    jax.clear_caches()  # so that what is drawn when a function is traced is drawn again
    found, odd = compare.compare_leaves(compare.numbers_by_path(run(hosts)), got, nan_is_nan=True)
    worst = next((one for one in found if one.size > tolerance(one.path)), None)
    if worst is None and not odd:
        return None
    how = odd[0] if worst is None else f"{worst.where} differs by {worst.size:.2g} relative"
    message = (
        f"is not deterministic: two calls on the mesh with the same arguments differ ({how}). It depends on "
        "something other than its arguments, such as host randomness (np.random, random), the time, or stored "
        "state; so its result cannot be compared"
    )
    return Failure("numbers", message, "fn", "" if worst is None else worst.path)


def _tolerance_by_path(got: Mapping[str, tuple[str, Any]], lowest: str) -> Callable[[str], float]:
    """The tolerance of a path: of the coarser of its own dtype and the coarsest the program computes in."""

    def tolerance_for(path: str) -> float:
        own = str(got[path][1].dtype)
        own = "float8" if own.startswith("float8") else {"complex64": "float32"}.get(own, own)
        return max(TOLERANCE.get(own, 0.0), TOLERANCE[lowest])

    return tolerance_for


def _lowest_precision(
    function: Any, wide: list[Any], host_arguments: list[placed_arguments.HostArgument], mesh: Any, kind: str
) -> str:
    args = placed_arguments.place_arrays(wide, host_arguments, mesh)
    entered, _ = devices.enter_mesh_context(kind, mesh)
    try:
        with entered:
            found = compiled.compile_function(function, args, keyword_arguments(function, args, mesh), ())
            return compiled.lowest_float(found.text())
    except Exception:  # a plain function that no jit can trace: nothing is known of its inside
        return "float64"
