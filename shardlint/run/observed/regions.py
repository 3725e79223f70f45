"""Manual regions: what varies over an axis where it is said not to, is summed twice, or is drawn alike."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from shardlint.run.findings import Found
from shardlint.run.observed.alone import reduced_in_part
from shardlint.run.observed.events import Events, array, first, function, line
from shardlint.run.syntax import returned
from shardlint.verify.facts import Line
from shardlint.verify.report import size_text

_SHARE = 16


def manual(events: Events) -> Iterator[Found]:
    """All that regions say, each thing at its line once."""
    told: set[Any] = set()
    differing = set()
    for region in events.of("region"):
        for seen in _at_return(_joined([_at_sum(one, region) for one in region["seen"]]), region):
            if not seen["lines"] and not region["made"]:
                continue
            if seen.get("bytes", events.largest) * _SHARE < events.largest:
                continue
            found = _found(seen, region)
            key = (found.kind, found.line, found.message)
            if key not in told:
                told.add(key)
                yield found
            if seen["what"] == "differs":
                differing |= {line(place) for place in (region["made"], *region["called"]) if place}
    yield from _taken_whole(events)
    yield from _unequal(events, differing | reduced_in_part(events))
    yield from _parted(events)
    for one in events.of("first-only"):
        yield Found(
            "one-of-many", function(one["lines"][0]), first(one["lines"]),
            f"{one['name']} keeps what the first device holds of {one['result'] or 'the array'} "
            f"{array(one)}, and the others hold other numbers",
            advice="reduce it in the mapped function (jax.lax.pmean, psum or all_gather) before", code="SL418",
            see=tuple(("made", line(each)) for each in one.get("made", ())[:1])
            + tuple(("called", line(each)) for each in one["lines"][1:3]),
        )  # fmt: skip


def rows_taken(events: Events, least: int) -> Iterator[Found]:
    """Copies of what every device has alike, made by an index into all of them, again and again."""
    told: set[Line] = set()
    for one in sorted(events.of("row-taken"), key=lambda one: -int(one["bytes"])):
        place = first(one["lines"])
        if one["bytes"] < least or place in told:
            continue
        told.add(place)
        yield Found(
            "gathered", function(one["lines"][0]), place,
            f"[0] of {array(one)}, of which each of {one['devices']} devices has a row, leaves a copy of that row on "
            f"every device ({size_text(one['bytes'])} each, {one['times']} times or more)",
            (array(one),), "take what one device has: x.addressable_shards[0].data[0], or jax.device_get(...) of it",
            one["bytes"], code="SL415", see=tuple(("called", line(each)) for each in one["lines"][1:3]),
        )  # fmt: skip


def _at_sum(one: dict[str, Any], region: dict[str, Any]) -> dict[str, Any]:
    """What differs, at the line that sums it over other axes, where the one that is missing belongs; else at the one
    in the function itself that makes one of all the rows that a device has.
    """
    places = one.get("summed") or [
        each for each in one.get("reduced") or () if region.get("defined") and each[2] == region["defined"][2]
    ]
    if one["what"] != "differs" or not places or not one["lines"] or places[0] == one["lines"][0]:
        return one
    return {**one, "lines": [*places[:1], *one["lines"][1:]], "parts": one["lines"][:1]}


def _joined(seen: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """What was seen, with the results that differ for one reason (a line, and the axes) in one."""
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


def _at_return(seen: list[dict[str, Any]], region: dict[str, Any]) -> list[dict[str, Any]]:
    """What was seen, with results of several lines that nobody reduces in one, at the line that returns them: a tree of
    them is reduced there as a whole.
    """
    alike = [one for one in seen if one["what"] == "differs" and not one.get("summed")]
    defined = region.get("defined")
    if not defined:
        return seen
    number = returned(defined[0], defined[1])
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


def _found(seen: dict[str, Any], region: dict[str, Any]) -> Found:
    what, axes = seen["what"], " and ".join(map(repr, seen["axes"]))
    name = region["function"] or (function(seen["lines"][0]) if seen["lines"] else "the mapped function")
    place = first(seen["lines"])
    made = line(region["made"]) if region["made"] else Line()
    axis = repr(seen["axes"][0]) if len(seen["axes"]) == 1 else str(tuple(seen["axes"]))
    shape, much = seen.get("shape"), size_text(seen.get("bytes", 0))
    see = tuple(
        (word, where)
        for word, where in (("mapped", made), ("called", first(region["called"])))
        if where.file and where != place
    )
    # What stands in a helper is named where the function that is mapped calls it, too.
    helpers = (("inside, called", line(each)) for each in seen["lines"][1:3])
    known = {(each.file, each.line) for _, each in see} | {(place.file, place.line)}
    see += tuple((word, where) for word, where in helpers if (where.file, where.line) not in known)
    for word, key in (
        ("summed over other axes", "summed"), ("divided", "divided"), ("of each device's own rows", "reduced"),
        ("averaged", "met"), ("written", "written"),
    ):  # fmt: skip
        where = line(next(iter(seen.get(key) or ()), None))
        if where.file and (where.file, where.line) not in known:
            see += ((word, where),)
    see += tuple(("made", line(each)) for each in seen.get("parts", ())[:4] if line(each) != place)
    if (scores := line(next(iter(seen.get("scores") or ()), None))).file and scores != place:
        see = (("what it is made of", scores), *see)
    texts = {
        "differs": (
            "differs", f"result{'s' if seen.get('many') else ''} {seen.get('result')} of {name} may be another on each "
            f"device along {axes}, and out_specs say that {'they are' if seen.get('many') else 'it is'} the same on "
            "all: one device's is taken",
            f"reduce it: jax.lax.psum(x, {axis}) or pmean; or name the axis in out_specs", "SL402",
        ),
        "equal": (
            "equal", f"result {seen.get('result')} of {name} is the same on every device along {axes}, and its "
            "out_specs put the copies together as if each were another part",
            f"leave {axes} out of the spec of this result, or do not sum over it", "SL410",
        ),
        "sum-of-equal": (
            "summed-twice", f"psum over {axes} of what is the same on all of its {seen.get('sizes')} devices: the "
            f"result is {seen.get('sizes')} times the value" + (", summed before" if seen.get("again") else ""),
            f"do not sum over {axes} again", "SL404",
        ),
        "mean-of-sum": (
            "summed-twice", f"jax has summed this gradient over {axes} already, and a mean of equal numbers changes "
            f"nothing: it is {seen.get('sizes')} times the mean",
            f"take the mean of the loss over {axes} before the gradient, or divide by {seen.get('sizes')}", "SL401",
        ),
        "mean-of-share": (
            "divided-twice", f"the sum of {seen.get('rows')} rows is divided by the count on all {seen.get('sizes')} "
            f"devices, and then averaged over {axes}: it is a {seen.get('sizes')}th of the mean",
            f"jax.lax.psum(x, {axis}), or divide by the count on one device before the mean", "",
        ),
        "mean-of-quotients": (
            "divided-apart", f"each device divides a sum of its own by another sum of its own, and the quotients are "
            f"averaged over {axes}: where the divisors differ, as the counts under a mask do, that is not the quotient "
            "of the sums",
            f"sum both first: jax.lax.psum(total, {axis}) / jax.lax.psum(count, {axis})", "SL403",
        ),
        "sum-of-quotients": (
            "divided-apart", f"each device divides a sum of its own by another sum of its own, and the quotients are "
            f"added up over {axes}: that is neither the quotient of the sums nor a mean",
            f"sum both first: jax.lax.psum(total, {axis}) / jax.lax.psum(count, {axis})", "SL403",
        ),
        "norm-of-part": (
            "norm-of-part", f"this norm is that of what one device holds, another one on each along {axes}, and scales "
            "what that device holds: the parts are scaled by different numbers",
            f"sum the squares over the devices before the root: jax.lax.psum(squares, {axis})", "",
        ),
        "first-rows": (
            "other-rows", f"every device takes the first {seen.get('rows')} rows of an array it has whole "
            f"({seen.get('shape')}), and along {axes} each has other rows of what is split: only the first device's "
            "belong together",
            f"name {axes} in the in_specs of the array, or begin at jax.lax.axis_index({axis}) * {seen.get('rows')}",
            "",
        ),
        "same-random": (
            "same-random", f"every device along {axes} draws the same random numbers for other data",
            f"key = jax.random.fold_in(key, jax.lax.axis_index({axis}))", "SL407",
        ),
        "all-slices": (
            "summed-twice", f"the gradient of a slice is summed over {axes}, along which each device has another "
            "slice: all of them are changed by the same sum",
            f"leave {axes} out of the sum: sum over the axes the data are split over", "SL404",
        ),
        "left-out": (
            "left-out", f"the pairs of this shift leave out {_devices(seen)} along {axes}: they send to none, and what "
            "they get is zeros",
            f"make the pairs of jax.lax.axis_size({axis}), the size of the axis that is shifted over",
        ),
        "open-ring": (
            "left-out", f"the ring over {axes} is open: {_devices(seen)} gets zeros in the first round, the next "
            "ones in those after it, and the loop goes on with them",
            "close it: [(i, (i + 1) % n) for i in range(n)]",
        ),
        "same-keys": (
            "same-random", f"every device along {axes} gets the same key, and nothing else that differs: all draw the "
            "same numbers and do the same with them",
            "give each its own: jax.random.split(key, devices)", "SL407",
        ),
        "same-parts": (
            "same-random", f"result {seen.get('result')} of {name} is put together of parts that hold the same random "
            f"numbers: each device along {axes} draws them with the same key",
            f"key = jax.random.fold_in(key, jax.lax.axis_index({axis}))", "SL407",
        ),
        "same-start": (
            "same-random", f"every device along {axes} draws the same numbers here, and what is made of them is "
            "added up over it: the parts are copies, and stay so",
            f"key = jax.random.fold_in(key, jax.lax.axis_index({axis})), where they are drawn", "SL407",
        ),
        "other-rows": (
            "other-rows", f"the rows of this table are split over {axes}, and each device looks up its own part by the "
            "same numbers: one that counts from the start of the table finds another row on each",
            f"take off the number of the part's first row before: jax.lax.axis_index({axis}) * table.shape[0]", "",
        ),
        "own-softmax": (
            "of-part", f"the sum of these exponentials goes over a dimension that is split over {axes}: each device "
            "divides by that of its own part, and no device by that of the whole",
            f"sum over the devices: jax.lax.psum(jnp.exp(x - top).sum(...), {axis}), with top = jax.lax.pmax(..., "
            f"{axis})", "SL409",
        ),
        "own-norm": (
            "of-part", f"this sum goes over a dimension that is split over {axes}, and each device scales its part by "
            "that of its own part alone",
            f"reduce it over the devices before: jax.lax.pmean(jnp.mean(x, ...), {axis}), or psum of a sum", "SL409",
        ),
        "own-place": (
            "of-part", f"{seen.get('name')} over a dimension that is split over {axes} gives the place in a device's "
            "own part, and it is used as a place in the whole",
            f"add the first place of the part (jax.lax.axis_index({axis}) * x.shape[...]), and choose the best of all "
            "devices by its value", "SL409",
        ),
        "own-running": (
            "of-part", f"{seen.get('name')} along a dimension that is split over {axes} begins anew on each device",
            f"add what the devices before have summed: jax.lax.all_gather of the last row over {axis}", "SL409",
        ),
        "own-positions": (
            "of-part", f"these positions count from 0 on every device, and the dimension they belong to is split over "
            f"{axes}: all parts get those of the first",
            f"begin at jax.lax.axis_index({axis}) * x.shape[...]", "",
        ),
        "own-shift": (
            "of-part", f"this shifts rows along a dimension that is split over {axes} inside of each part: at its end "
            "stands a row of its own, or zeros, where that of the next device belongs",
            f"send the rows at the edge with jax.lax.ppermute over {axis}", "",
        ),
        "unsummed": (
            "unsummed", f"{seen.get('name')} of a product over a dimension that is split over {axes}: what each device "
            "has is one term of it, and a function of the terms is none of their sum",
            f"sum it before: jax.lax.psum(x @ w, {axis})", "SL402",
        ),
        "untiled": (
            "untiled", f"all_gather over {axes} stacks the parts along a new dimension of the result of {name}",
            "give it tiled=True to put them together", "SL411",
        ),
        "summed-then-cut": (
            "whole-first", f"the sum over {axes} brings all of {shape} ({much}) to every device, and each keeps its "
            f"own {seen.get('size')}th of it",
            f"jax.lax.psum_scatter(x, {axis}, scatter_dimension={seen.get('dim')}, tiled=True) gives that part alone",
            "",
        ),
        "gathered-then-summed": (
            "whole-first", f"this gathers {shape} ({much}) from all devices along {axes}, and every device then does "
            "the same with all of its rows and sums them up",
            f"work on the device's own rows and sum up what comes of them: jax.lax.psum(x.sum(...), {axis}), or pmean "
            "of a mean", "",
        ),
        "each-round": (
            "each-round", f"this gathers {shape} ({much}) along {axes} in each "
            f"{'of ' + str(seen['rounds']) + ' rounds' if seen.get('rounds') else 'round'} of a loop that does not "
            "change it: the same is sent again every time",
            "gather it once, before the loop", "",
        ),
        "own-bent": (
            "averaged-late", f"each device makes {seen.get('name')} of a sum or mean of its own rows here, and these "
            f"are averaged over {axes}: that is not {seen.get('name')} of the mean over all rows",
            f"average before: jax.lax.pmean(mean, {axis}), and then {seen.get('name')} of it", "",
        ),
        "own-variance": (
            "averaged-late", f"this is {seen.get('name')} of each device's own rows around their own mean, and it is "
            f"averaged over {axes}: how far the means lie apart is left out",
            f"mean = jax.lax.pmean(x.mean(0), {axis}), and then jax.lax.pmean(((x - mean) ** 2).mean(0), {axis})", "",
        ),
        "own-rank": (
            "averaged-late", f"this takes a place in the order of each device's own rows, as of a quantile, and these "
            f"are averaged over {axes}: that is not the one of all rows",
            f"sort all of them: jax.lax.all_gather(x, {axis}, tiled=True)", "",
        ),
        "own-slots": (
            "of-part", f"this counts the rows of each device from 0, and what is written to the places it gives is "
            f"added up over {axes}: rows of several devices come to one place",
            f"add the counts of the devices before: jax.lax.all_gather of the last row over {axis}", "SL409",
        ),
        "bias-summed": (
            "summed-twice", f"what is added here is the same on every device along {axes}, and the sum after it counts "
            f"it {seen.get('sizes')} times",
            "add it after the sum", "SL421",
        ),
    }  # fmt: skip
    kind, message, advice, code = texts[what]
    if what == "differs" and region["pmap"]:
        code = "SL414"
    return Found(kind, name, place, message, advice=advice, code=code, see=see)


def _devices(seen: dict[str, Any]) -> str:
    numbers = seen.get("devices") or [0]
    shown = ", ".join(map(str, numbers[:4])) + (" ..." if len(numbers) > 4 else "")
    return f"device {shown}" if len(numbers) == 1 else f"{len(numbers)} of {seen.get('sizes')} devices ({shown})"


def _taken_whole(events: Events) -> Iterator[Found]:
    """Arguments that lie split and that a region takes whole."""
    seen = set()
    for one in events.of("taken-whole"):
        leaf, place = one["leaf"], line(one["line"])
        if (place, leaf["name"]) in seen or leaf["bytes"] * 16 < events.largest:
            continue
        seen.add((place, leaf["name"]))
        axes = " and ".join(map(repr, one["axes"]))
        yield Found(
            "gathered", one["name"], place,
            f"{leaf['name']} {array(leaf)} lies as {leaf['spec']}, and in_specs ask for it whole along {axes}: it is "
            "gathered on every device at each call",
            advice=f"name {axes} in its spec, or place it as the function takes it", bytes=leaf["bytes"],
            see=(("called", first(one["lines"])),),
        )  # fmt: skip


def _unequal(events: Events, differing: set[Line]) -> Iterator[Found]:
    """Results whose copies were compared and are not the same, where reading the program has not said so."""
    seen = set()
    for one in events.of("unequal"):
        lines = [line(place) for place in (*one["lines"], *one["regions"])]
        if differing & set(lines) or not lines or lines[0] in seen:
            continue
        seen.add(lines[0])
        pair = " and ".join(map(str, one["pair"]))
        mapped = tuple(("mapped", line(place)) for place in one["regions"][:1])
        yield Found(
            "differs", function(one["lines"][0]), lines[0],
            f"result {one['result'] or array(one)} should be the same on all devices, and devices {pair} "
            "hold different numbers",
            advice="reduce it in the mapped function, or name the axis it varies over in out_specs",
            code="SL402", see=mapped,
        )  # fmt: skip


def _began_apart(one: dict[str, Any], place: Line) -> Found:
    made = first(one["made"])
    return Found(
        "drifts", one["name"], made if made.file else place,
        f"{one['argument']} {array(one)} differs by device before {one['name']}, which adds the same to it on all: "
        "these are no copies of one model",
        advice="make it once, of one key, and copy it to the devices (flax.jax_utils.replicate for pmap)",
        see=(("called", place),) if made.file and made != place else (), code="SL402",
    )  # fmt: skip


def _averaged_by_another(events: Events, one: dict[str, Any]) -> bool:
    """Whether another mapped function reduces what comes to differ: local steps, and then the mean of all."""
    return any(
        other["pmap"] and other.get("collectives") and other["defined"] != one["defined"]
        and array(one) in {array(leaf) for leaf in other["taken"]} & {array(leaf) for leaf in other["given"]}
        for other in events.of("ran")
    )  # fmt: skip


def _parted(events: Events) -> Iterator[Found]:
    """Arrays that came to `pmap` the same on every device, and left it different."""
    seen = set()
    for one in events.of("parted"):
        place = first(one["lines"])
        if place in seen or (not one["apart"] and not one["collectives"] and _averaged_by_another(events, one)):
            continue
        seen.add(place)
        if one["apart"]:
            yield _began_apart(one, place)
            continue
        nothing = "; nothing is reduced in it" if not one["collectives"] else ""
        met = first(one["met"])
        mapped: tuple[tuple[str, Line], ...] = (("called", place),) if met.file else ()
        mapped += tuple(("mapped", line(where)) for where in one["regions"][:1])
        mapped += tuple(("made there", line(where)) for where in one["inside"][:1] if line(where) not in (place, met))
        why = ": what it is changed by here is each device's own, and" if met.file else ":"
        yield Found(
            "drifts", one["name"], met if met.file else place,
            f"{one['argument']} {array(one)} is the same on every device before {one['name']} and differs "
            f"after{nothing}{why} the replicas train apart",
            advice="reduce the gradients: jax.lax.pmean(grads, axis_name)", see=mapped, code="SL402",
        )  # fmt: skip
