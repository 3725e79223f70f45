"""SL407."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from shardlint.model.evaluator.assume import Assuming
from shardlint.model.manual.mapped import Ran, against
from shardlint.model.manual.varying import Axis, Event
from shardlint.model.values import Api, Place, options
from shardlint.rules_api.mapping import MAPPING
from shardlint.rules_api.rule import Calls, Certainty, Finding, Harm, Mapped, Rule
from shardlint.rules_api.site import Site
from shardlint_rules.shard_map._copied_keys import COPYING, copied_key
from shardlint_rules.shard_map._draws import draws_nothing
from shardlint_rules.shard_map._folded import folded_in_body
from shardlint_rules.shard_map._key_unbound import REDUCING, SAYS, alone
from shardlint_rules.shard_map.runs import (
    as_argument,
    called_in,
    elsewhere,
    events,
    is_in,
    runs,
    shown,
    told_there,
)

_DRAWN = ("same mask", "key handed on")
_SPLIT = "split it, one for each device: jax.random.split(key, jax.local_device_count())"


_SPLITS = ("jax.random.split", "jax.random.fold_in")
_KEYS = (".rng", "_rng", ".key", "_key", 'rng"]', 'key"]')


class SameKeyOnEveryShard(Rule):
    """Every device draws the same random numbers for other data.

    ## What it does
    Follows random keys into the body of a `shard_map` or `pmap`. Reports numbers drawn with a key that is the same
    on all devices of an axis where they meet data that is split over it, or are returned as if they were split.
    So it does for a pmapped function that every call in sight gives copies of one key (`replicate(key)`), or of a state
    that holds one (`state.rng`). Likely:
    such a key handed on as one of the `rngs` of a model, beside split data, and a key in a tuple or dict that is
    replicated whole (`replicate((params, key))`) in a project that tells devices apart nowhere; and a key that a
    function which reduces over the devices hands on as `rngs` or `rng`, where another function of the file folds the
    index of the device into its key of that name, or the file replicates a key and asks nowhere for the device.
    Possible: to other code that is not seen,
    and as the key of dropout where no gradient is taken and no argument says that the model trains.

    ## Why it hurts
    A dropout mask repeats for every shard of the batch, noise is the same in each of them, and a weight initialised
    so consists of equal blocks. Nothing raises and shapes are right; the model is only worse.

    ## Evidence
    Run on jax 0.12: one distinct mask among eight devices; eight with
    `jax.random.fold_in(key, jax.lax.axis_index(axis))`. Numbers drawn for values that are meant to be the same
    everywhere (replicated parameters) are left alone.
    """

    code = "SL407"
    name = "same-key-on-every-shard"
    harm = Harm.SILENT
    assumes = True
    likely = ("rngs", "replicated", "beside")
    behind = ("SL402",)
    triggers = (
        *MAPPING,
        Calls(*COPYING, file_says=("jax.random.split(", "random.split(")),
        Calls(*REDUCING, file_says=SAYS),
        Mapped(calling=(("split(", "fold_in("), _KEYS)),
    )
    fixes = "none"

    def check(self, site: Site) -> Iterator[Finding]:
        """One finding for each place where numbers are drawn."""
        done: set[ast.AST] = set()
        if site.api in COPYING:
            yield from self._replicated(site)
            return
        if site.api in REDUCING:
            yield from self._alone(site)
            return
        if called_in(site):
            yield from self._kept_in_a_state(site)
            return
        for ran, event, node in events(site, "same mask"):
            copied = _copied(site, ran)
            moved = folded_in_body(site, ran, event) if copied is None else None
            node = copied or _kept(site, ran, event) or moved or node
            if node in done or _told_there(site, ran, event):
                continue
            done.add(node)
            there = f" (line {event.place.line})" if node is moved and event.place.file is site.file else ""
            yield site.finding(
                node,
                f"On {site.release('jax')} the key is the same on all devices along {shown(event.axes)}, while the "
                "data that the numbers are for is split over them: each shard gets the same ones.",
                label=f"the same numbers on every device along {shown(event.axes)}{there or elsewhere(site, event)}",
                help=_SPLIT if copied is not None else _help(event.axes[0]),
            )
        for ran in runs(site):
            for leaf, named, _ in against(site.program, ran.result, ran.mapped.out_specs):
                same = [axis for axis in named if leaf.same_over(axis)]
                if leaf.kind != "mask" or not same or leaf.origin is None or not leaf.traced:
                    continue
                here = leaf.origin.file is site.file
                if not here and (site.by is not None or told_there(site, ran)):
                    continue
                node = leaf.origin.node if here else site.call
                if node in done:
                    continue
                done.add(node)
                yield site.finding(
                    node,
                    f"On {site.release('jax')} the key is the same on all devices along {shown(same)}, and the out "
                    "spec puts what they draw together: the result repeats one block.",
                    label=f"the same block on every device along {shown(same)}",
                    help=_help(same[0]),
                )
        yield from self._handed_on(site, done)

    def _kept_in_a_state(self, site: Site) -> Iterator[Finding]:
        """A key of a state whose step another file maps."""
        done: set[ast.AST] = set()
        for ran in called_in(site):
            for number, event in enumerate(ran.events):
                place = _kept_at(ran, event)
                if event.kind not in _DRAWN or number in ran.cancelled or place is None or place.node in done:
                    continue
                if event.note and draws_nothing(site.program, event.place):
                    continue
                if place.file is site.file and is_in(site, place) and _split_by(site, place) is not None:
                    done.add(place.node)
                    yield site.finding(
                        place.node,
                        f"On {site.release('jax')} each device has a copy of this key, while the data that the numbers "
                        f"are for is split over {shown(event.axes)}: each shard gets the same ones.",
                        label=f"the same numbers on every device along {shown(event.axes)}",
                        help=_help(event.axes[0]),
                        certainty=Certainty.PROVEN if event.kind == "same mask" else Certainty.POSSIBLE,
                        form="" if event.kind == "same mask" else "rngs" if event.note else "handed-on",
                    )

    def _replicated(self, site: Site) -> Iterator[Finding]:
        """A key in a tree of which each device is given a copy."""
        key = copied_key(site) if site.wants("replicated") else None
        if key is None:
            return
        name = site.text(key)
        yield site.finding(
            key,
            f"Every device gets a copy of `{name}` (line {site.call.lineno}): what they draw with it is the same on "
            "all of them.",
            label=f"copied to each device on line {site.call.lineno}",
            help=f"split it, one for each device: jax.random.split({name}, jax.local_device_count()), beside what is "
            "replicated",
            certainty=Certainty.POSSIBLE,
            form="replicated",
            why="nothing in the project tells the copies apart by their device or process",
        )

    def _alone(self, site: Site) -> Iterator[Finding]:
        """A key of a function that reduces over the devices, and never asks which one it is on."""
        found = (
            alone(site) if site.wants("beside") and not isinstance(site.program.evaluator, Assuming) else None
        )
        if found is None:
            return
        yield site.finding(
            found.node,
            f"On {site.release('jax')} what is drawn with it is the same on all devices, while each has its own part "
            "of the batch.",
            label=f"made of `{found.key}`, which is the same on every device",
            help=f"give each its own: {found.key} = jax.random.fold_in({found.key}, jax.lax.axis_index(axis_name))",
            certainty=Certainty.POSSIBLE,
            form="beside",
            why=found.why,
        )

    def _handed_on(self, site: Site, done: set[ast.AST]) -> Iterator[Finding]:
        for ran, event, node in events(site, "key handed on"):
            told = event.note or _key_like(site.text(node))
            copied = _copied(site, ran)
            node = copied or _kept(site, ran, event) or folded_in_body(site, ran, event) or node
            if event.note and draws_nothing(site.program, event.place):
                continue
            if node not in done and told and not _told_there(site, ran, event):
                done.add(node)
                yield site.finding(
                    node,
                    f"On {site.release('jax')} what this draws is the same on all devices along {shown(event.axes)}, "
                    "while the data it is given is split over them.",
                    label=f"given a key that is the same on every device along {shown(event.axes)}",
                    help=_SPLIT if copied is not None else _help(event.axes[0]),
                    certainty=Certainty.POSSIBLE,
                    form="rngs" if event.note else "handed-on",
                    why=f"`rngs` are what {event.note} is drawn with" if event.note else "",
                )


def _copied(site: Site, ran: Ran) -> ast.AST | None:
    """Where the file makes the copies of a key that a pmapped function is given."""
    return next((place.node for place in ran.copies if place.file is site.file), None)


def _kept(site: Site, ran: Ran, event: Event) -> ast.AST | None:
    """Where the file reads the key from a state of which each device has a copy."""
    for number in sorted(event.leaf.marks):
        if ran.events[number].kind == "key of copies":
            place = ran.events[number].seen_from(site.file)
            return place.node if place is not None else None
    return None


def _kept_at(ran: Ran, event: Event) -> Place | None:
    """Where the key is read from a state of which each device has a copy."""
    found = (ran.events[number] for number in sorted(event.leaf.marks))
    return next((one.place for one in found if one.kind == "key of copies"), None)


def _told_there(site: Site, ran: Ran, event: Event) -> bool:
    """Whether this is told in another file, where the key is split."""
    place = _kept_at(ran, event)
    if place is None or place.file is site.file or site.form == "keyword":
        return False
    says = any(isinstance(one, Mapped) and one.is_said(place.file.says) for one in site.rule.triggers)
    return says and _split_by(site, place) is not None


def _split_by(site: Site, place: Place) -> ast.Call | None:
    """The call that splits a key or folds a number into it, where it is given the key at a place."""
    call = next((one for one in place.file.ancestors(place.node) if isinstance(one, ast.Call)), None)
    found = options(site.program.value(place.file, call.func)) if call is not None else ()
    split = len(found) == 1 and isinstance(found[0], Api) and found[0].name in _SPLITS
    return call if split else None


def _key_like(text: str) -> bool:
    return any(word in text.lower() for word in ("key", "rng", "seed"))


def _help(axis: Axis) -> str:
    if axis == "":
        return "give each its own, split before the call, or name the axis: jax.pmap(f, axis_name=...) and axis_index"
    return f"give each its own: key = jax.random.fold_in(key, jax.lax.axis_index({as_argument([axis])}))"
