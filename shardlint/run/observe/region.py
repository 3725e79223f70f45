"""One `shard_map` or `pmap` of a program: what its specs say of each result against what the body computes."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

from . import mapped_functions
from .frames import place_of_source, user_lines_of_traceback
from .parameters import parameter_draws
from .partial_results import check_scaled_parts
from .program import iterate_operations
from .shard_as_whole import check_local_parts
from .values import NONE, ROUNDS, TYPES, Names, Region, Value, inner_jaxpr, is_count_constant, is_key
from .varying_axes import walk_jaxpr


def find_regions(jaxpr: Any, counts: frozenset[Any] = frozenset()) -> Iterator[tuple[Any, frozenset[int]]]:
    """The operations in a program that begin a manual region, each with which of what it takes are constants that
    only count (`jnp.array(x.shape)`): jax hands these in beside the arguments.
    """
    counts |= frozenset(variable for variable in jaxpr.constvars if is_count_constant(variable))
    for eqn in jaxpr.eqns:
        taken = frozenset(at for at, atom in enumerate(eqn.invars) if not hasattr(atom, "val") and atom in counts)
        if eqn.primitive.name in ("shard_map", "xla_pmap"):
            # jax writes some of its own, to run one operation of a region that is not jitted.
            if "shard_map.py" not in _source_of_body(
                inner_jaxpr(eqn.params.get("jaxpr", eqn.params.get("call_jaxpr")))
            ):
                yield eqn, taken
            continue
        for param in eqn.params.values():
            for each in param if isinstance(param, (tuple, list)) else (param,):
                body = inner_jaxpr(each)
                if hasattr(body, "eqns"):
                    first = len(eqn.invars) - len(body.invars)
                    inside = (at - first for at in taken if at >= first)
                    yield from find_regions(body, frozenset(body.invars[at] for at in inside))


def _source_of_body(body: Any) -> str:
    return str(getattr(getattr(body, "debug_info", None), "func_src_info", "") or "")


def label_gradient_halves(eqns: Sequence[Any]) -> list[str]:
    """Of each region whether its function is there again, as `first` or `second`: the halves of a gradient are."""
    sources = [_source_of_region(eqn) for eqn in eqns]
    return [
        "" if not source or sources.count(source) < 2 else "first" if sources.index(source) == at else "second"
        for at, source in enumerate(sources)
    ]


def _source_of_region(eqn: Any) -> str:
    return _source_of_body(inner_jaxpr(eqn.params.get("jaxpr", eqn.params.get("call_jaxpr"))))


def judge_region(
    eqn: Any,
    lines: list[Any],
    half: str = "",
    counts: frozenset[int] = frozenset(),
    equal: frozenset[int] = frozenset(),
) -> dict[str, Any]:
    """Return the events in a region, and where it was made and called. `half` says which half of a gradient it may be,
    `counts` which of its arguments are constants that only count, and `equal` which are equal on all devices.
    """
    pmap = eqn.primitive.name == "xla_pmap"
    taken, given, sizes, checked = _pmap_axes(eqn) if pmap else shard_map_axes(eqn)
    taken = [frozenset() if at in equal else axes for at, axes in enumerate(taken)]
    body = inner_jaxpr(eqn.params["call_jaxpr" if pmap else "jaxpr"])
    info = getattr(body, "debug_info", None) or getattr(eqn.params.get("jaxpr"), "debug_info", None)
    source = str(getattr(info, "func_src_info", "") or "")
    # What jax makes a pmap of has no function of the user's.
    pmap = pmap or "pmap.py" in source or "linear_util.py" in source
    made_at = mapped_functions.line_of(source) or (mapped_functions.line_of_only_pmap() if pmap else None)
    # What is traced at once from its call has no lines of its own.
    called = user_lines_of_traceback(eqn.source_info.traceback) or lines
    differentiated = "jvp" in str(eqn.source_info.name_stack) or bool(half)
    parts = None if eqn.primitive.name == "xla_pmap" else _axes_by_dimension(eqn, body)
    if parts is not None:
        parts = [[NONE] * len(dims) if at in equal else dims for at, dims in enumerate(parts)]
    copied = frozenset(at for at in equal if is_key(body.invars[at].aval))
    region = judge_body(
        body, taken, given, sizes, checked, called, info, pmap, differentiated, parts, half == "second", counts, copied
    )
    products = [(much, over) for much, over in region.products.values() if much]
    return {
        "seen": region.seen,
        "function": source.split(" at ")[0] if place_of_source(source) else "",
        "work": sum(much for much, _ in products) * math.prod(sizes.values()),
        "idle": sorted(frozenset(sizes).difference(*(over for _, over in products))) if products else [],
        "defined": place_of_source(source),
        "made": made_at,
        "called": called[:4],
        "collectives": region.collectives,
        "drawn": region.drawn,
        "varying": region.varying,
        "axes": sizes,
        "pmap": pmap,
        "checked": checked,
    }


def judge_body(
    body: Any,
    nameses: list[Names],
    given: list[Names],
    sizes: dict[str, int],
    checked: bool,
    called: list[Any],
    info: Any = None,
    pmap: bool = False,
    differentiated: bool = False,
    dimensions: list[list[Names]] | None = None,
    back: bool = False,
    counts: frozenset[int] = frozenset(),
    copied: frozenset[int] = frozenset(),
) -> Region:
    """A body, with the axes its arguments vary over and those its results are split over. `copied` are the arguments
    that are a copy of one key for each device.
    """
    # What pmap gives each device is a copy as a rule, not a slice.
    region = Region(sizes, arguments=frozenset() if pmap else frozenset(body.invars))
    region.differentiated, region.pmap, region.back = differentiated, pmap, back
    region.dimensions.update(zip(body.invars, dimensions or (), strict=False))
    manual = frozenset(sizes)
    arguments = [
        Value(axes & manual, at not in counts, keys=frozenset(("copied",)) if at in copied else frozenset())
        for at, axes in enumerate(nameses)
    ]
    values = walk_jaxpr(body, arguments, region)
    region.varying = _lines_making_difference(values, body, region)
    for at, (value, axes) in enumerate(zip(values, given, strict=False)):
        _check_result(at, value, axes, body.outvars[at], info, region, called, checked)
    if dimensions is not None and not back:
        check_local_parts(body, dimensions, region)
    # What a gradient keeps for its second half are masks, too.
    drawn = ("same-random", "equal-keys")
    if not differentiated and any(one["what"] in drawn for one in region.seen):
        kept = set(map(str, parameter_draws(body, frozenset(at for at, axes in enumerate(nameses) if axes & manual))))
        region.seen = [
            one for one in region.seen if one["what"] not in drawn or str(one["lines"][0]) not in kept
        ]
    if alike := [one for one in region.seen if one["what"] in (*drawn, "same-parts")]:
        split = _first_split_of_key(body)
        for one in alike:
            one["split"] = split
    return region


def _first_split_of_key(body: Any) -> list[Any]:
    """The line that first makes other keys of one: there it can be made a key of this device."""
    for eqn, _, _ in iterate_operations(body):
        if eqn.primitive.name in ("random_split", "random_fold_in"):
            return user_lines_of_traceback(eqn.source_info.traceback)[:1]
    return []


def _check_result(
    at: int, value: Value, axes: Names, atom: Any, info: Any, region: Region, called: list[Any], checked: bool
) -> None:
    """A result that differs where it is said to be the same, or is the same where it is said to be split."""
    if value.random and math.prod(getattr(atom.aval, "shape", ())) >= 16:
        region.drawn[at] = list(map(list, value.random))[:4]
    if value.loose or not (value.given or value.random):
        return
    eqn = region.maker.get(atom)
    if eqn is not None and not region.differentiated:
        check_scaled_parts(value, axes, math.prod(getattr(atom.aval, "shape", ())), eqn, region)
    if eqn is not None and eqn.primitive.name in ("pvary", "pcast", "pbroadcast"):
        atom = atom if hasattr(eqn.invars[0], "val") else eqn.invars[0]
    lines = (
        region.where.get(atom) or (region.where.get(eqn.invars[0]) if eqn is not None else None) or called
    )[:4]
    paths = getattr(info, "result_paths", None) or ()
    paths = paths() if callable(paths) else paths
    name = str(paths[at]).removeprefix("result") if at < len(paths) else f"[{at}]"
    shape = list(getattr(atom.aval, "shape", ()))
    manual = frozenset(region.sizes)
    facts: dict[str, Any] = {"lines": lines, "result": name, "shape": shape, "at": at}
    if not checked and value.given and (differs := sorted((value.over & manual) - axes)):
        summed = list(map(list, value.summed)) if value.over & manual and region.collectives else []
        own = _lines_joining_rows(atom, frozenset(differs), region)
        region.seen.append({"what": "differs", "axes": differs, **facts, "summed": summed, "reduced": own})
    size = 1
    for part in shape:
        size *= part
    alike = sorted((axes & manual) - value.over)
    if value.drawn and size >= 16 and alike and not region.pmap and not region.differentiated:
        lines = list(map(list, value.drawn))[:4] or lines
        region.seen.append({"what": "same-parts", "axes": alike, **facts, "lines": lines, "direct": bool(value.random)})
        return
    if not value.given:
        return
    # What a gradient keeps of the body for its second half jax puts together as it likes; pmap gives a copy of what is
    # equal for each device, and takes it so at the next call.
    if size > 1 and not region.differentiated and not region.pmap and (equal := sorted((axes & manual) - value.over)):
        reduced = eqn is not None and region.collectives
        if reduced:
            region.seen.append({"what": "equal", "axes": equal, **facts})


def _lines_joining_rows(atom: Any, axes: Names, region: Region) -> list[Any]:
    """The lines of the last operation before a result that makes one of all the rows that a device has: a sum over
    devices would have followed it.
    """
    waiting, done = [atom], set[int]()
    while waiting and len(done) < 200:
        one = waiting.pop(0)
        eqn = None if hasattr(one, "val") or id(one) in done else region.maker.get(one)
        done.add(id(one))
        if eqn is None:
            continue
        vary = [each for each in eqn.invars if not hasattr(each, "val") and region.known.get(each, Value()).over & axes]
        reduces = ("reduce_sum", "reduce_max", "reduce_min", "argmax", "argmin")
        if vary and eqn.primitive.name in reduces:
            return [list(place) for place in region.where.get(one, ())[:1]]
        waiting += vary
    return []


def _lines_making_difference(values: Any, body: Any, region: Region) -> dict[int, list[Any]]:
    """Where results are made that differ by device, by their number."""
    found = {}
    for at, (value, atom) in enumerate(zip(values, body.outvars, strict=False)):
        if value.given and value.over and not hasattr(atom, "val"):
            # What pmap does to put its results together has no line of the user's.
            for _ in range(ROUNDS):
                made = region.maker.get(atom)
                if region.where.get(atom) or made is None or made.primitive.name not in TYPES:
                    break
                atom = made.invars[0]
            found[at] = [list(line) for line in region.where.get(atom, ())[:2]]
    return found


def axes_of_arguments(eqn: Any) -> list[Names]:
    """The axes that each argument of a region is split over."""
    return (_pmap_axes(eqn) if eqn.primitive.name == "xla_pmap" else shard_map_axes(eqn))[0]


def shard_map_axes(eqn: Any) -> tuple[list[Names], list[Names], dict[str, int], bool]:
    """The axes its arguments and results are split over, the sizes of those it makes manual, whether jax checks."""
    params = eqn.params
    if "in_names" in params:
        taken = [flatten_axes(names.values()) for names in params["in_names"]]
        given = [flatten_axes(names.values()) for names in params["out_names"]]
    else:
        taken = [flatten_axes(spec or ()) for spec in params["in_specs"]]
        given = [flatten_axes(spec or ()) for spec in params["out_specs"]]
    mesh = {str(name): int(size) for name, size in dict(params["mesh"].shape).items()}
    auto = {str(axis) for axis in params.get("auto", ())}
    manual = {str(axis) for axis in params.get("newly_manual_axes", params.get("manual_axes", mesh))} - auto
    checked = bool(params.get("check_vma", params.get("check_rep", False)))
    return taken, given, {name: size for name, size in mesh.items() if name in manual and size > 1}, checked


def _axes_by_dimension(eqn: Any, body: Any) -> list[list[Names]]:
    """The axes that split each dimension of each argument."""
    found = []
    named = eqn.params.get("in_names")
    for at, variable in enumerate(body.invars):
        rank = len(getattr(variable.aval, "shape", ()))
        if named is not None:
            found.append([flatten_axes((named[at].get(dim, ()),)) for dim in range(rank)])
        else:
            spec = [*(eqn.params["in_specs"][at] or ()), *([None] * rank)]
            found.append([flatten_axes((part,)) for part in spec[:rank]])
    return found


def _pmap_axes(eqn: Any) -> tuple[list[Names], list[Names], dict[str, int], bool]:
    params = eqn.params
    axis = str(params["axis_name"])
    taken = [frozenset() if at is None else frozenset((axis,)) for at in params["in_axes"]]
    given = [frozenset() if at is None else frozenset((axis,)) for at in params["out_axes"]]
    return taken, given, {axis: int(params["global_axis_size"] or params["axis_size"])}, False


def flatten_axes(parts: Any) -> Names:
    """The axes of a spec."""
    found: set[str] = set()
    for part in parts:
        names: Sequence[Any] = part if isinstance(part, (tuple, list)) else (part,)
        found.update(str(name) for name in names if name is not None)
    return frozenset(found)
