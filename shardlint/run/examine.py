"""From what was compiled to what a person should know of it."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from shardlint.run import layouts, placement, rules
from shardlint.run.dumps import Compiled
from shardlint.run.findings import Facts, Moved, RunFinding
from shardlint.run.functions import Function, function_of_pmap
from shardlint.run.observed import (
    argument_uses,
    batches,
    captured_constants,
    devices,
    host_transfers,
    layout_mismatches,
    names,
    padding_rows,
    regions,
    requests,
    single_device_arrays,
    single_device_differences,
    size_one,
    unused_shardings,
)  # fmt: skip
from shardlint.run.observed.events import Events, first_line, make_line
from shardlint.run.recompiled import find_recompilations
from shardlint.run.repeated_work import find_idle_devices, find_lost_splits, find_unsplit_work
from shardlint.run.run import Run
from shardlint.run.syntax import keyword_line
from shardlint.run.unsharded_state import find_arrays_left_replicated
from shardlint.run.user_names import Renamed
from shardlint.verify.facts import Line

_LEAST = 256
_MOST = 2**20
_SHARE = 64


def least_reported_bytes(compiled: Sequence[Compiled], events: Events) -> int:
    """The least array worth a word: a 64th of the program's largest, 1 MiB at most."""
    largest = max(
        (events.largest_array_bytes, *(leaf.bytes_whole for one in compiled for leaf in one.program.arrays)), default=0
    )
    return min(_MOST, max(_LEAST, largest // _SHARE))


def examine_run(compiled: Sequence[Compiled], large: int, events: Events | None = None) -> Facts:
    """All findings of a run. Arrays of fewer than `large` bytes, or of less than a hundredth of what a
    device holds of a function's arrays, are left alone.
    """
    events = events or Events()
    ran = [tuple(one["defined"]) for one in events.events_of_kind("ran") if one["defined"]]
    compiled = [replace(one, function=function_of_pmap(one.function, ran)) for one in compiled]
    compiled = [*_add_lost_donations(compiled, events)]
    groups: dict[Function, list[Compiled]] = defaultdict(list)
    for one in compiled:
        # Not by where it is called from.
        groups[replace(one.function, call=Line())].append(one)
    functions = [each for each in groups.values() if each[0].function.own or each[0].device_count > 1]
    facts = Facts(functions, compiled=len(compiled), seconds=sum(one.seconds for one in compiled))
    facts.observed = events.device_count
    facts.built = [{str(name): int(size) for name, size in one["axes"]} for one in events.events_of_kind("mesh")]
    lines = _Lines(compiled, events)
    renamed = Renamed(events)
    facts.found = [
        renamed.rename_finding(lines.add_lines(found))
        for found in _all_findings(compiled, functions, large, events)
    ]
    facts.below = max(0, len(_all_findings(compiled, functions, 1, events)) - len(facts.found))
    facts.found.sort(key=lambda found: (_CAUSES.get(found.kind, 1), -found.bytes))
    facts.functions = [list(map(_without_observations, each)) for each in renamed.rename_functions(functions)]
    facts.moved = _moved_data(facts.functions)
    facts.notes += _reader_notes(events)
    return facts


def _add_lost_donations(compiled: Sequence[Compiled], events: Events) -> Iterator[Compiled]:
    """With what was donated and never came to the compiler, because no result can take it."""
    names: dict[tuple[str, int], set[str]] = defaultdict(set)
    for event in events.events_of_kind("donates"):
        names[str(event["defined"][0]), int(event["defined"][1])] |= set(event["arguments"])
    for one in compiled:
        given = names.get((one.function.line.file, one.function.line.line), set())
        arrays = one.program.arrays
        if given and one.function.own and not any(leaf.donated for leaf in arrays):
            arrays = tuple(
                replace(leaf, donated=True, aliased=False) if leaf.role == "in" and leaf.where in given else leaf
                for leaf in arrays
            )
            one = replace(one, program=replace(one.program, arrays=arrays))
        yield one


def _reader_notes(events: Events) -> Iterator[str]:
    """Yield notes for the reader about events that were observed or missed."""
    if events.failed:
        yield f"findings may be missing: shardlint could not observe part of the program: {events.failed[0]}"
    built = [
        (math.prod(int(size) for _, size in one["axes"]), one)
        for one in events.events_of_kind("mesh")
        if one.get("of")
    ]
    if built:
        size, one = max(built, key=lambda each: each[0])
        # Several meshes, and single devices by name, may share the others.
        size = max(size, *(int(used["count"]) for used in events.events_of_kind("devices-used")), 0)
        if size < one["of"] and not one.get("short"):
            where = make_line(one["line"])
            yield (
                f"{one['of'] - size} of {one['of']} devices stay idle: the largest mesh, at {where}, uses "
                f"{size}"
            )


class _Lines:
    """Where each function is jitted and called, for findings that know only where it is defined; and in which tests."""

    def __init__(self, compiled: Sequence[Compiled], events: Events) -> None:
        self._see: dict[tuple[str, int], dict[tuple[str, Line], None]] = defaultdict(dict)
        self._tests = events.tests
        for one in events.events_of_kind("jitted"):
            self._note_line(one["defined"], "jitted", make_line(one["line"]))
        self._retyped = {
            (str(one["defined"][0]), int(one["defined"][1])): first_line(one["retyped"])
            for one in events.events_of_kind("donates") if one.get("retyped")
        }  # fmt: skip
        self._placed: dict[tuple[str, int], dict[str, Line]] = defaultdict(dict)
        self._made: dict[tuple[str, int], dict[str, Line]] = defaultdict(dict)
        self._decided: dict[tuple[str, int], dict[str, list[Line]]] = defaultdict(dict)
        for one in events.events_of_kind("ran"):
            if one["defined"] and one["lines"]:
                self._note_line(one["defined"], "called", first_line(one["lines"]))
                whole = self._placed[str(one["defined"][0]), int(one["defined"][1])]
                decided = self._decided[str(one["defined"][0]), int(one["defined"][1])]
                for leaf in (*one["taken"], *one["given"]):
                    if leaf["decided"]:
                        decided.setdefault(f"{leaf['name']} ", [make_line(place) for place in leaf["decided"]])
                made = self._made[str(one["defined"][0]), int(one["defined"][1])]
                for leaf in one["taken"]:
                    if leaf["asked"] and not leaf["put"]:
                        decided.setdefault(f"{leaf['name']} ", [make_line(place) for place in leaf["asked"]])
                    if leaf["put"] and leaf["devices"] > 1:
                        # Where one array was placed twice, that it came whole is what is told of it.
                        if leaf["held"] == leaf["bytes"] or f"{leaf['name']} " not in whole:
                            whole[f"{leaf['name']} "] = first_line(leaf["put"])
                    elif leaf["made"] and leaf["held"] == leaf["bytes"]:
                        made.setdefault(f"{leaf['name']} ", first_line(leaf["made"]))
        self._cut = {
            replace(first_line(one["scanned"]), function=""): first_line(one["lines"])
            for one in events.events_of_kind("cut")
        }
        """Of scans over what a `reshape` has cut in two, the line of that, which decides what is sharded."""
        self._laid = events.constraints_by_line
        self._callers: dict[str, set[str]] = defaultdict(set)
        """Of each line with constraints, the lines that called its function."""
        for each_line in self._laid.values():
            for one in each_line:
                self._callers[str(one["by"][:1])].add(str(one["by"][1:2]))
        for each in compiled:
            if each.function.own and each.function.call.file:
                place = each.function.line
                self._note_line([place.file, place.line], "called", each.function.call)

    def _note_line(self, place: Sequence[Any], word: str, where: Line) -> None:
        self._see[str(place[0]), int(place[1])][word, replace(where, function="")] = None

    def _deciding_lines(self, finding: RunFinding, places: Sequence[Line]) -> list[tuple[str, Line]]:
        """The lines that made the shardings of the arrays of a finding, at most two ways of them."""
        decided: dict[str, list[Line]] = {}
        for place in places:
            decided.update(self._decided.get((place.file, place.line), {}))
        ways = {
            tuple(replace(line, function="") for line in lines): None
            for leaf, lines in decided.items()
            if any(one.startswith(leaf) for one in finding.arrays)
        }
        return [("its sharding", line) for lines in [*ways][:2] for line in lines]

    def add_lines(self, found: RunFinding) -> RunFinding:
        """A finding with these lines."""
        known = [
            one
            for one in self._see.get((found.line.file, found.line.line), ())
            if one[1].line != found.line.line
        ]
        if found.kind in ("replicated", "exchanged", "gathered"):
            places = [found.line, *(line for word, line in found.see if word in ("function", "defined"))]
            whole: dict[str, Line] = {}
            for place in places:
                whole.update(self._placed.get((place.file, place.line), {}))
            lines = (line for leaf, line in whole.items() if any(one.startswith(leaf) for one in found.arrays))
            known = [*dict.fromkeys(("placed", replace(line, function="")) for line in lines)][:2] + known
            known = self._deciding_lines(found, places) + known
            found = self._move_to_constraint(found)
            if found.kind == "replicated":
                found = self._move_to_making_call(found, places, {word for word, _ in known})
        known = [(word, keyword_line(line, found.kind) if word == "jitted" else line) for word, line in known]
        cut = self._cut.get(replace(found.line, function="")) if found.kind == "scanned" else None
        if cut is not None and cut.file:
            found = replace(found, line=cut, see=(("scanned", found.line), *found.see))
        tests = self._tests.get((found.line.file, found.line.line), ())
        retyped = self._retyped.get((found.line.file, found.line.line))
        if found.kind == "donation" and retyped is not None:
            known = [("result of another dtype", retyped), *known]
        at = [line for word, line in known if word == "jitted"]
        if found.kind == "donation" and len(at) == 1:  # what is donated is said where the function is jitted
            found = replace(found, line=at[0], see=(("defined", found.line), *found.see))
            known = [one for one in known if one[0] != "jitted"]
        see: dict[tuple[str, str, int], tuple[str, Line]] = {}
        for word, line in (*found.see, *known[:8]):
            see.setdefault((word, line.file, line.line), (word, line))
        return replace(found, see=tuple(see.values()), tests=tuple(tests))

    def _move_to_constraint(self, finding: RunFinding) -> RunFinding:
        """A finding about what is gathered inside a function, at the constraint that leaves out the axes."""
        for one in self._laid.get((finding.line.file, finding.line.line), ()):
            if finding.over and one["by"] and not set(finding.over) <= set(one["axes"]):
                # What a helper is called for at several lines is decided there.
                line = make_line(one["by"][len(self._callers[str(one["by"][:1])]) > 1])
                axes = " and ".join(map(repr, finding.over))
                see = [("its sharding", each) for each in map(make_line, one["decided"][:1]) if each.line != line.line]
                return replace(
                    finding, line=line, advice=f"name {axes} in this constraint, at the dimension that is sharded",
                    see=(*see, ("computed", finding.line), *finding.see),
                )  # fmt: skip
        return finding

    def _move_to_making_call(
        self, finding: RunFinding, places: Sequence[Line], known: Collection[str]
    ) -> RunFinding:
        """A finding about arguments that another call gave whole, at that call: there it can be mended. Where something
        placed them or decided how they lie, and no call gave them all so, those lines are told of anyway.
        """
        made: dict[str, Line] = {}
        for place in places:
            made.update(self._made.get((place.file, place.line), {}))
        by = [next((line for leaf, line in made.items() if one.startswith(leaf)), None) for one in finding.arrays]
        lines = {line for line in by if line is not None}
        if len(lines) != 1 or ({"placed", "its sharding"} & set(known) and None in by):
            return finding
        [line] = lines
        return replace(finding, line=line, see=(("taken", finding.line), *finding.see))


# What the program did comes before what came of it.
_CAUSES = {"discarded": 0, "no-effect": 0, "swallowed": 0, "too-late": 0, "overwritten": 0, "warning": 2}


def _all_findings(
    compiled: Sequence[Compiled], functions: Sequence[list[Compiled]], large: int, events: Events
) -> list[RunFinding]:
    run = Run(compiled, large)
    made = {
        (str(one["defined"][0]), int(one["defined"][1])): int(one["times"])
        for one in events.events_of_kind("jitted-times")
    }
    ahead = {
        (str(one["defined"][0]), int(one["defined"][1])): first_line(one["lines"])
        for one in events.events_of_kind("ahead")
    }
    found: list[RunFinding] = []
    for each in functions:
        found += rules.find_rematerialised(each, run)
        found += rules.gathered_by_constraint(each, run)
        if each[0].function.own:
            found += rules.find_unused_donations(each, run)
            found += rules.find_missing_donations(each, run)
            found += rules.find_replicated(each, run)
            told_whole = {(one.line, name) for one in found if one.kind == "replicated" for name in one.arrays}
            found += (
                one
                for one in find_arrays_left_replicated(each, run)
                if not {(one.line, name) for name in one.arrays} <= told_whole
            )
            found += layouts.find_layout_mistakes(each, run)
            place = each[0].function.line
            key = place.file, place.line
            found += find_recompilations(each, run, made.get(key, 0), ahead.get(key))
    found += placement.find_nothing_split(run)
    found += placement.find_unused_axes(run)
    found += placement.used_in_part(functions, run)
    found += placement.find_made_on_one_device(functions, run, devices.arguments_from_host(events))
    found += placement.find_single_device_functions(functions, run)
    whole = list(batches.find_replicated_batches(events, compiled, large))
    kinds = ("replicated", "unused-axis", "one-device", "gathered")
    told = {one.function for one in (*found, *whole) if one.kind in kinds}
    repeated = [*find_idle_devices(functions, run, events, told)]
    repeated += find_lost_splits(functions, {*told, *(one.function for one in repeated)})
    whole += repeated
    whole += find_unsplit_work(functions, events, {*told, *(one.function for one in repeated)})
    # What moves in a function whose devices repeat work is the compiler's attempt to divide that.
    repeating = {one.function for one in repeated}
    found = [one for one in found if one.kind != "exchanged" or one.function not in repeating]
    whole += batches.last_batch_whole(events)
    told |= {one.function for one in whole}
    whole += single_device_arrays.find_carried_whole(functions, run, events, told)
    codes = {(one.line.file, one.line.line): one.code for one in devices.find_left_on_one_device(events, large, set())}
    looped = [*argument_uses.find_sharded_scans(events, large)]
    found = [one for one in found if not _is_finding_of_same_loop(one, looped)]
    # That what is computed is laid out otherwise is asked for there; that an argument comes otherwise is not.
    found = [
        one
        for one in found
        if one.kind != "exchanged" or one.arrays or (one.line.file, one.line.line) not in events.constraints_by_line
    ]
    brought = [*devices.find_host_round_trips(events, large)]
    brought += devices.find_repeated_copies(events, large)
    takers = {place for one in brought for place in _places_of_finding(one)}
    found = [one for one in found if one.kind != "one-device" or (one.line.file, one.line.line) not in takers]
    whole += brought
    constants = [*captured_constants.find_captured(events, large)]
    # What would be split is no argument.
    closing = {place for one in constants for place in _places_of_finding(one)}
    found = [one for one in found if one.kind != "replicated" or (one.line.file, one.line.line) not in closing]
    whole += constants
    at = {(one.line.file, one.line.line) for one in (*found, *whole)}
    whole += (
        one for one in host_transfers.find_fetched_state(events, large) if (one.line.file, one.line.line) not in at
    )
    told |= {one.function for one in whole}
    whole += (one for one in size_one.find_copies_by_size_one(events, large) if one.function not in told)
    whole += (
        one for one in layout_mismatches.part_of_batch_whole(events, compiled, large) if one.function not in told
    )
    found = [replace(one, code=one.code or codes.get((one.line.file, one.line.line), "")) for one in found]
    return [*found, *whole, *_findings_from_events(found, compiled, events, large, looped)]


def _is_finding_of_same_loop(finding: RunFinding, looped: Sequence[RunFinding]) -> bool:
    """Return whether the compiler's result for a scan over a sharded dimension is also reported by the scan's
    arguments.
    """
    names = {text.partition(" ")[0] for text in finding.arrays}
    return any(
        (finding.kind == "scanned" and _places_of_finding(finding) & _places_of_finding(one))
        or (finding.kind == "gathered" and names and names <= {text.partition(" ")[0] for text in one.arrays})
        for one in looped
    )


def _places_of_finding(finding: RunFinding) -> set[tuple[str, int]]:
    return {(line.file, line.line) for line in (finding.line, *(line for _, line in finding.see))}


def _findings_from_events(
    findings: Sequence[RunFinding],
    compiled: Sequence[Compiled],
    events: Events,
    large: int,
    looped: Sequence[RunFinding],
) -> Iterator[RunFinding]:
    """Yield the findings from observed events (`looped` are those about scans), without those that the compiler's
    dumps have given.
    """
    requests_made = [
        *requests.find_discarded_placements(events), *requests.find_ineffective_constraints(events, large),
        *requests.find_swallowed_errors(events),
        *requests.find_late_flags(events), *requests.find_ignored_requests(events),
        *requests.find_replicated_draws(events), *requests.find_equal_parts(events),
        *requests.find_unequal_copies(events), *requests.find_undone_placements(events, large),
        *requests.find_short_constraints(events, large),
    ]  # fmt: skip
    yield from requests_made
    yield from requests.find_jax_warnings(events, {one.function for one in findings if one.kind == "donation"})
    yield from regions.find_region_mistakes(events)
    yield from regions.find_row_copies(events, large)
    yield from single_device_differences.find_deviations(events)
    yield from padding_rows.find_padding_mistakes(events)
    yield from devices.find_respelled_shardings(events)
    yield from names.find_logical_names(events)
    yield from names.find_unmatched_keys(events, large)
    yield from looped
    yield from argument_uses.find_sharded_shuffles(events, large)
    yield from argument_uses.find_replicating_constraints(events, large, {one.line for one in findings})
    yield from argument_uses.find_inner_donations(events, large)
    yield from argument_uses.find_copied_state(events, large)
    yield from argument_uses.find_donations_by_keyword(events, large)
    yield from unused_shardings.find_broken_promises(events, large)
    yield from devices.find_mesh_mistakes(events)
    behind = [
        *devices.find_left_on_one_device(
            events, large, {one.function for one in findings if one.kind == "one-device"}
        )
    ]
    yield from behind
    places = {(one.line.file, one.line.line) for one in (*findings, *requests_made, *behind)}
    yield from layout_mismatches.find_unplaced_subtrees(events, compiled, large, places)
    # Where a placement is known to have come to nothing, that its array stayed on one device says no more.
    if not any(
        one.kind in ("discarded", "no-effect", "swallowed", "one-device") for one in (*requests_made, *findings)
    ):
        yield from devices.find_unused_mesh(events, large)


def _without_observations(compiled: Compiled) -> Compiled:
    """A program for reports: the findings say in words what was observed of it."""
    return replace(compiled, program=replace(compiled.program, warned=()))


def _moved_data(functions: Iterable[Sequence[Compiled]]) -> list[Moved]:
    """Return the data moved by each line, the largest first. Of a function compiled several times, take the
    compilation that moves most.
    """
    found: list[Moved] = []
    for each in functions:
        one = max(each, key=lambda each: each.program.moved_bytes)
        lines = defaultdict(list)
        for part in one.program.collectives:
            lines[part.line, part.kind, part.axes, part.group].append(part)
        for (line, kind, axes, group), parts in lines.items():
            found.append(
                Moved(
                    line,
                    one.function.name,
                    kind,
                    axes,
                    group,
                    sum(part.moved_bytes for part in parts),
                    tuple(dict.fromkeys(part.trips for part in parts)),
                    tuple(dict.fromkeys(part.array for part in parts)),
                    tuple(dict.fromkeys(part.of for part in parts if part.of)),
                )
            )
    return sorted(found, key=lambda moved: -moved.bytes)
