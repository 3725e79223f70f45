"""Manual regions: what varies over an axis where it is said not to, is summed twice, or is drawn alike."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from shardlint.run.findings import RunFinding
from shardlint.run.observed.events import Events, first_line, format_array, function_of_place, make_line
from shardlint.run.observed.single_device_differences import reduced_in_part
from shardlint.run.run import KEYS
from shardlint.run.syntax import lines_making_argument, return_line, setting_line
from shardlint.verify.facts import Line
from shardlint.verify.texts import size_text

_SHARE = 16


def find_region_mistakes(events: Events) -> Iterator[RunFinding]:
    """All that regions say, each thing at its line once."""
    told: set[Any] = set()
    differing = set()
    for region in events.events_of_kind("region"):
        for seen in _join_at_return(_join_results([_move_to_sum(one, region) for one in region["seen"]]), region):
            if not seen["lines"] and not region["made"]:
                continue
            if seen.get("bytes", events.largest_array_bytes) * _SHARE < events.largest_array_bytes:
                continue
            found = _make_finding(seen, region)
            key = (found.kind, found.line, found.message)
            if key not in told:
                told.add(key)
                yield found
            if seen["what"] == "differs":
                differing |= {make_line(place) for place in (region["made"], *region["called"]) if place}
    yield from _find_arguments_taken_whole(events)
    yield from _find_unequal_results(events, differing | reduced_in_part(events))
    yield from _find_parted_arrays(events)
    yield from _find_unmerged_state(events)
    for one in events.events_of_kind("first-only"):
        yield RunFinding(
            "one-of-many", function_of_place(one["lines"][0]), first_line(one["lines"]),
            f"{one['name']} keeps the first device's value of {one['result'] or 'the array'} {format_array(one)}, and "
            "the other devices have other values",
            advice="reduce it in the mapped function first, with jax.lax.pmean, psum or all_gather", code="SL418",
            see=tuple(("made", make_line(each)) for each in one.get("made", ())[:1])
            + tuple(("called", make_line(each)) for each in one["lines"][1:3]),
        )  # fmt: skip


def find_row_copies(events: Events, least: int) -> Iterator[RunFinding]:
    """Copies of what every device has alike, made by an index into all of them, again and again."""
    told: set[Line] = set()
    for one in sorted(events.events_of_kind("row-taken"), key=lambda one: -int(one["bytes"])):
        place = first_line(one["lines"])
        if one["bytes"] < least or place in told:
            continue
        told.add(place)
        yield RunFinding(
            "gathered", function_of_place(one["lines"][0]), place,
            f"this leaves a full copy of one row on every device ({size_text(one['bytes'])} each, "
            f"{one['times']} times or more): [0] of {format_array(one)} indexes one row per device, for "
            f"{one['devices']} devices",
            (format_array(one),), "write x.addressable_shards[0].data[0], the row of one device, or "
            "jax.device_get(x)[0]",
            one["bytes"], code="SL415", see=tuple(("called", make_line(each)) for each in one["lines"][1:3]),
        )  # fmt: skip


def _move_to_sum(one: dict[str, Any], region: dict[str, Any]) -> dict[str, Any]:
    """Return the difference at the line that sums the value over other axes, where the missing axis belongs; else at
    the line in the function itself that combines all the rows of a device.
    """
    places = one.get("summed") or [
        each for each in one.get("reduced") or () if region.get("defined") and each[2] == region["defined"][2]
    ]
    if one["what"] != "differs" or not places or not one["lines"] or places[0] == one["lines"][0]:
        return one
    return {**one, "lines": [*places[:1], *one["lines"][1:]], "parts": one["lines"][:1]}


def _join_results(seen: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the events, with the results that differ for one reason (a line, and the axes) joined."""
    joined: dict[str, dict[str, Any]] = {}
    others = []
    for one in seen:
        if one["what"] != "differs":
            others.append(one)
            continue
        first_seen = joined.setdefault(str((one["lines"][:1], one["axes"])), {**one, "results": []})
        first_seen["results"].append(str(one["result"]))
    for one in joined.values():
        names = one.pop("results")
        more = f" and {len(names) - 3} more" if len(names) > 3 else ""
        one["result"], one["many"] = ", ".join(names[:3]) + more, len(names) > 1
    return [*joined.values(), *others]


