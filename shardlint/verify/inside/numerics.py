"""The same function in float64, on the mesh and on one device: rounding is some ten orders below any
real mistake.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax

from shardlint.verify.inside import checks, compiled, devices, load, place, tree
from shardlint.verify.report import Failure

# Relative to the largest number of a leaf. Measured for correct shardings: 8e-16, 7e-7 and 3e-2;
# the smallest common mistake (a missing psum on two devices) gives 0.5.
TOLERANCE = {"float64": 1e-10, "float32": 1e-4, "bfloat16": 5e-2, "float16": 1e-2, "float8": 0.25}


def compare(
    function: Any,
    reference: Any,
    hosts: list[Any],
    made: list[place.Made],
    mesh: Any,
    kind: str,
) -> tuple[checks.Checked, list[str]]:
    """Call `function` on the mesh and `reference` (None: itself) on one device, in float64, and
    compare.

    `hosts` are the arguments as host copies, `kind` the context as in `Fixture.context`. Returns
    also sentences for the report. Raises what the function raises in its own dtypes; where it
    cannot run in float64 that is said, and its own dtypes are compared with a looser tolerance.
    """
    against = "one device" if reference is None else "the reference"
    notes = []
    jax.config.update("jax_enable_x64", True)
    wide = [tree.map_arrays(tree.upcast, host) for host in hosts]
    try:
        alone = _on_one_device(reference or function, wide, made, mesh, kind)
        together = _on_mesh(function, wide, made, mesh, kind)
        lowest = "float64"
    except Exception as error:
        jax.config.update("jax_enable_x64", False)
        wide = hosts
        alone = _on_one_device(reference or function, hosts, made, mesh, kind)
        together = _on_mesh(function, hosts, made, mesh, kind)
        lowest = "float32"
        words = f"{type(error).__name__}: {error}".splitlines()[0]
        notes.append(f"fn does not run in float64 ({words[:120]}); its own dtypes were compared")
    if reference is None and not tree.array_leaves(alone, ""):
        notes.append("fn returns no arrays, so that the reference ran on one device cannot be seen from them")
    spread = [path for path, _, leaf in tree.flatten(alone) if _is_spread(leaf)]
    if spread:
        message = (
            "the run on one device used several: fn brings its own mesh. Let it take a `mesh` parameter "
            "or use the mesh of the context, or give the fixture another reference"
        )
        return checks.Checked([Failure("numbers", message, path=spread[0])], 0), notes
    got, want = checks.numbers(together), checks.numbers(alone)
    result, summary = checks.check_numbers(got, want, _tolerance(got, lowest), against)
    if result.failures and lowest == "float64":
        # Only now is it worth asking whether the program itself computes in something coarser.
        lowest = _lowest(function, wide, made, mesh, kind)
        if lowest != "float64":
            notes.append(f"fn computes in {lowest} whatever it is given")
            result, summary = checks.check_numbers(got, want, _tolerance(got, lowest), against)
    return result, [*notes, summary]


def _is_spread(leaf: Any) -> bool:
    return isinstance(leaf, jax.Array) and len(leaf.sharding.device_set) > 1


def _on_mesh(function: Any, hosts: list[Any], made: list[place.Made], mesh: Any, kind: str) -> Any:
    return call(function, place.place(hosts, made, mesh), mesh, kind)


def _on_one_device(function: Any, hosts: list[Any], made: list[place.Made], mesh: Any, kind: str) -> Any:
    explicit = devices.is_explicit(mesh)
    one = devices.mesh_of(dict.fromkeys(mesh.axis_names, 1), explicit)
    if explicit and all(spec is not None for argument in made for spec in argument.specs.values()):
        # Shardings are part of the types the function was written for.
        return call(function, place.place(hosts, made, one), one, kind)
    # Uncommitted, so that a function that insists on its own mesh shows itself instead of failing oddly.
    return call(function, [tree.map_arrays(tree.from_host, host) for host in hosts], one, kind)


def keywords(function: Any, args: Sequence[Any], mesh: Any) -> dict[str, Any]:
    """The keyword arguments a fixture's function is called with: the mesh, where it takes it."""
    return {"mesh": mesh} if load.takes_mesh(function, len(args)) else {}


def call(function: Callable[..., Any], args: Sequence[Any], mesh: Any, kind: str) -> Any:
    """Call a fixture's function and wait for its result."""
    entered, _ = devices.context(kind, mesh)
    with entered:
        return jax.block_until_ready(function(*args, **keywords(function, args, mesh)))


def _tolerance(got: Mapping[str, tuple[str, Any]], lowest: str) -> Callable[[str], float]:
    """The tolerance of a path: of the coarser of its own dtype and the coarsest the program computes in."""

    def of(path: str) -> float:
        own = str(got[path][1].dtype)
        own = "float8" if own.startswith("float8") else {"complex64": "float32"}.get(own, own)
        return max(TOLERANCE.get(own, 0.0), TOLERANCE[lowest])

    return of


def _lowest(function: Any, wide: list[Any], made: list[place.Made], mesh: Any, kind: str) -> str:
    args = place.place(wide, made, mesh)
    entered, _ = devices.context(kind, mesh)
    try:
        with entered:
            found = compiled.compile_function(function, args, keywords(function, args, mesh), ())
            return compiled.lowest_float(found.text())
    except Exception:  # a plain function that no jit can trace: nothing is known of its inside
        return "float64"
