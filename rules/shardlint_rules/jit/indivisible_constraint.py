"""SL216."""

from __future__ import annotations

import ast
import math
from collections.abc import Iterator, Mapping
from typing import ClassVar

from shardlint.model.mesh.meshes import Mesh, Spec
from shardlint.model.mesh.shardings import PLACING
from shardlint.model.shapes import shape_of
from shardlint.model.values import CallResult, Constant, Function, Items, Place, Table, Value, options
from shardlint.rules_api.rule import Calls, Finding, Harm, Rule
from shardlint.rules_api.site import Site
from shardlint.syntax.enclosing import caught
from shardlint_rules.jit._called_with import parameter_shapes

_PUT = "jax.device_put"
_JITS = ("jax.jit",)
_WAKING = (_PUT, "jax.lax.with_sharding_constraint", "equinox.filter_shard")


class IndivisibleConstraint(Rule):
    """A dimension is split over mesh axes that do not divide it.

    ## What it does
    Reports a placement or constraint of an array whose shape the text tells, on a mesh whose sizes it tells, where
    the axes for a dimension do not divide it. Also of what a jitted function makes and its `out_shardings` want split.

    ## Why it hurts
    In jit a constraint is not checked. In the middle of a program the array is padded on every device; as a result
    it comes back whole on every device, and nothing is raised (jax 0.12 raises an `IndivisibleError` about another
    shape for some dimensions, 2 and 6 over 4 for example). Outside of jit, and with `device_put` anywhere, it raises.

    ## Use instead
    Or split a dimension that is divided: `P(None, "data")`.

    ## Evidence
    Run on jax 0.4.38 to 0.12: dimensions 2, 5, 6 and 7 over 4, in jit, filter_jit
    and outside. Left alone: anything of which a size is not told, and constraints on Explicit axes, which raise.
    """

    code = "SL216"
    name = "indivisible-constraint"
    harm = Harm.SILENT
    releases: ClassVar[Mapping[str, str]] = {"jax": ">=0.4.38"}
    assumes = True
    likely = ("in-calls",)
    triggers = (Calls(*_WAKING), Calls(*_JITS, file_says=("out_shardings",)))
    forms = ("call", "partial")

    def check(self, site: Site) -> Iterator[Finding]:
        """One finding for the first dimension that is not divided."""
        if site.api in _JITS:
            yield from self._results(site)
            return
        if site.form == "partial":
            return
        target = site.argument(PLACING[site.api])
        array = site.argument("x")
        if target is None or array is None or caught(site.file, site.syntax):
            return
        found = options(site.value(target))
        parts = site.shardings.named(found[0]) if len(found) == 1 else None
        if parts is None or parts[0] is None:
            return
        mesh, spec = parts
        if mesh is None or (site.api != _PUT and site.shardings.axis_types(mesh) != "auto"):
            return
        sizes = _sizes(mesh)
        if not sizes:
            return
        place = Place(site.file, array)
        shape = shape_of(site.program.evaluator, place) or shape_of(
            site.program.evaluator, place, given=parameter_shapes(site)
        )
        problem = _undivided(spec, sizes, shape) if shape is not None else None
        if problem is None:
            return
        axis, size, split, names = problem
        yield site.finding(
            target,
            f"dimension {axis} of {' '.join(site.text(array).split())} is {size}",
            f"{size} is not divisible by {split}, the size of {names}: {self._effect(site)}.",
            help=f"pad the dimension to a multiple of {split}, or split another one",
            harm=Harm.CRASH if site.api == _PUT or site.region.traced == "never" else Harm.SILENT,
        )

    def _results(self, site: Site) -> Iterator[Finding]:
        """The results of a jitted function, and where its `out_shardings` want them."""
        shardings, function = site.argument("out_shardings"), site.argument("fun")
        jitted = site.value(function) if function is not None else None
        if isinstance(site.decorated, ast.FunctionDef):
            jitted = Function(Place(site.file, site.decorated))
        if shardings is None or not isinstance(jitted, Function):
            return
        file = jitted.place.file
        given = options(site.value(shardings))
        for node in _returned(jitted):
            for part, sharding in _pairs(site, Place(file, node), given[0]) if len(given) == 1 else ():
                parts = site.shardings.named(sharding)
                if parts is None or parts[0] is None or not _sizes(parts[0]):
                    continue
                shape = shape_of(site.program.evaluator, part)
                problem = _undivided(parts[1], _sizes(parts[0]), shape) if shape is not None else None
                if problem is not None:
                    axis, size, split, names = problem
                    yield site.finding(
                        shardings,
                        f"dimension {axis} of {' '.join(part.text().split())} is {size}",
                        f"{size} is not divisible by {split}, the size of {names}: on {site.release('jax')} this "
                        "raises ValueError when it is called.",
                        help=f"make the dimension a multiple of {split}, or split another one",
                        harm=Harm.CRASH,
                    )
                    return

    def _effect(self, site: Site) -> str:
        if site.api == _PUT or site.region.traced == "never":
            return f"on {site.release('jax')} this raises ValueError"
        silent = "the array is padded, or as a result comes back whole on every device, and nothing is raised"
        return silent if site.region.proven else f"in jit {silent}; outside of it this raises ValueError"


def _returned(function: Function) -> list[ast.expr]:
    """What a lambda or a function with one `return` gives."""
    node = function.node
    if isinstance(node, ast.Lambda):
        return [node.body]
    file = function.place.file
    returns = file.walked(file.scope(node)).returns
    if len(returns) != 1 or not isinstance(returns[0], ast.Return) or returns[0].value is None:
        return []
    return [returns[0].value]


def _pairs(site: Site, result: Place, sharding: Value) -> Iterator[tuple[Place, Value]]:
    """The arrays of a result that is written out, each with its sharding; one sharding may be for all of them."""
    node, file = result.node, result.file
    match node, sharding:
        case ast.Tuple(elts=parts) | ast.List(elts=parts), Items(items=items, open=False):
            if len(parts) == len(items) and not any(isinstance(one, ast.Starred) for one in parts):
                for part, one in zip(parts, items, strict=True):
                    yield from _pairs(site, Place(file, part), one)
        case ast.Tuple(elts=parts) | ast.List(elts=parts), CallResult():
            for part in parts:
                yield from _pairs(site, Place(file, part), sharding)
        case ast.Dict(keys=keys, values=values), _:
            for key, part in zip(keys, values, strict=True):
                name = site.program.value(file, key) if key is not None else None
                each = sharding.get(name.value) if isinstance(sharding, Table) and isinstance(name, Constant) else None
                meant = sharding if isinstance(sharding, CallResult) else each
                if meant is not None and key is not None:
                    yield from _pairs(site, Place(file, part), meant)
        case ast.expr(), CallResult():
            yield result, sharding


def _sizes(mesh: Mesh) -> dict[str, int]:
    return {
        name: size
        for name, size in zip(mesh.axis_names or (), mesh.sizes, strict=False)
        if size is not None and size > 0
    }


def _undivided(
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
            return axis, size, split, " and ".join(repr(name) for name in entry.axes)
    return None
