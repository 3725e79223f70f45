"""Work that several devices do alike: nothing that a function multiplies is split over an axis, and its batch is whole.

Told by the products themselves, and not by how arrays lie: what lies whole may be cut by a constraint, and the state of
an optimizer may be split (ZeRO-1) where no batch is.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from shardlint.run.dumps import Compiled
from shardlint.run.findings import RunFinding, bytes_when_whole, split_axes
from shardlint.run.observed.events import Events, first_line, format_array, make_line
from shardlint.run.rules import distinct_compilations
from shardlint.run.run import DATA, Run, is_state
from shardlint.run.syntax import lines_making_argument
from shardlint.source.patterns import compile_lazily
from shardlint.verify.facts import Array, Line

_WORK = 2**16
_PART = 8
_LEAST = 256
_MUCH = 2**23
_WEIGHTS = 2**16
_REPEATED = 1.3
"""How many times what is needed the devices multiply, for a word."""
_DIVIDED = 0.9
"""The least part of the devices of a batch that its work is divided among."""
_COPIES = compile_lazily(r"(?i)(replica|data|dp|ddp|batch)(_|s?\b|\d)")
"""What an axis is called along which whole models are copied."""


def find_idle_devices(
    functions: Sequence[Sequence[Compiled]], run: Run, events: Events, told: set[str]
) -> Iterator[RunFinding]:
    """Functions whose devices do the same; those of `told` are known to already."""
    ran = [one for one in events.events_of_kind("ran") if one["lines"]]
    least = max(_WORK, max((one["work"] for one in ran), default=0) // _PART)
    made = {format_array(leaf) for one in ran for leaf in one["given"]}
    used = _used_axes(run)
    seen = set()
    for one in ran:
        if one["work"] < least or one["name"] in told or one["devices"] < 2:
            continue
        place = first_line(one["lines"])
        found = _find_idle_in_regions(one, made) or _find_idle_in_products(one, functions, made, used)
        if found is not None and place not in seen:
            seen.add(place)
            yield found


def find_lost_splits(functions: Sequence[Sequence[Compiled]], told: set[str]) -> Iterator[RunFinding]:
    """Functions that divide their work among fewer devices than their batch: on the way it lost its sharding."""
    least = max(_WORK, max((one.work.needed for each in functions for one in each), default=0) // _PART)
    for each in functions:
        for one in distinct_compilations(each):
            if one.function.name not in told and one.work.needed >= least:
                found = _find_lost_split(one)
                if found is not None:
                    yield found
                    break


def _find_lost_split(compiled: Compiled) -> RunFinding | None:
    work, mesh = compiled.work, compiled.program.mesh
    batch = [leaf for leaf in compiled.arguments if any(leaf.axes or ()) and not is_state(leaf, compiled)]
    split = split_axes(batch)
    # An axis that weights are split along is not the batch's: by a weight that is whole, each device multiplies all.
    unknown = (one.split_axes for one in work.products if not one.parallelism)
    split -= compiled.axes_along_weights.union(*unknown)
    names = [name for name, size in mesh.items() if name in split and size > 1]
    parts = math.prod(mesh[name] for name in names)
    if (
        work.repeated < _REPEATED
        or not work.repeated_line.file
        or compiled.partitions / work.repeated >= parts * _DIVIDED
    ):
        return None
    batch = [leaf for leaf in batch if split_axes([leaf]) & split]
    largest = max(batch, key=lambda leaf: leaf.bytes_whole)
    axes = " and ".join(map(repr, names))
    return RunFinding(
        "repeated-work", compiled.function.name, work.repeated_line,
        f"the {compiled.partitions} devices multiply {work.repeated:.1f} times what is needed: {largest.where} is "
        f"sharded over {axes}, and what is multiplied here is not, or not over all of it",
        tuple(f"{leaf.where} {leaf.array} {leaf.spec}" for leaf in batch[:6]),
        f"keep {axes} in the sharding of values computed from {largest.where}: constrain them with "
        "jax.lax.with_sharding_constraint where they are reshaped or placed again",
        bytes_when_whole(batch), see=(("defined", compiled.function.line),),
    )  # fmt: skip


def find_unsplit_work(
    functions: Sequence[Sequence[Compiled]], events: Events, told: set[str]
) -> Iterator[RunFinding]:
    """The function that does most of the work of a program, if all its arguments are replicated, and each device does
    all of it. A function with less work, such as one that draws a sample now and then, may be meant so.
    """
    ran = [one for one in events.events_of_kind("ran") if one["lines"]]
    total = sum(one["work"] for one in ran)
    for one in ran:
        if one["name"] in told or one["devices"] < 2 or not one["defined"] or one["work"] < max(_MUCH, total // 2 + 1):
            continue
        for compiled in _compilations_of(one, functions):
            leaves = sorted((leaf for leaf in one["taken"] if leaf["bytes"] >= _LEAST), key=lambda leaf: -leaf["bytes"])
            whole = all(leaf.copies == compiled.partitions for leaf in compiled.program.arrays)
            repeated = compiled.work.repeated >= compiled.partitions * _DIVIDED
            if whole and repeated and leaves and leaves[0]["bytes"] >= _WEIGHTS and not compiled.program.collectives:
                yield _make_unsplit_finding(one, compiled, leaves, events)
                return


def _make_unsplit_finding(
    one: dict[str, Any], compiled: Compiled, leaves: list[dict[str, Any]], events: Events
) -> RunFinding:
    placed = [first_line(leaf["put"] or leaf["asked"]) for leaf in leaves if leaf["put"] or leaf["asked"]][:1]
    # The sharding may have a name, and be made in a line of its own.
    made = [line for line in (placed and lines_making_argument(placed[0], 1, 2)) if line.file == placed[0].file]
    earlier = next(
        (
            (leaf, other["spec"])
            for leaf in leaves
            for other in _arrays_seen(events)
            if other["held"] < other["bytes"] and (other["shape"], other["dtype"]) == (leaf["shape"], leaf["dtype"])
        ),
        None,
    )
    called = first_line(one["lines"])
    where = (*made, *placed, called)
    before = f". Another array of the shape of {earlier[0]['name']} is sharded as {earlier[1]}" if earlier else ""
    return RunFinding(
        "replicated", one["name"], where[0],
        f"each of {compiled.partitions} devices does all the work of {one['name']}: no argument is sharded{before}",
        tuple(f"{leaf['name']} {format_array(leaf)}" for leaf in leaves[:6]),
        f"shard {earlier[0]['name']} like it: {earlier[1]}" if earlier else
        "shard the batch over a mesh axis, or the weights: jax.device_put(x, NamedSharding(mesh, P('axis')))",
        sum(leaf["bytes"] for leaf in leaves),
        see=(*zip(("placed", "called")[not (placed and made) :], where[1:], strict=False), ("defined",
        make_line(one["defined"]))),
    )  # fmt: skip


def _arrays_seen(events: Events) -> Iterator[dict[str, Any]]:
    """The arrays that functions took and gave, and those that were placed."""
    yield from events.events_of_kind("put")
    for one in events.events_of_kind("ran"):
        yield from (*one["given"], *one["taken"])


def _compilations_of(one: dict[str, Any], functions: Sequence[Sequence[Compiled]]) -> Iterator[Compiled]:
    """The programs of the function of an event, but those that were compiled for other arguments."""
    file, number, _ = one["defined"]
    for each in functions:
        if each[0].function.line.file == file and each[0].function.line.line == number:
            yield from (compiled for compiled in distinct_compilations(each) if not _is_another_program(one, compiled))


def _used_axes(run: Run) -> Mapping[tuple[tuple[str, int], ...], set[str]]:
    """The axes of each mesh that something is split over, anywhere in the program."""
    found: dict[tuple[tuple[str, int], ...], set[str]] = defaultdict(set)
    for one in run.spread:
        found[tuple(one.program.mesh.items())] |= _used_axes_of(one)
    return found


def _used_axes_of(compiled: Compiled) -> set[str]:
    """The axes that something of a program is split over, or sent along."""
    names = {name for leaf in compiled.program.arrays for axes in leaf.axes or () for name in axes}
    return names.union(name for moved in compiled.program.collectives for name in moved.axes)


def _find_idle_in_products(
    one: dict[str, Any], functions: Sequence[Sequence[Compiled]], made: set[str], used: Mapping[Any, set[str]]
) -> RunFinding | None:
    """Of what the compiler partitioned: the axes that split none of its products."""
    if not one["defined"]:
        return None
    for compiled in _compilations_of(one, functions):
        found = _find_split_by_weights(one, compiled, made) or _find_repeated_work(one, compiled, made, used)
        if found is not None:
            return found
    return None


def _is_another_program(one: dict[str, Any], compiled: Compiled) -> bool:
    """Return whether a program was compiled for other arguments than a call has: ahead of time, say."""
    split = {leaf["name"] for leaf in one["taken"] if leaf["devices"] > 1 and leaf["held"] < leaf["bytes"]}
    return any(leaf.where in split and leaf.copies == compiled.partitions for leaf in compiled.arguments)


def _find_repeated_work(
    one: dict[str, Any], compiled: Compiled, made: set[str], used: Mapping[Any, set[str]]
) -> RunFinding | None:
    """Products that several devices compute alike, as the inputs are not split over the axes that tell these apart."""
    work, mesh = compiled.work, compiled.program.mesh
    split = frozenset(name for each in work.products for name in each.split_axes)
    free = {name: size for name, size in mesh.items() if size > 1 and name not in split}
    copies = math.prod(free.values())
    for_rows = any(DATA.match(name) or _COPIES.match(name) for name in free)
    if not free or not work.products or work.repeated < _REPEATED:
        return None
    # An axis for another day, beside a larger one that does the work, is no mistake.
    if copies**2 < compiled.partitions and not used[tuple(mesh.items())] & set(free) and not for_rows:
        return None
    names = _rows_of_batch(compiled, free)
    names = names or {leaf.where for leaf in compiled.arguments if _is_replicated_batch(leaf, compiled, copies)}
    leaves = [leaf for leaf in one["taken"] if leaf["name"] in names and format_array(leaf) not in made]
    return _make_finding(one, leaves, free, False) if leaves else None


def _rows_of_batch(compiled: Compiled, free: Mapping[str, int]) -> set[str]:
    """The batch of a training step, if it is split, and could be split over the free axes too.

    A batch is what is no state and has as many rows everywhere: the weights of a decoder, which are no state, do not.
    """
    state = {leaf.where for leaf in compiled.arguments if is_state(leaf, compiled)}
    rest = [
        leaf for leaf in compiled.arguments if leaf.where not in state and leaf.shape and leaf.bytes_whole >= _LEAST
    ]
    rows = {(leaf.shape[0], tuple((leaf.axes or ((),))[0])) for leaf in rest}
    if not state or len(rows) != 1:
        return set()
    (count, axes), mesh = rows.pop(), compiled.program.mesh
    parts = math.prod(mesh.get(name, 1) for name in axes)
    if parts < 2 or set(axes) & set(free) or count % (parts * math.prod(free.values())):
        return set()
    return {leaf.where for leaf in rest}


def _find_split_by_weights(one: dict[str, Any], compiled: Compiled, made: set[str]) -> RunFinding | None:
    """A training step whose work is split along the weights alone, even over an axis that its name gives the batch."""
    axes = {name: size for name, size in compiled.program.mesh.items() if size > 1 and DATA.match(name)}
    if (
        not compiled.is_split_by_weights_only
        or not axes
        or not any(is_state(leaf, compiled) for leaf in compiled.arguments)
    ):
        return None
    whole = {
        leaf.where
        for leaf in compiled.arguments
        if _is_replicated_batch(leaf, compiled, math.prod(axes.values()))
    }
    leaves = [leaf for leaf in one["taken"] if leaf["name"] in whole and format_array(leaf) not in made]
    return (
        _make_finding(one, leaves, axes, False, batch=True)
        if leaves
        else _find_gathered_batch(one, compiled, axes, made)
    )


def _find_gathered_batch(
    one: dict[str, Any], compiled: Compiled, axes: Mapping[str, int], made: set[str]
) -> RunFinding | None:
    """A batch that comes split, of which every device works on all rows: what is made of it is gathered first."""
    split = {
        leaf.where: leaf.axes[0]
        for leaf in compiled.arguments
        if leaf.axes and set(leaf.axes[0]) & set(axes) and leaf.bytes_whole >= _LEAST and not is_state(leaf, compiled)
    }
    state = {leaf.where for leaf in compiled.arguments if is_state(leaf, compiled)}
    leaves = [leaf for leaf in one["taken"] if leaf["name"] in split and format_array(leaf) not in made]
    names = {name for leaf in leaves for name in split[leaf["name"]]} & set(axes)
    moved = [
        each
        for each in compiled.program.collectives
        if each.kind == "all-gather" and set(each.axes) & names and each.of not in state and each.line.file
    ]
    # Where weights are split over the axis too, the compiler may bring activations to them: that may be meant. Numbers
    # that are gathered to look up rows are none.
    used = [leaf.axes or () for leaf in compiled.arguments if leaf.where in state]
    stored = any(names & set(part) for axes_of in used for part in axes_of)
    moved = [each for each in moved if not stored or each.array.startswith(("s32", "u32", "s64"))]
    if not leaves or not moved:
        return None
    largest = max(leaves, key=lambda leaf: (leaf["name"] == moved[0].of, int(leaf["bytes"])))
    axis = " and ".join(map(repr, sorted(names)))
    return RunFinding(
        "gathered", one["name"], moved[0].line,
        f"each device works on all rows: {largest['name']} {format_array(largest)}, sharded over {axis}, is gathered "
        f"here, and {one['name']} shards only its weights",
        tuple(f"{leaf['name']} {format_array(leaf)}" for leaf in leaves[:6]),
        f"keep {axis} in the sharding of values computed from the batch, with jax.lax.with_sharding_constraint "
        "or out_sharding",
        sum(leaf["bytes"] for leaf in leaves), see=(("called", first_line(one["lines"])), ("defined",
        make_line(one["defined"]))),
    )  # fmt: skip


def _is_replicated_batch(leaf: Array, compiled: Compiled, copies: int) -> bool:
    """Return whether an argument could be sharded among the devices that do the same work, and is replicated. State
    may be.
    """
    return (
        leaf.copies == compiled.partitions and len(leaf.shape) > 0 and leaf.shape[0] % copies == 0
        and leaf.bytes_whole >= _LEAST and not is_state(leaf, compiled)
    )  # fmt: skip


def _find_idle_in_regions(one: dict[str, Any], made: set[str]) -> RunFinding | None:
    """Of manual regions: the axes along which what they multiply does not differ."""
    facts = one.get("idle") or {}
    if not facts:
        return None
    copies = math.prod(facts["axes"].values())
    leaves = [
        leaf
        for leaf in one["taken"]
        if leaf["shape"]
        and leaf["shape"][0] % copies == 0
        and format_array(leaf) not in made
        and leaf["bytes"] >= _LEAST
        and (facts["pmap"] or leaf["devices"] < 2 or leaf["held"] == leaf["bytes"])
    ]
    return _make_finding(one, leaves, facts["axes"], facts["pmap"]) if leaves and copies**2 >= one["devices"] else None


def _make_finding(
    one: dict[str, Any], leaves: list[dict[str, Any]], free: Mapping[str, int], pmap: bool, batch: bool = False
) -> RunFinding:
    leaves = sorted(leaves, key=lambda leaf: -leaf["bytes"])[:6]
    axes, copies = " and ".join(map(repr, free)), math.prod(free.values())
    name = repr(next(iter(free))) if len(free) == 1 else str(tuple(free))
    facts = one.get("idle") or {}
    split = not pmap and not facts and leaves[0]["held"] < leaves[0]["bytes"]
    called, decided = first_line(one["lines"]), first_line(leaves[0]["decided"]) if split else Line()
    see = [("called", called)] if decided.file else []
    see += [("defined", make_line(one["defined"]))] if one["defined"] else []
    see += [("mapped", make_line(facts["made"]))] if facts.get("made") else []
    advice = (
        "give each device its own rows: x.reshape(devices, -1, *x.shape[1:])" if pmap else
        f"name {name} in the in_specs of the batch" if facts else
        f"name {name} in the sharding of the batch too" if split else
        f"place the batch first: jax.device_put(x, NamedSharding(mesh, P({name})))"
    )  # fmt: skip
    message = (
        f"every device gets the whole batch: {leaves[0]['name']} {format_array(leaves[0])} is replicated, and "
        f"{one['name']} shards only its weights over {axes}" if batch else
        f"{copies} groups of devices do the same work: {leaves[0]['name']} {format_array(leaves[0])} is sharded as "
        f"{leaves[0]['spec']}, and no input of {one['name']} is sharded over {axes}" if split else
        f"{copies} devices do the same work: no input of {one['name']} is sharded over {axes}, and each device "
        f"gets {'the same' if pmap else 'all of'} {leaves[0]['name']} {format_array(leaves[0])}"
    )  # fmt: skip
    return RunFinding(
        "replicated", one["name"], decided if decided.file else called, message,
        tuple(f"{leaf['name']} {format_array(leaf)}" for leaf in leaves), advice,
        sum(leaf["bytes"] for leaf in leaves), see=tuple(see),
    )  # fmt: skip
