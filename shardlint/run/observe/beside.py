"""A region that is run for itself, on several devices or on one, and where the numbers of both part."""

from __future__ import annotations

import math
from typing import Any

from . import program
from .frames import of_traceback
from .steps import COLLECTIVES, evaluate, origin, pairs, relation, steps_of
from .values import inner

_ELEMENTS = 2**25


class Region:
    """A region over a mesh, with the arrays it is run on."""

    def __init__(self, jax: Any, mesh: Any, args: Any, folder: str) -> None:
        self.jax, self.several, self.args, self.folder = jax, mesh, args, folder
        self.body: Any = None
        self.sizes: dict[str, int] = {}
        self.split: list[int] = []
        """The sizes on one device of all dimensions that are split."""
        self.counts: dict[int, int] = {}
        """Counts of rows that one device has of what is split, and those of all devices."""
        self.names: list[str] = []
        self.work = 0

    def trace(self, mapped: Any) -> None:
        """Take down the operations of a mapped function."""
        closed, shapes = self.jax.make_jaxpr(mapped, return_shape=True)(*self.args)
        [eqn] = [one for one in closed.jaxpr.eqns if one.primitive.name == "shard_map"]
        known = dict(zip(closed.jaxpr.constvars, closed.consts, strict=True))
        known.update(zip(closed.jaxpr.invars, self.jax.tree_util.tree_leaves(self.args), strict=True))
        self.given = [atom.val if hasattr(atom, "val") else known[atom] for atom in eqn.invars]
        self.body = inner(eqn.params["jaxpr"])
        self.in_specs, self.out_specs = tuple(eqn.params["in_specs"]), tuple(eqn.params["out_specs"])
        manual = eqn.params.get("newly_manual_axes", eqn.params.get("manual_axes", self.several.axis_names))
        self.manual = frozenset(manual)
        self.sizes = {str(name): int(size) for name, size in dict(self.several.shape).items() if name in manual and size > 1}
        self.work = program.work(closed.jaxpr)
        paths = self.jax.tree_util.tree_flatten_with_path(shapes)[0]
        self.names = [self.jax.tree_util.keystr(path) for path, _ in paths]
        self.split, self.counts = [], {}
        for spec, variable, one in zip(self.in_specs, self.body.invars, self.given, strict=True):
            local, whole = tuple(variable.aval.shape), tuple(one.shape)
            self.split += [part for part, axes in zip(local, spec, strict=False) if axes]
            for first in range(len(local)):
                for last in range(first + 1, len(local) + 1):
                    few, many = math.prod(local[first:last]), math.prod(whole[first:last])
                    if few != many:
                        self.counts[few] = many

    def map(self, function: Any, out_specs: Any) -> Any:
        """A function mapped as this region is, compiled where nobody looks for what is compiled."""
        mapped = self.jax.shard_map if hasattr(self.jax, "shard_map") else None
        if mapped is None:
            from jax.experimental.shard_map import shard_map as mapped
        if self.manual == frozenset(self.several.axis_names):
            more: dict[str, Any] = {}
        else:
            more = {"axis_names": set(self.manual)}
        made = mapped(function, mesh=self.several, in_specs=self.in_specs, out_specs=out_specs, check_vma=False, **more)
        return self.jax.jit(made, compiler_options={"xla_dump_to": self.folder})

    def results(self, instead: dict[int, Any] | None = None) -> list[Any]:
        """What the region gives of its arrays."""
        run = self.map(lambda *given: tuple(evaluate(self.body, (), given, instead or {}, None)), self.out_specs)
        with self.context():
            return list(self.jax.device_get(run(*self.given)))

    def context(self) -> Any:
        """The mesh as that of the program."""
        return self.jax.set_mesh(self.several) if hasattr(self.jax, "set_mesh") else self.several

    def values(self) -> list[Any]:
        """What each operation gives on each device, a row for each."""
        spec = self.jax.sharding.PartitionSpec

        def run(*given: Any) -> Any:
            kept: list[Any] = []
            evaluate(self.body, (), given, {}, lambda one: kept.append(one[None]))
            return tuple(kept)

        mapped = self.map(run, spec(tuple(name for name in self.several.axis_names if name in self.manual)))
        with self.context():
            return list(self.jax.device_get(mapped(*self.given)))


class _Fits:
    """How each value of the region on several devices makes up that on one; found when it is asked for."""

    def __init__(self, region: Region, alone: Region, places: dict[int, int]) -> None:
        self._region, self._places = region, places
        self._parts, self._wholes = region.values(), alone.values()
        self._arguments = len(region.body.invars)
        self._known: dict[int, str | None] = {
            at: "split" if any(spec) else "" for at, spec in enumerate(region.in_specs)
        }

    def get(self, number: int, default: str | None = None) -> str | None:
        if number not in self._known:
            if number not in self._places:
                return default
            parts = self._parts[number - self._arguments]
            whole = self._wholes[self._places[number] - self._arguments][0]
            self._known[number] = relation(parts, whole, self._region.sizes)
        return self._known[number]

    def __getitem__(self, number: int) -> str | None:
        return self.get(number)


def where_they_part(jax: Any, region: Region, alone: Region) -> dict[str, Any] | None:
    """The operation at which the numbers of a region part from those on one device; None where it cannot be told, or
    may be meant.
    """
    several, one = steps_of(region.body), steps_of(alone.body)
    size = sum(give.aval.size for step in several.steps for give in step.eqn.outvars) * region.several.size
    if size > _ELEMENTS:
        return None
    found = origin(several, one, _Fits(region, alone, dict(pairs(several, one))))
    if found is None:
        return None
    step, taken = found
    lines = of_traceback(step.eqn.source_info.traceback)[:4]
    if not lines:
        return None
    collective = step.name in COLLECTIVES
    return {"step": step.name, "taken": taken, "collective": collective, "devices": region.several.size, "lines": lines}
