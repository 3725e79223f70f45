"""SL806."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from shardlint.model import Program
from shardlint.model.process.processes import ASKING_SAYS, SEVERAL_SAYS, asks_itself, guard, several
from shardlint.model.reach import lookup
from shardlint.model.values import Function, Place, options
from shardlint.rules_api.rule import Calls, Certainty, Finding, Harm, Rule, Takes
from shardlint.rules_api.site import Site
from shardlint.syntax import FileFacts, last_name
from shardlint.syntax.nodes import walk
from shardlint_rules.processes._followed_key import Following, Reached
from shardlint_rules.processes._own_key import moved_by_one
from shardlint_rules.processes._seeds import SEEDS, seeded_by
from shardlint_rules.processes._shards_alike import SHARDS, seed_left_out
from shardlint_rules.processes.alone import alone
from shardlint_rules.processes.differing import Differing
from shardlint_rules.processes.own_data import own_data
from shardlint_rules.processes.replicated import splits_nothing, whole
from shardlint_rules.processes.starting import at, short

_ONE = (
    "process_index",
    "process_id",
    "host_id",
    "is_main",
    "is_host",
    "primary",
    "coordinator",
    "rank",
    "master",
)
_TO_GLOBAL = "jax.experimental.multihost_utils.host_local_array_to_global_array"
_MAKERS = {
    "jax.make_array_from_process_local_data": "local_data",
    "jax.make_array_from_callback": "data_callback",
    "jax.make_array_from_single_device_arrays": "arrays",
    "jax.device_put": "x",
    _TO_GLOBAL: "local_inputs",
}


_KEYS = ("jax.random.PRNGKey", "jax.random.key", "flax.nnx.Rngs")
_OWN_SAYS = (
    "process_index",
    "host_id",
    "process_id",
    "rank",
    "time.time",
    "random.rand",
    "urandom",
    "randbits",
    "randbelow",
    "uuid4",
)


class ReplicasDiffer(Rule):
    """A replicated array is made of data that each process makes for itself, so its copies differ.

    ## What it does
    Reports arrays that are made with a sharding that splits nothing, of numbers drawn without a seed
    (`np.random.default_rng()`, `np.random.randn(...)` where nothing seeds it), of the time, of the index of the process
    or the part of the data that is chosen by it, also through helpers, properties of settings and trees. Only in
    programs for several processes. What is broadcast first, and what one process alone does, is left alone.

    Random keys and `nnx.Rngs` that are made so, and are given, split or not, through functions of the project, and in
    tuples, dicts and fields of objects, to a compiled function with shardings or beside an array of all processes; or
    to a model's `init`, whose weights are then replicated. Where another file draws the seed of such a key, that is
    reported there.

    And random keys that one process alone moves on (`key, sub = jax.random.split(key)` below
    `if jax.process_index() == 0`), and that all of them read after it or in the next turn of the loop.

    And methods that make the object of one shard (`def shard(self, shard_id, ...)`) of the same class, hand on its
    other fields, and leave out its key or seed, so that all shards draw the same.

    ## Why it hurts
    `make_array_from_process_local_data`, `make_array_from_callback` and `host_local_array_to_global_array` believe what
    they are given: the array counts as replicated, each process computes with its own copy, and parameters drift apart
    with no error. `device_put` compares the copies and raises AssertionError.

    ## Evidence
    Two processes on jax 0.12: the makers give arrays that differ, and `device_put` raises "is not the same on each
    process". A jit takes a key that differs, with `out_shardings` and beside a global array: what it draws counts as
    replicated, or as rows of one array, and is another on each process. A key that process 0 alone splits is another
    one there from then on: noise and dropout of all later steps differ, and so do the weights that come of them.
    """

    code = "SL806"
    name = "replicas-differ"
    harm = Harm.SILENT
    certainty = Certainty.POSSIBLE
    likely = ("shards-alike", "one-key", "own-copies", "own-key", "own-init")
    triggers = (
        Calls(*_MAKERS),
        Calls("jax.random.split", "jax.random.fold_in", function_says=_ONE),
        Calls(*_KEYS, file_says=_OWN_SAYS),
        Calls(*SEEDS, file_says=("seed",)),
        Takes(*SHARDS),
    )
    forms = ("call", "parameter")
    project_says = SEVERAL_SAYS
    or_file_says = ASKING_SAYS
    in_tests = False
    fixes = "none"

    def check(self, site: Site) -> Iterator[Finding]:
        """One finding for an array or a key."""
        if site.form == "parameter":
            yield from self._alike(site)
            return
        if site.api in SEEDS:
            yield from self._drawn_here(site)
            return
        if site.api.startswith(("jax.random.", "flax.")):
            if site.api in ("jax.random.split", "jax.random.fold_in"):
                yield from self._moved(site)
            if site.api != "jax.random.split" and site.wants("own-key", "own-init"):
                yield from self._own_key(site)
            return
        if not site.wants("own-data", "own-copies") or not _replicated(site):
            return
        given = site.argument(_MAKERS[site.api])
        if given is None and site.api == _TO_GLOBAL and site.call.args:
            given = site.call.args[0]
        if given is None:
            return
        node = _result(site, given) if site.api == "jax.make_array_from_callback" else Place(site.file, given)
        found = own_data(site.program, node) if node is not None else None
        if found is not None and _matters(site.program, site.file, site.call):
            yield self._finding(site, given, found)

    def _alike(self, site: Site) -> Iterator[Finding]:
        """The part of one shard that is made without the seed of the whole."""
        found = seed_left_out(site)
        if found is None:
            return
        call, seed = found
        name = site.text(call.func)
        yield site.finding(
            call,
            f"Each shard is made without the `{seed}` of the whole: all shards draw with the default of `{name}`, the "
            "same numbers, and the one that was given is lost.",
            label=f"leaves out `{seed}`",
            help=f"make one of it and the number of the shard: {seed}=jax.random.fold_in(self.{seed}, shard)",
            form="shards-alike",
            why=f"`{name}` takes `{seed}`, and the other fields are handed on",
        )

    def _moved(self, site: Site) -> Iterator[Finding]:
        found = moved_by_one(site) if site.wants("one-key") else None
        if found is not None:
            name, kept, read = found
            yield site.finding(
                site.call,
                f"The others go on with the key as it was: from here on `{name}` is another in each process, and what "
                f"is drawn with it at {site.where(Place(site.file, read))} differs between them.",
                label=f"one process alone moves `{name}` on",
                help=f"leave `{name}` as it is, and make a key for this one: sub = jax.random.fold_in({name}, 1)",
                form="one-key",
                why=f"{site.where(Place(site.file, kept.test))} keeps the other processes from it",
            )

    def _own_key(self, site: Site) -> Iterator[Finding]:
        """A key that is another in each process, where the program over all of them takes it for one."""
        given = [*site.call.args, *(one.value for one in site.call.keywords if one.arg is not None)]
        given = given[1:] if site.api == "jax.random.fold_in" else given
        parts = ((one, own_data(site.program, Place(site.file, one))) for one in given)
        found = next(((node, own) for node, own in parts if own is not None), None)
        if found is None or not _matters(site.program, site.file, site.call):
            return
        node, own = found
        if own.place.file is not site.file and _asked_there(own.place):
            return  # `_drawn_here` tells it where the seed is drawn
        reached = next(Following(site.program).reached(Place(site.file, site.call)), None)
        if reached is not None:
            yield self._key_finding(site, node, own, reached)

    def _drawn_here(self, site: Site) -> Iterator[Finding]:
        """A seed of each process, of which another file makes a key that all must have alike."""
        found = seeded_by(site, _KEYS, _matters) if site.wants("own-key", "own-init") else None
        if found is None or guard(site.program, site.file, site.call) is not None:
            return
        became = f"`{found.used}` at {found.used_at}"
        says = (
            f"and {became} counts it as one for all: what is drawn with it counts as replicated, differs between the "
            "processes, and nothing is raised."
            if found.what == "key"
            else f"each initializes other weights, and copies its own to its devices ({became}). Gradients that are "
            "averaged keep them apart."
        )
        yield site.finding(
            site.call,
            f"Each process draws another seed here: `{found.text}` ({found.where}) is another key in each, {says}",
            label="a seed of each process",
            help="let process 0 draw it for all: multihost_utils.broadcast_one_to_all(...)",
            form="own-key" if found.what == "key" else "own-init",
            why=found.why or "the program is one for several processes",
        )

    def _key_finding(self, site: Site, node: ast.expr, own: Differing, reached: Reached) -> Finding:
        source = f"`{short(own.place)}`{at(own.place, site.file, node)}"
        where = f"`{short(reached.place)}` at {site.where(reached.place)}"
        if reached.what == "key":
            says = (
                f"{source} makes another key in each process, and {where} counts it as one for all: what is drawn with "
                "it counts as replicated, differs between the processes, and nothing is raised."
            )
        else:
            says = (
                f"{source} makes another key in each process: each initializes other weights, and copies its own to "
                f"its devices ({where}). Gradients that are averaged keep them apart."
            )
        return site.finding(
            node,
            says,
            label=f"{own.what}: a key of one process alone",
            help="make this key of one seed in all processes; fold the process in for what each does with its own data",
            form="own-key" if reached.what == "key" else "own-init",
            why=reached.why or "the program is one for several processes",
        )

    def _finding(self, site: Site, given: ast.expr, found: Differing) -> Finding:
        put = site.api == "jax.device_put"
        given = _enters(site, given)
        where = at(found.place, site.file, given)
        says = "raises AssertionError" if put else "makes copies that differ, and nothing is raised"
        return site.finding(
            given,
            f"`{short(found.place)}`{where} is another in each process: replicated, this {says}.",
            label=f"{found.what}, another in each process",
            help="draw it from one seed in all processes, or send it by multihost_utils.broadcast_one_to_all first",
            harm=Harm.CRASH if put else Harm.SILENT,
            form="own-data" if put else "own-copies",
            why="the program is one for several processes, and the sharding splits nothing",
        )


def _enters(site: Site, given: ast.expr) -> ast.expr:
    """Where in the function what is given comes to differ: the first of the assignments that it is made by."""
    for _ in range(6):
        names = [one for one in walk(given) if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Load)]
        before = None
        for name in names:
            bindings, scope = lookup(site.file, name, name.id)
            one = bindings[0] if len(bindings) == 1 else None
            value = one.value if one is not None and one.kind in ("assign", "for", "comprehension") else None
            if value is not None and scope is not None and scope.function() is site.scope.function():
                if own_data(site.program, Place(site.file, value)) is not None:
                    before = value
                    break
        if before is None:
            break
        given = before
    return given


def _replicated(site: Site) -> bool:
    if site.api == _TO_GLOBAL:
        spec = site.argument("pspecs") or (site.call.args[2] if len(site.call.args) > 2 else None)
        return spec is not None and all(splits_nothing(site, one) for one in options(site.value(spec)))
    given = site.argument("device" if site.api == "jax.device_put" else "sharding")
    found = options(site.value(given)) if given is not None else ()
    return bool(found) and all(whole(site, one) and site.sharding_parts(one) is not None for one in found)


def _result(site: Site, callback: ast.expr) -> Place | None:
    """What a callback returns, where that is one expression."""
    for option in options(site.value(callback)):
        if isinstance(option, Function):
            file, node = option.place.file, option.node
            if isinstance(node, ast.Lambda):
                return Place(file, node.body)
            returns = file.walked(file.scope(node)).returns
            if len(returns) == 1 and returns[0].value is not None:
                return Place(file, returns[0].value)
    return None


def _asked_there(place: Place) -> bool:
    """Whether a call is one of those that are asked what becomes of them."""
    file, func = place.file, place.node.func if isinstance(place.node, ast.Call) else None
    return (
        func is not None
        and file.says("seed")
        and last_name(func) in {one.rpartition(".")[2] for one in SEEDS}
    )


def _matters(program: Program, file: FileFacts, node: ast.AST) -> bool:
    if not asks_itself(file) and file.path.suffix == ".ipynb":
        return False  # of one process, whatever else the project starts
    if not asks_itself(file) and several(program, file) != "initialized":
        return False
    return guard(program, file, node) is None and not alone(program, Place(file, node))
