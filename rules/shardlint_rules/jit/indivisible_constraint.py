"""SL216."""

from __future__ import annotations

import ast
import math
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain, islice
from typing import ClassVar

from shardlint.facts.shardings import PLACING
from shardlint.model.mesh.meshes import Mesh, Spec
from shardlint.model.values import Environment, Function, Place, options
from shardlint.rules_api.rule import Calls, Finding, Harm, Keywords, Rule, Violates, detector
from shardlint.rules_api.site import Site
from shardlint.syntax.enclosing import is_exception_caught
from shardlint_rules.jit._divided_already import KEYWORDS, SAYING, find_divided_sizes
from shardlint_rules.jit._made_arrays import (
    MadeArray,
    arrays_in_tree,
    find_returned_arrays,
    is_nested,
    merge_environments,
)

_PUT = "jax.device_put"
_JITS = ("jax.jit",)
_CALLS = 3
_WAKING = (_PUT, "jax.lax.with_sharding_constraint", "equinox.filter_shard")


class IndivisibleConstraint(Rule):
    """A spec shards a dimension over mesh axes that do not divide its size.

    The effect depends on the call:

    - A constraint inside jit raises nothing for an intermediate array: the array is padded on every device.
    - A constraint inside jit replicates a result, or shards it over fewer devices. jax 0.12 raises `IndivisibleError`
      for some sizes of a result, such as 2 and 6 over one axis of size 4.
    - `device_put`, `out_shardings`, and a constraint outside jit always raise ValueError. (`IndivisibleError` is a
      ValueError.)

    ## Reports
    - proven: a placement or constraint that shards a dimension, if the axes do not divide its size. The code must show
      the shape and the mesh sizes. shardlint follows shapes through project functions and through `vmap`. The result of
      `vmap` has a new leading dimension.
    - proven: `out_shardings` that shard a dimension of a result, if the axes do not divide its size.
    - `in-calls` (likely): a placement or constraint of an argument, if a call in the project passes an indivisible
      size.
    - `odd-size` (likely): a placement or constraint that shards an odd size over a mesh axis that contains all devices.
    - `shard-size` (likely): an array created with the size of one shard (`experts_per_device = experts // size`), if
      its sharding shards this dimension again.

    ## Write instead
    Pad the dimension to a size that the axes divide, or shard another dimension: `P(None, "data")`.

    ## Limits
    Not reported: sizes that the code does not show, and constraints over Explicit axes (see SL313).
    """

    code = "SL216"
    name = "indivisible-constraint"
    harm = Harm.SILENT
    releases: ClassVar[Mapping[str, str]] = {"jax": ">=0.4.38"}
    assumes = True
    likely = ("in-calls", "shard-size", "odd-size")
    assumptions: ClassVar[Mapping[str, str]] = {
        "in-calls": "The real run uses the sizes of the calls in the project.",
        "odd-size": "The program runs on an even number of devices.",
        "shard-size": "The name `..._per_device` means the size of one shard.",
    }
    triggers = (
        Calls(*_WAKING),
        Calls(*_JITS, file_says=("out_shardings",)),
        Keywords(*KEYWORDS, function_says=SAYING),
        Violates("spec.indivisible", "spec.padded", "spec.odd"),
    )

    @detector("call", of=_WAKING)
    def find_undivided(self, site: Site) -> Iterator[Finding]:
        """The first dimension of a placed array that is not divided."""
        target, array = site.argument(PLACING[site.api]), site.argument("x")
        if target is None or array is None or is_exception_caught(site.file, site.syntax):
            return
        found = options(site.value(target))
        parts = site.shardings.mesh_and_spec(found[0]) if len(found) == 1 else None
        if parts is None and len(found) == 1 and site.api == _PUT:
            place = Place(site.file, array)
            environment = site.program.evaluator.environment(place)
            yield from self._report_indivisible_leaf(
                site, target, arrays_in_tree(site, MadeArray(place, environment, found[0]))
            )
        if parts is None or parts[0] is None:
            return
        mesh, spec = parts
        if mesh is None or (site.api != _PUT and site.shardings.axis_types(mesh) != "auto"):
            return
        sizes = _list_sizes(mesh)
        if not sizes:
            return
        shape = site.shape_of(Place(site.file, array))
        problem = _first_undivided_dimension(spec, sizes, shape) if shape is not None else None
        if problem is None:
            return
        axis, size, split, names = problem
        yield site.finding(
            target,
            f"{self._describe_effect(site)}: {_explain_indivisible(axis, size, split, names)}.",
            why=f"the array is `{site.shown(array)}`; checked for {site.release('jax')}"
            + self._effect_outside_trace(site),
            help=f"pad the dimension to a multiple of {split}, or shard another dimension",
            harm=Harm.CRASH if site.api == _PUT or site.region.traced == "never" else Harm.SILENT,
        )

    @detector("violation", of="spec.indivisible")
    def report_indivisible(self, site: Site) -> Finding:
        """An array that its spec does not divide, in the program as it runs."""
        parts = site.violation.said["parts"]
        return _report_size(site, f"not divisible by {parts}", parts, raises=True)

    @detector("violation", of="spec.padded")
    def report_padded(self, site: Site) -> Finding:
        """The same of an array that a compiled program shards."""
        parts = site.violation.said["parts"]
        return _report_size(site, f"not divisible by {parts}", parts, bool(site.violation.said.get("raises")))

    @detector("violation", of="spec.odd", finds="odd-size")
    def report_odd(self, site: Site) -> Finding:
        """An array of an odd size that is sharded over an unknown number of devices."""
        raises = bool(site.violation.said.get("raises"))
        return _report_size(site, "sharded over all devices", "the number of devices", raises)

    @detector("keyword", finds="shard-size")
    def find_divided_already(self, site: Site) -> Iterator[Finding]:
        """A size that was divided by the devices, in an array that is split over them."""
        if site.assuming or site.program.project.is_test(site.file.path):
            return
        for size, axis, division in find_divided_sizes(site):
            yield site.finding(
                size,
                f"The array is too small: `{site.text(size)}` is the size of one shard, and the spec shards it again "
                f"over {site.text(axis)}.",
                help=f"pass the global size, {site.text(division.left) if isinstance(division, ast.BinOp) else ''}",
                why=f"line {division.lineno} divides: {site.text(division)}; an array has its global shape",
            )

    @detector("call", "partial", of=_JITS)
    def find_undivided_result(self, site: Site) -> Iterator[Finding]:
        """A result of a jitted function that its `out_shardings` do not divide."""
        shardings, function = site.argument("out_shardings"), site.argument("fun")
        jitted = site.value(function) if function is not None else None
        if isinstance(site.decorated, ast.FunctionDef):
            jitted = Function(Place(site.file, site.decorated))
        if shardings is None or not isinstance(jitted, Function):
            return
        given = options(site.value(shardings))
        if len(given) != 1:
            return
        every = (
            find_returned_arrays(site, jitted, environment, given[0])
            for environment in _call_environments(site, jitted)
        )
        yield from self._report_indivisible_leaf(site, shardings, chain.from_iterable(every))

    def _report_indivisible_leaf(
        self, site: Site, shardings: ast.expr, parts: Iterable[MadeArray]
    ) -> Iterator[Finding]:
        """One finding for the first array of a tree that its sharding does not divide."""
        problems = (self._report_indivisible_part(site, shardings, one) for one in parts)
        yield from islice((one for one in problems if one is not None), 1)

    def _report_indivisible_part(self, site: Site, shardings: ast.expr, made_array: MadeArray) -> Finding | None:
        parts = site.shardings.mesh_and_spec(made_array.sharding)
        if parts is None or parts[0] is None or not (sizes := _list_sizes(parts[0])):
            return None
        shape = made_array.array_shape(site)
        problem = _first_undivided_dimension(parts[1], sizes, shape) if shape is not None else None
        if problem is None or shape is None:
            return None
        axis, size, split, names = problem
        text = " ".join(made_array.place.source_text().split())
        stacked = axis < len(made_array.stacked) and len(parts[1].entries) <= len(shape) - len(made_array.stacked)
        return site.finding(
            shardings,
            f"{'This' if site.api == _PUT else 'The call'} raises ValueError: "
            f"{_explain_indivisible(axis, size, split, names)}.",
            why=f"vmap adds this dimension in front of `{text}`" if stacked else f"the array is `{text}`",
            help="write None as the first entry of the spec: the result of `vmap` has a new first dimension"
            if stacked
            else f"make the dimension a multiple of {split}, or shard another dimension",
            harm=Harm.CRASH,
        )

    def _describe_effect(self, site: Site) -> str:
        if site.api == _PUT or site.region.traced == "never":
            return "This raises ValueError"
        return "The array is padded or replicated inside jit"

    def _effect_outside_trace(self, site: Site) -> str:
        """The effect where the code is not traced, if it may run there too."""
        sure = site.api == _PUT or site.region.is_proven or site.region.traced == "never"
        return "" if sure else "; outside jit this raises ValueError"