def _join_at_return(seen: list[dict[str, Any]], region: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the events, with unreduced results of several lines joined at the line that returns them, where a tree of
    them is reduced as a whole.
    """
    alike = [one for one in seen if one["what"] == "differs" and not one.get("summed")]
    defined = region.get("defined")
    if not defined:
        return seen
    number = return_line(defined[0], defined[1])
    places = {str(one["lines"][:1]) for one in alike}
    if not number or len(places) < 2 or len({str(one["axes"]) for one in alike}) > 1:
        return seen
    # What a helper makes is not this function's to say.
    if not all(one["lines"] and one["lines"][0][0] == defined[0] for one in alike):
        return seen
    names = [one["result"] for one in alike]
    more = f" and {len(names) - 3} more" if len(names) > 3 else ""
    merged = {
        **alike[0], "lines": [[defined[0], number, defined[2]]], "result": ", ".join(names[:3]) + more, "many": True,
        "parts": [one["lines"][0] for one in alike], "reduced": [],
    }  # fmt: skip
    return [merged, *(one for one in seen if one not in alike)]


def _make_finding(seen: dict[str, Any], region: dict[str, Any]) -> RunFinding:
    what, axes = seen["what"], " and ".join(map(repr, seen["axes"]))
    name = region["function"] or (function_of_place(seen["lines"][0]) if seen["lines"] else "the mapped function")
    place = first_line(seen["lines"])
    sources = lines_making_argument(place, *seen["passed"]) if seen.get("passed") else []
    place, name = (sources[0], sources[0].function) if sources else (place, name)
    made = make_line(region["made"]) if region["made"] else Line()
    axis = repr(seen["axes"][0]) if len(seen["axes"]) == 1 else str(tuple(seen["axes"]))
    shape, much = seen.get("shape"), size_text(seen.get("bytes", 0))
    see = tuple(
        (word, where)
        for word, where in (("mapped", made), ("called", first_line(region["called"])))
        if where.file and where != place
    )
    see += tuple(("passed", line) for line in sources[1:])
    see += tuple(("key split", where) for where in map(make_line, seen.get("split", ())) if where.line != place.line)
    # What stands in a helper is named where the function that is mapped calls it, too.
    helpers = (("inside, called", make_line(each)) for each in seen["lines"][1:3])
    known = {(each.file, each.line) for _, each in see} | {(place.file, place.line)}
    see += tuple((word, where) for word, where in helpers if (where.file, where.line) not in known)
    for word, key in (
        ("summed over other axes", "summed"), ("divided", "divided"), ("per-device value", "reduced"),
        ("averaged", "met"), ("written", "written"), ("drawn", "drawn"),
    ):  # fmt: skip
        where = make_line(next(iter(seen.get(key) or ()), None))
        if where.file and (where.file, where.line) not in known:
            see += ((word, where),)
    see += tuple(("made", make_line(each)) for each in seen.get("parts", ())[:4] if make_line(each) != place)
    if (scores := make_line(next(iter(seen.get("scores") or ()), None))).file and scores != place:
        see = (("scores", scores), *see)
    texts = {
        "differs": (
            "differs", f"result{'s' if seen.get('many') else ''} {seen.get('result')} of {name} can differ on "
            f"each device along {axes}, and only one device's value is kept: out_specs declare "
            f"{'them' if seen.get('many') else 'it'} replicated",
            f"write jax.lax.psum(x, {axis}) or pmean for this result, or name the axis in out_specs", "SL402",
        ),
        "equal": (
            "equal", f"result {seen.get('result')} of {name} repeats one block along {axes}: it is equal on "
            "every device, and its out_specs concatenate the copies",
            f"leave {axes} out of the spec of this result, or do not sum over them", "SL410",
        ),
        "sum-of-equal": (
            "summed-twice", f"the result is {seen.get('sizes')} times the value: psum over {axes} adds up a "
            f"value that is equal on all {seen.get('sizes')} devices"
            + (", because it is already summed" if seen.get("again") else ""),
            f"do not sum over {axes} again", "SL404",
        ),
        "mean-of-sum": (
            "summed-twice", f"the gradient is {seen.get('sizes')} times the mean: jax already sums it over "
            f"{axes}, so this mean averages equal values",
            f"take the mean of the loss over {axes} before the gradient, or divide the gradient by "
            f"{seen.get('sizes')}", "SL401",
        ),
        "mean-of-share": (
            "divided-twice", f"the result is 1/{seen.get('sizes')} of the mean: each device divides the sum of its "
            f"{seen.get('rows')} rows by the rows of all devices, and this averages over {axes}",
            f"write jax.lax.psum(x, {axis}) in place of the mean, or divide by the rows of one device", "",
        ),
        "mean-of-quotients": (
            "mean-of-quotients", "the result is not the mean of all rows if the counts differ: this averages quotients "
            f"over {axes}, and each device divides its own sum by its own count",
            f"write jax.lax.psum(total, {axis}) / jax.lax.psum(count, {axis})", "SL403",
        ),
        "sum-of-quotients": (
            "mean-of-quotients", "the result is neither the global quotient nor a mean: this adds up quotients over "
            f"{axes}, and each device divides its own sum by its own count",
            f"write jax.lax.psum(total, {axis}) / jax.lax.psum(count, {axis})", "SL403",
        ),
        "local-norm": (
            "local-norm", f"each device scales its shard by a different norm: each norm is of one shard along {axes}",
            f"sum the squares over the devices before the square root: jax.lax.psum(squares, {axis})", "",
        ),
        "first-rows": (
            "local-index-as-global", f"every device takes the first {seen.get('rows')} rows of a replicated array "
            f"({seen.get('shape')}): along {axes} only the first device's data belong to these rows",
            f"name {axes} in the in_specs of the array, or write jax.lax.dynamic_slice_in_dim(array, "
            f"jax.lax.axis_index({axis}) * {seen.get('rows')}, {seen.get('rows')})",
            "",
        ),
        "same-random": (
            "same-random", f"every device along {axes} draws the same random numbers for different data",
            f"write key = jax.random.fold_in(key, jax.lax.axis_index({axis})) before the draw", "SL407",
        ),
        "all-slices": (
            "summed-twice", "every slice of the parameters is updated with the same sum: this sums the gradients of "
            f"different slices over {axes}",
            f"leave {axes} out of the sum, and sum over the axes that shard the data", "SL404",
        ),
        "left-out": (
            "left-out", f"this shift sends zeros to {_describe_devices(seen)} along {axes}: its pairs leave them out",
            f"make the pairs from jax.lax.axis_size({axis}), the size of the axis", "",
        ),
        "open-ring": (
            "left-out", f"zeros reach {_describe_devices(seen)} in the first round, and the next devices later: "
            f"the ring "
            f"over {axes} is open, and the loop uses these values",
            "close it: [(i, (i + 1) % n) for i in range(n)]", "",
        ),
        "same-keys": (
            "same-random", f"every device along {axes} draws the same random numbers and does the same work: "
            "all get the same key",
            "pass one key per device: jax.random.split(key, n), where n is the number of devices", "SL407",
        ),
        "equal-keys": (
            "same-random", f"every device along {axes} draws the same random numbers for different data: all keys in "
            f"{seen.get('argument')} are equal",
            "pass one key per device: jax.random.split(key, n), where n is the number of devices", "SL407",
        ),
        "same-parts": (
            "same-random", f"result {seen.get('result')} of {name} repeats one random block along {axes}: each "
            "device draws with the same key",
            f"write key = jax.random.fold_in(key, jax.lax.axis_index({axis})) before the draw", "SL407",
        ),
        "same-start": (
            "same-random", f"the sum over {axes} adds up equal random numbers: every device draws them with "
            "the same key",
            f"write key = jax.random.fold_in(key, jax.lax.axis_index({axis})) before the draw", "SL407",
        ),
        "local-index-as-global": (
            "local-index-as-global",
            f"each device along {axes} looks up another row for the same index: the rows of this table are sharded, "
            "and the index counts from the start of the whole table",
            f"subtract the offset of the shard, jax.lax.axis_index({axis}) * table.shape[0]; set rows of other "
            f"shards to 0, and add up the results: jax.lax.psum(rows, {axis})", "",
        ),
        "own-softmax": (
            "local-as-global", "each device divides by the sum of its own shard: this sum of exponentials is over a "
            f"dimension that is sharded over {axes}",
            f"write jax.lax.psum(jnp.exp(x - top).sum(...), {axis}), with top = jax.lax.pmax(x.max(...), {axis})",
            "SL409",
        ),
        "own-norm": (
            "local-as-global", "each device scales its shard by its own sum or mean: the dimension is sharded over "
            f"{axes}",
            f"write jax.lax.pmean(jnp.mean(x, ...), {axis}) for the mean, and psum for a sum", "SL409",
        ),
        "mispaired": (
            "mispaired", f"this product multiplies entries that do not belong together: dimension {seen.get('dim')} of "
            f"the left operand is sharded over {axes}, dimension {seen.get('other_dim')} of the right one over "
            f"{' and '.join(map(repr, seen.get('other', ())))}",
            "shard both over the same axis: in in_specs, or in the all_to_all or all_gather before it", "SL431",
        ),
        "own-row": (
            "local-as-global", "the difference from the mean is zero: each device averages a single row, because the "
            f"dimension is sharded over {axes} into single rows",
            f"for the mean of all rows write jax.lax.pmean(x.mean(0), {axis}); in a function written for pmap, "
            "write x = x[0] first and return result[None]", "SL409",
        ),
        "own-place": (
            "local-as-global", f"{seen.get('name')} gives an index within the shard, and it is used as a global index: "
            f"the dimension is sharded over {axes}",
            f"add the offset of the shard to the index (jax.lax.axis_index({axis}) * x.shape[...]), gather values and "
            f"indices with jax.lax.all_gather over {axis}, and keep the index of the best value", "SL409",
        ),
        "own-running": (
            "local-as-global", f"{seen.get('name')} starts again on each device: the dimension is sharded over {axes}",
            f"add the totals of the devices before this one: jax.lax.all_gather(last row, {axis})[:i].sum(0)",
            "SL409",
        ),
        "own-positions": (
            "local-as-global", "every shard gets the positions of shard 0: they start at 0 on each device, and the "
            f"dimension is sharded over {axes}",
            f"add the offset of the shard, jax.lax.axis_index({axis}) * x.shape[...]", "",
        ),
        "own-shift": (
            "local-as-global", "entries at shard borders are wrong: this shifts rows within each shard, and the "
            f"dimension is sharded over {axes}",
            f"exchange the border rows with jax.lax.ppermute over {axis}", "",
        ),
        "unsummed": (
            "unsummed", f"{seen.get('name')} is applied to one term of a sum: the product is over a dimension "
            f"that is sharded over {axes}, and nothing sums it before",
            f"write jax.lax.psum(x @ w, {axis}) first", "SL402",
        ),
        "untiled": (
            "untiled", f"all_gather over {axes} stacks the shards along a new dimension of the result of {name}",
            "write tiled=True to concatenate them", "SL411",
        ),
        "summed-then-cut": (
            "gather-before-reduce",
            f"the sum over {axes} sends all of {shape} ({much}) to every device, and each keeps only "
            f"1/{seen.get('sizes')} of it",
            f"write jax.lax.psum_scatter(x, {axis}, scatter_dimension={seen.get('dim')}, tiled=True), which "
            "gives only that part",
            "",
        ),
        "gathered-then-summed": (
            "gather-before-reduce", f"every device does the same work on all rows: this gathers {shape} ({much}) over "
            f"{axes}, and the result is then summed",
            f"compute on the device's own rows and reduce the result: jax.lax.psum(x.sum(...), {axis}), or "
            "pmean for a mean", "",
        ),
        "gather-in-loop": (
            "gather-in-loop", f"this gathers {shape} ({much}) over {axes} in each "
            f"{'of ' + str(seen['rounds']) + ' rounds' if seen.get('rounds') else 'round'} of a loop that does "
            "not change it",
            "gather it once, before the loop", "",
        ),
        "own-bent": (
            "nonlinear-of-mean", f"the result is not {seen.get('name')} of the mean of all rows: this averages "
            f"{seen.get('name')} of each device's mean over {axes}",
            f"average first: write mean = jax.lax.pmean(mean, {axis}), and then compute {seen.get('name')}", "",
        ),
        "own-variance": (
            "nonlinear-of-mean", f"the result is not {seen.get('name')} of all rows: this averages "
            f"{seen.get('name')} of each device's rows over {axes}, and the per-device means differ",
            f"write mean = jax.lax.pmean(x.mean(0), {axis}), and then jax.lax.pmean(((x - mean) ** 2).mean(0), {axis}) "
            "for the variance; its square root is the standard deviation", "",
        ),
        "own-rank": (
            "nonlinear-of-mean", f"the result is no quantile of all rows: it is the mean over {axes} of the "
            "quantiles of each device's rows",
            f"write x = jax.lax.all_gather(x, {axis}, tiled=True) before the quantile, and keep the pmean: it marks "
            "the result as equal on all devices", "",
        ),
        "own-slots": (
            "local-as-global", "rows of several devices are written to one position: each device counts from 0, and "
            f"the writes are added up over {axes}",
            f"add the counts of the devices before this one: jax.lax.all_gather(count, {axis})[:i].sum(0)",
            "SL409",
        ),
        "bias-summed": (
            "summed-twice", f"this term counts {seen.get('sizes')} times: it is equal on every device along "
            f"{axes}, and the sum comes after it",
            "add this term after the sum", "SL421",
        ),
    }  # fmt: skip
    kind, message, advice, code = texts[what]
    if what == "differs" and region["pmap"]:
        code = "SL414"
    return RunFinding(kind, name, place, message, advice=advice, code=code, see=see)


def _describe_devices(seen: dict[str, Any]) -> str:
    numbers = seen.get("devices") or [0]
    shown = ", ".join(map(str, numbers[:4])) + (" ..." if len(numbers) > 4 else "")
    return f"device {shown}" if len(numbers) == 1 else f"{len(numbers)} of {seen.get('sizes')} devices ({shown})"


def _find_arguments_taken_whole(events: Events) -> Iterator[RunFinding]:
    """Arguments that lie split and that a region takes whole."""
    seen = set()
    for one in events.events_of_kind("taken-whole"):
        leaf, place = one["leaf"], make_line(one["line"])
        if (place, leaf["name"]) in seen or leaf["bytes"] * 16 < events.largest_array_bytes:
            continue
        seen.add((place, leaf["name"]))
        axes = " and ".join(map(repr, one["axes"]))
        yield RunFinding(
            "gathered", one["name"], place,
            f"{leaf['name']} {format_array(leaf)} is gathered on every device at each call: it is sharded as "
            f"{leaf['spec']}, and in_specs replicate it along {axes}",
            advice=f"name {axes} in its in_specs, or place it once with the sharding of in_specs", bytes=leaf["bytes"],
            see=(("called", first_line(one["lines"])),),
        )  # fmt: skip


def _find_unequal_results(events: Events, differing: set[Line]) -> Iterator[RunFinding]:
    """Results whose copies were compared and are not the same, where reading the program has not said so."""
    seen = set()
    for one in events.events_of_kind("unequal"):
        lines = [make_line(place) for place in (*one["lines"], *one["regions"])]
        if differing & set(lines) or not lines or lines[0] in seen:
            continue
        seen.add(lines[0])
        pair = " and ".join(map(str, one["pair"]))
        mapped = tuple(("mapped", make_line(place)) for place in one["regions"][:1])
        yield RunFinding(
            "differs", function_of_place(one["lines"][0]), lines[0],
            f"result {one['result'] or format_array(one)} should be equal on all devices, but devices {pair} have "
            "different values",
            advice="reduce it in the mapped function, or name the axis in out_specs",
            code="SL402", see=mapped,
        )  # fmt: skip


def _make_differing_start_finding(one: dict[str, Any], place: Line) -> RunFinding:
    made = first_line(one["made"])
    return RunFinding(
        "drifts", one["name"], made if made.file else place,
        f"the replicas are not copies of one model: {one['argument']} {format_array(one)} differs between "
        f"devices before "
        f"{one['name']}, which applies the same update to all",
        advice="create it once, from one key, and copy it to the devices (flax.jax_utils.replicate for pmap)",
        see=(("called", place),) if made.file and made != place else (), code="SL402",
    )  # fmt: skip


def _averaged_by_another(events: Events, one: dict[str, Any]) -> bool:
    """Return whether another mapped function reduces the values that diverge: local steps, and then the mean of all."""
    return any(
        other["pmap"] and other.get("collectives") and other["defined"] != one["defined"]
        and format_array(one) in {format_array(leaf) for leaf in other["taken"]}
        and format_array(one) in {format_array(leaf) for leaf in other["given"]}
        for other in events.events_of_kind("ran")
    )  # fmt: skip


def _find_unmerged_state(events: Events) -> Iterator[RunFinding]:
    """State that one function updates on each device, and another reads as the same on all: where that reads it."""
    told = set()
    for one in events.events_of_kind("unmerged"):
        within = [line for line in one["lines"] if one["defined"] and line[2].split(".")[-1] == one["defined"][2]]
        place = first_line(within or one["lines"] or one["called"])
        if place in told:
            continue
        told.add(place)
        keys = [key.strip(".[]'\"") for key in KEYS.findall(one["result"])]
        number = setting_line(one["updated"], keys) if one["updated"] else 0
        made = Line(one["updated"][0], number, one["by"]) if number else first_line(one["inside"])
        lines = [("updated", made), ("called", first_line(one["called"])), ("inside", first_line(one["lines"]))]
        more = f" and {one['count'] - 1} more" if one["count"] > 1 else ""
        yield RunFinding(
            "drifts", one["name"], place,
            f"{one['name']} computes with different values on each device: {one['by']} updates {one['argument']}{more} "
            "from each device's own data, and nothing merges the copies",
            advice=f"write jax.lax.pmean(x, axis_name) for this state in {one['by']}, or before {one['name']}",
            see=tuple((word, where) for word, where in lines if where.file and where != place), code="SL402",
        )  # fmt: skip


def _find_parted_arrays(events: Events) -> Iterator[RunFinding]:
    """Arrays that came to `pmap` the same on every device, and left it different."""
    seen = set()
    for one in events.events_of_kind("parted"):
        place = first_line(one["lines"])
        local = not one["apart"] and (one["beside"] or not one["collectives"])
        if place in seen or (local and _averaged_by_another(events, one)):
            continue
        seen.add(place)
        if one["apart"]:
            yield _make_differing_start_finding(one, place)
            continue
        nothing = " and reduces nothing" if not one["collectives"] else ""
        met = first_line(one["met"])
        mapped: tuple[tuple[str, Line], ...] = (("called", place),) if met.file else ()
        mapped += tuple(("mapped", make_line(where)) for where in one["regions"][:1])
        mapped += tuple(
            ("made there", make_line(where))
            for where in one["inside"][:1]
            if make_line(where) not in (place, met)
        )
        why = ": this updates it with each device's own values" if met.file else ""
        yield RunFinding(
            "drifts", one["name"], met if met.file else place,
            f"the replicas of {one['argument']} {format_array(one)} drift apart: {one['name']} takes equal "
            f"copies{nothing}, and returns different ones{why}",
            advice="reduce the gradients: jax.lax.pmean(grads, axis_name)", see=mapped, code="SL402",
        )  # fmt: skip
