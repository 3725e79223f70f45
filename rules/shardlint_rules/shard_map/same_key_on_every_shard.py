"""SL407."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from typing import ClassVar

from shardlint.model.manual.mapped import Ran, against
from shardlint.model.manual.varying import Axis, Event
from shardlint.model.values import Api, Place, options
from shardlint.rules_api.mapping import MAPPING
from shardlint.rules_api.rule import Calls, Certainty, Finding, Harm, Mapped, Rule, Violates
from shardlint.rules_api.site import Site
from shardlint_rules.shard_map._copied_keys import COPYING, copied_key
from shardlint_rules.shard_map._draws import draws_nothing
from shardlint_rules.shard_map._folded import folded_in_body
from shardlint_rules.shard_map.runs import (
    as_argument,
    called_in,
    describe_location,
    events,
    is_in,
    join_reasons,
    runs,
    shown,
    told_there,
)

_DRAWN = ("same mask", "key handed on")
_SPLIT = "split it, one for each device: jax.random.split(key, jax.local_device_count())"
_SPLITS = ("jax.random.split", "jax.random.fold_in")
_KEYS = (".rng", "_rng", ".key", "_key", 'rng"]', 'key"]')


class SameKeyOnEveryShard(Rule):
    """Every device draws the same random numbers for its own shard of the data.

    A dropout mask or noise repeats on every shard of the batch, and weights initialized this way consist of equal
    blocks. Nothing raises and shapes are right; the model is worse.

    ## Reports
    - proven: numbers drawn in a `shard_map` or `pmap` body with a replicated key for sharded data, or returned with
      an out spec that shards them. The key may be replicated by a helper or be part of a replicated state.
    - `on-a-way` (likely): the same on a branch that may not run, or with an option at its default.
    - `rngs` (likely): such a key passed to a model as `rngs`, with sharded data.
    - `replicated` (likely): a key in a tuple or dict given to `replicate((params, key))`, in a project that never
      uses a device or process index.

    ## Write instead
    `key = jax.random.fold_in(key, jax.lax.axis_index(axis))`

    ## Limits
    Not reported: numbers for replicated values such as parameters, and dropout keys of a model that does not train.
    """

    code = "SL407"
    name = "same-key-on-every-shard"
    harm = Harm.SILENT
    assumes = True
    likely = ("rngs", "replicated", "on-a-way")
    assumptions: ClassVar[Mapping[str, str]] = {
        "on-a-way": "The branch runs, and options keep their defaults.",
        "rngs": "The model draws from the `rngs` that it is given.",
        "replicated": "No code outside the project folds the device index into the key.",
    }
    behind = ("SL402",)
    triggers = (
        *MAPPING,
        Calls(*COPYING, file_says=("jax.random.split(", "random.split(")),
        Mapped(calling=(("split(", "fold_in("), _KEYS)),
        Violates("random.same"),
    )
    fixes = "none"

    def check(self, site: Site) -> Iterator[Finding]:
        """One finding for each place where numbers are drawn."""
        done: set[ast.AST] = set()
        if site.form == "violation":
            axes = site.violation.said["axes"]
            yield site.report_violation(
                f"Every device along `{axes}` draws the same random numbers for its own shard.",
                help=_help(axes.partition("/")[0]),
                why="the key does not vary over the axis, and the data do",
            )
            return
        if site.api in COPYING:
            yield from self._replicated(site)
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
            drawn = (
                f"line {event.place.line} draws with it"
                if node is moved and event.place.file is site.file
                else ""
            )
            yield site.finding(
                node,
                f"Every device along {shown(event.axes)} draws the same random numbers for its own shard.",
                label="the same key on every device",
                help=_SPLIT if copied is not None else _help(event.axes[0]),
                why=join_reasons(
                    "the key is replicated, and the data are sharded", drawn or describe_location(site, event)
                ),
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
                    f"The result repeats one random block along {shown(same)}: every device draws with the same key.",
                    label="the same key on every device",
                    help=_help(same[0]),
                    why="the key is replicated, and the out spec concatenates the shards",
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
                if event.kind == "key handed on" and not _draws(site, event):
                    continue
                if place.file is site.file and is_in(site, place) and _split_by(site, place) is not None:
                    done.add(place.node)
                    yield site.finding(
                        place.node,
                        f"Every device along {shown(event.axes)} draws the same random numbers for its own shard.",
                        label="the same key on every device",
                        help=_help(event.axes[0]),
                        certainty=Certainty.PROVEN if event.kind == "same mask" else Certainty.POSSIBLE,
                        form="" if event.kind == "same mask" else "rngs",
                        why="the state that holds the key is replicated, and the data are sharded",
                    )

    def _replicated(self, site: Site) -> Iterator[Finding]:
        """A key in a tree of which each device is given a copy."""
        key = copied_key(site) if site.wants("replicated") else None
        if key is None:
            return
        name = site.text(key)
        yield site.finding(
            key,
            f"Every device draws the same random numbers: `{name}` is replicated.",
            label="one key for all devices",
            help=f"leave it out of the replicated tree and pass jax.random.split({name}, jax.local_device_count())",
            certainty=Certainty.POSSIBLE,
            form="replicated",
            why=f"line {site.call.lineno} copies it to each device, and the project never uses a device index",
        )

    def _handed_on(self, site: Site, done: set[ast.AST]) -> Iterator[Finding]:
        """A key that is passed to a model as `rngs`."""
        for ran, event, node in events(site, "key handed on"):
            copied = _copied(site, ran)
            node = copied or _kept(site, ran, event) or folded_in_body(site, ran, event) or node
            if node in done or not _draws(site, event) or _told_there(site, ran, event):
                continue
            done.add(node)
            yield site.finding(
                node,
                f"Every device along {shown(event.axes)} draws the same random numbers for its own shard.",
                label="the same key on every device",
                help=_SPLIT if copied is not None else _help(event.axes[0]),
                certainty=Certainty.POSSIBLE,
                form="rngs",
                why=f"`rngs` are the keys of {event.note}, and its data are sharded",
            )


def _draws(site: Site, event: Event) -> bool:
    """True if a key is passed as `rngs` of a model that draws with it."""
    return bool(event.note) and not draws_nothing(site.program, event.place)


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


def _help(axis: Axis) -> str:
    if axis == "":
        return "pass one key per device (jax.random.split), or name the axis: jax.pmap(f, axis_name=...)"
    return (
        f"fold the device index in: key = jax.random.fold_in(key, jax.lax.axis_index({as_argument([axis])}))"
    )