def _report_size(site: Site, suffix: str, count: str, raises: bool) -> Finding:
    """The finding of a size that does not fit the number of devices."""
    said = site.violation.said
    array = f"leaf `{said['array']}`" if said["array"] else f"`{said['shape']}`"
    effect = "This raises ValueError" if raises else "The array is padded or replicated"
    return site.report_violation(
        f"{effect}: dimension {said['dimension']} of {array} has size {said['size']}, {suffix} (`{said['axes']}`).",
        help=f"pad the dimension to a multiple of {count}, or shard another dimension",
        why=f"the array is `{said['shape']}`; checked for {site.release('jax')}",
        harm=Harm.CRASH if raises else Harm.SILENT,
    )


def _explain_indivisible(axis: int, size: int, split: int, names: str) -> str:
    return f"dimension {axis} has size {size}, not divisible by {split} ({names})"


def _call_environments(site: Site, jitted: Function) -> Iterator[Environment | None]:
    """Yield the values of the parameters of a jitted function in each visible call of it."""
    evaluator = site.program.evaluator
    around = evaluator.environment(jitted.place)
    called = False
    if site.form == "call" and site.decorated is None and (around is not None or not is_nested(jitted)):
        for end in site.program.flow.calls(Place(site.file, site.call), every=True).found[:_CALLS]:
            if end.kind == "called" and isinstance(end.place.node, ast.Call):
                called = True
                given = evaluator.read_arguments(end.place, evaluator.environment(end.place))
                yield merge_environments(evaluator.bind_parameters(jitted, given), around)
    if not called:
        yield around


def _list_sizes(mesh: Mesh) -> dict[str, int]:
    return {
        name: size
        for name, size in zip(mesh.axis_names or (), mesh.sizes, strict=False)
        if size is not None and size > 0
    }


def _first_undivided_dimension(
    spec: Spec, sizes: dict[str, int], shape: tuple[int | None, ...]
) -> tuple[int, int, int, str] | None:
    """The first dimension that is not divided: which, its size, the number of parts, and the axes."""
    if spec.open or len(spec.entries) > len(shape):
        return None
    for axis, (entry, size) in enumerate(zip(spec.entries, shape, strict=False)):
        if not entry.known or not entry.axes or size is None or any(name not in sizes for name in entry.axes):
            continue
        split = math.prod(sizes[name] for name in entry.axes)
        if size % split:
            return axis, size, split, f"`{', '.join(entry.axes)}`"
    return None
