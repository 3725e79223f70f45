"""A region that is run for itself, on several devices or on one, and where the numbers of both part."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

from . import program
from .frames import user_lines_of_traceback
from .operation_comparison import (
    COLLECTIVES,
    Steps,
    choose_sample,
    evaluate_body,
    find_error_origin,
    find_relation,
    lines_counted_on_each_device,
    lines_using_device_number,
    pair_values,
    steps_of,
)
from .values import axes_of, inner_jaxpr

_ELEMENTS = 2**25
_AT_ONCE = 600
# How often values are looked at, and how many operations may be compiled for that.
_ROUNDS, _COMPILED = 8, 4000


class Region:
    """A region over a mesh, with the arrays it is run on."""

    def __init__(self, jax: Any, mesh: Any, args: Any, folder: str) -> None:
        self.jax, self.several, self.args, self.folder = jax, mesh, args, folder
        self.body: Any = None
        self.checked = False
        """Whether jax checks what varies: it is part of the types then."""
        self.sizes: dict[str, int] = {}
        self.split: list[int] = []
        """The sizes on one device of all dimensions that are split."""
        self.rows: dict[int, int] = {}
        """The same, each with the size of the whole."""
        self.counts: dict[int, int] = {}
        """Counts of rows that one device has of what is split, and those of all devices."""
        self.names: list[str] = []
        self.work = self.operations = self.held = 0

    def trace_operations(self, mapped: Any) -> None:
        """Take down the operations of a mapped function."""
        closed, shapes = self.jax.make_jaxpr(mapped, return_shape=True)(*self.args)
        [eqn] = [one for one in closed.jaxpr.eqns if one.primitive.name == "shard_map"]
        known = dict(zip(closed.jaxpr.constvars, closed.consts, strict=True))
        known.update(zip(closed.jaxpr.invars, self.jax.tree_util.tree_leaves(self.args), strict=True))
        self.given = [atom.val if hasattr(atom, "val") else known[atom] for atom in eqn.invars]
        self.body = inner_jaxpr(eqn.params["jaxpr"])
        self.in_specs, self.out_specs = tuple(eqn.params["in_specs"]), tuple(eqn.params["out_specs"])
        self.checked = bool(eqn.params.get("check_vma", False))
        manual = eqn.params.get("newly_manual_axes", eqn.params.get("manual_axes", self.several.axis_names))
        self.manual = frozenset(manual)
        sizes = dict(self.several.shape).items()
        self.sizes = {str(name): int(size) for name, size in sizes if name in manual and size > 1}
        self.work = program.count_multiplications(closed.jaxpr)
        self.held = sum(one.aval.size for one in self.body.invars) * self.several.size
        self.operations = sum(1 for _ in program.iterate_operations(self.body))
        paths = self.jax.tree_util.tree_flatten_with_path(shapes)[0]
        self.names = [self.jax.tree_util.keystr(path) for path, _ in paths]
        self.split, self.rows, self.counts = [], {}, {}
        for spec, variable, one in zip(self.in_specs, self.body.invars, self.given, strict=True):
            local, whole = tuple(variable.aval.shape), tuple(one.shape)
            self.split += [part for part, axes in zip(local, spec, strict=False) if axes]
            self.rows.update((part, size) for part, size in zip(local, whole, strict=True) if part != size)
            for first in range(len(local)):
                for last in range(first + 1, len(local) + 1):
                    few, many = math.prod(local[first:last]), math.prod(whole[first:last])
                    if few != many:
                        self.counts[few] = many

    def is_same_region(self, other: Region | None) -> bool:
        """Return whether another region does the same with the same arrays."""
        import numpy as np

        if other is None or str(self.body) != str(other.body):
            return False
        pairs = zip(self.given, other.given, strict=True)
        return all(one is two or np.array_equal(one, two) for one, two in pairs)

    def map_function(self, function: Any, out_specs: Any, in_specs: Any = None) -> Any:
        """A function mapped as this region is, compiled where nobody looks for what is compiled."""
        if self.manual == frozenset(self.several.axis_names):
            more: dict[str, Any] = {}
        else:
            more = {"axis_names": set(self.manual)}
        made = shard_map(self.jax)(
            function, mesh=self.several, in_specs=in_specs or self.in_specs, out_specs=out_specs,
            check_vma=self.checked, **more,
        )  # fmt: skip
        return self.jax.jit(made, compiler_options={"xla_dump_to": self.folder, "xla_backend_optimization_level": 0})

    def run_region(self) -> list[Any]:
        """Return the results of the region for its arrays."""
        return self.with_numbers(())({})

    def with_numbers(self, atoms: Sequence[Any]) -> Callable[[dict[int, Any]], list[Any]]:
        """Return a function that computes the results with other values for some of the region's literals, by their
        `id`. All of `atoms` may get other values; the function is compiled once.
        """
        import numpy as np

        def run_with_numbers(given: Sequence[Any], numbers: Sequence[Any]) -> Any:
            instead = {id(atom): number for atom, number in zip(atoms, numbers, strict=True)}
            return tuple(evaluate_body(self.body, (), given, instead, None))

        spec = self.jax.sharding.PartitionSpec
        mapped = self.map_function(run_with_numbers, self.out_specs, (tuple(self.in_specs), (spec(),) * len(atoms)))

        def results_with_numbers(instead: dict[int, Any]) -> list[Any]:
            numbers = tuple(np.asarray(instead.get(id(one), one.val), one.aval.dtype) for one in atoms)
            with self.enter_mesh():
                return list(self.jax.device_get(mapped(tuple(self.given), numbers)))

        return results_with_numbers

    def enter_mesh(self) -> Any:
        """The mesh as that of the program."""
        return self.jax.set_mesh(self.several) if hasattr(self.jax, "set_mesh") else self.several

    def operation_values(self, places: dict[int, Sequence[Any]]) -> list[Any]:
        """Return the results of some operations on each device, a row for each, by their places among all results in
        order: of each dimension the elements that are selected, by number.
        """
        spec = self.jax.sharding.PartitionSpec

        def run_and_keep(*given: Any) -> Any:
            kept: dict[int, Any] = {}
            count = itertools.count()

            def keep_value(one: Any) -> None:
                if (at := next(count)) in places:
                    for dim, rows in enumerate(places[at]):
                        if len(rows) < one.shape[dim]:
                            one = self.jax.numpy.take(one, rows, axis=dim)
                    kept[at] = one[None]

            evaluate_body(self.body, (), given, {}, keep_value)
            return tuple(kept[at] for at in places)

        mapped = self.map_function(
            run_and_keep, spec(tuple(name for name in self.several.axis_names if name in self.manual))
        )
        with self.enter_mesh():
            return list(self.jax.device_get(mapped(*self.given)))


def shard_map(jax: Any) -> Any:
    """`shard_map` of a release."""
    if hasattr(jax, "shard_map"):
        return jax.shard_map
    from jax.experimental import shard_map as module

    return module.shard_map


class _Fits:
    """How each value of the region on several devices makes up that on one; looked at when it is asked for."""

    def __init__(self, region: Region, alone: Region, several: Steps, single: Steps) -> None:
        self._region, self._alone, self._places = region, alone, dict(pair_values(several, single))
        self._wholes = {
            give: variable.aval.shape
            for step in single.steps
            for give, variable in zip(step.gives, step.eqn.outvars, strict=True)
        }
        self._makers = several.steps_by_value
        self._arguments = len(region.body.invars)
        self._rounds = 0
        self._other_shapes: set[int] = set()
        self._most = min(_ROUNDS, _COMPILED // (2 * max(1, region.operations)) + 1)
        self._known: dict[int, str | None] = {
            at: "split" if any(spec) else "" for at, spec in enumerate(region.in_specs)
        }

    def fit_of_value(self, number: int, default: str | None = None) -> str | None:
        """How a value fits: None where it does not, `default` where nothing on one device is its like."""
        if number not in self._known and number in self._places and self._rounds < self._most:
            self._rounds += 1
            self._load_values(number)
        return self._known.get(number, default)

    def __getitem__(self, number: int) -> str | None:
        return self.fit_of_value(number)

    def is_comparable(self, number: int) -> bool:
        """Return whether the shapes of its parts make up those of the global arrays."""
        return number not in self._other_shapes

    def _load_values(self, number: int) -> None:
        """Look at a value and those it is made of, as many as are not too large together."""
        taken: dict[int, tuple[list[Any], list[Any]]] = {}
        waiting, size, done = [number], 0, set[int]()
        while waiting and len(taken) < _AT_ONCE:
            one = waiting.pop(0)
            step = self._makers.get(one)
            if step is None or one in done:
                continue
            done.add(one)
            if one not in self._known and one in self._places:
                local = step.eqn.outvars[step.gives.index(one)].aval.shape
                rows = choose_sample(local, self._wholes[self._places[one]])
                more = math.prod(len(each) for each in (rows or ((), ()))[1]) * self._region.several.size
                if rows is None:
                    self._known[one] = None
                    self._other_shapes.add(one)
                elif not taken or size + more <= _ELEMENTS:
                    size += more
                    taken[one] = rows
            waiting += [each for each in step.takes if each is not None]
        parts = self._region.operation_values({one - self._arguments: rows for one, (rows, _) in taken.items()})
        wholes = self._alone.operation_values(
            {self._places[one] - self._arguments: rows for one, (_, rows) in taken.items()}
        )
        for one, part, whole in zip(taken, parts, wholes, strict=True):
            self._known[one] = find_relation(part, whole[0], self._region.sizes)


def where_they_part(region: Region, alone: Region, wrong: Sequence[int]) -> dict[str, Any] | None:
    """The operation at which some results of a region part from those on one device; None where it cannot be told, or
    may be meant.
    """
    several, one = steps_of(region.body), steps_of(alone.body)
    fits = _Fits(region, alone, several, one)
    found = find_error_origin(several, wrong, fits)
    if found is None:
        return None
    step, taken = found
    lines = lines_counted_on_each_device(several, step, fits) if taken == "counted" else step.lines
    if step.name == "axis_index":
        lines = lines_using_device_number(several, step, fits) or lines
    lines = lines[:4]
    if not lines:
        return None
    inside = [
        user_lines_of_traceback(eqn.source_info.traceback)[:1]
        for eqn, _, _ in program.iterate_operations(step_body(step.eqn))
        if eqn.primitive.name in COLLECTIVES
    ]
    return {
        "step": step.name, "taken": taken, "over": list(map(str, axes_of(step.eqn))),
        "collective": step.name in COLLECTIVES, "devices": region.several.size,
        "lines": lines, "inside": [each[0] for each in inside if each][:4],
    }  # fmt: skip


def step_body(eqn: Any) -> Any:
    """The body of a loop; nothing of another operation."""
    body = inner_jaxpr(eqn.params.get("body_jaxpr", eqn.params.get("jaxpr")))
    return body if hasattr(body, "eqns") else SimpleNamespace(eqns=())
