"""SL806."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from typing import ClassVar

from shardlint.facts.processes.conditions import ASKING_SAYS, SEVERAL_SAYS
from shardlint.model import Program
from shardlint.model.values import Function, Place, options
from shardlint.rules_api.rule import Calls, Certainty, Finding, Harm, Rule, detector
from shardlint.rules_api.site import Site
from shardlint.syntax import FileFacts
from shardlint.syntax.bindings import lookup_bindings, sole_returned_value
from shardlint.syntax.nodes import walk_nodes
from shardlint_rules.processes._followed_key import Following, Reached
from shardlint_rules.processes._own_key import moved_by_one
from shardlint_rules.processes._replicated_shardings import is_spec_unsharded, is_whole
from shardlint_rules.processes.per_process_values import ProcessDifference, find_process_difference
from shardlint_rules.processes.single_process_code import is_for_several_processes, left_to_one
from shardlint_rules.processes.started_backend import describe_position, shorten_text

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
    "jax.make_array_from_single_device_arrays": "arrays",
    _TO_GLOBAL: "local_inputs",
}


_COPIES = "The copies of a replicated array differ: each process makes a different `{data}`."
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
    """A replicated array is made from data that differ between processes, so its copies differ.

    Each process computes with a different copy, and the parameters drift apart. Only `device_put` raises: it compares
    the copies, and raises AssertionError.

    ## Reports
    Reported only in multi-process programs: the code calls `jax.distributed.initialize`, `jax.process_index` or
    `jax.process_count`. Data differ by process if they come from unseeded random numbers, the time or the process
    index. shardlint follows such data through functions, properties and trees.

    - `per-process-copies` (likely): `make_array_from_process_local_data`, `make_array_from_callback` or
      `host_local_array_to_global_array` of such data, with a replicated sharding.
    - `per-process-data` (possible): `device_put` of such data, with a replicated sharding.
    - `per-process-key` (likely): a random key or `nnx.Rngs` made from such data, if it reaches a jitted function that
      has shardings or takes a global array.
    - `per-process-init` (likely): a random key made from such data, if it reaches `model.init` and the weights are then
      replicated.
    - `key-of-one-process` (likely): `key, sub = split(key)` under `if jax.process_index() == 0:`, if all processes read
      `key` afterwards.

    ## Write instead
    Make the value from one seed in all processes, or send it with `multihost_utils.broadcast_one_to_all`.
    """

    code = "SL806"
    name = "replicas-differ"
    harm = Harm.SILENT
    certainty = Certainty.POSSIBLE
    likely = ("per-process-copies", "per-process-key", "per-process-init", "key-of-one-process")
    assumptions: ClassVar[Mapping[str, str]] = {
        "per-process-copies": "The program runs on more than one process.",
        "per-process-init": "No code out of sight gives the weights of one process to the others.",
        "key-of-one-process": "The program runs on more than one process.",
    }
    triggers = (
        Calls("jax.device_put", "jax.make_array_from_callback", *_MAKERS),
        Calls("jax.random.split", "jax.random.fold_in", function_says=_ONE),
        Calls(*_KEYS, file_says=(*_OWN_SAYS, "seed")),
    )
    project_says = SEVERAL_SAYS
    or_file_says = ASKING_SAYS
    in_tests = False
    fixes = "none"

    @detector("call", of=("jax.random.split", "jax.random.fold_in"), finds="key-of-one-process")
    def report_split(self, site: Site) -> Finding | None:
        """A key that only one process splits."""
        found = moved_by_one(site)
        if found is None:
            return None
        name, kept, read = found
        return site.finding(
            site.call,
            f"From here on key `{name}` differs between processes: only one process splits it.",
            help=f"keep `{name}` unchanged and derive a new key: `sub = jax.random.fold_in({name}, 1)`",
            why=f"{site.where(Place(site.file, kept.test))} lets only one process pass, and all processes read "
            f"`{name}` at {site.where(Place(site.file, read))}",
        )

    @detector("call", of=("jax.random.fold_in", *_KEYS), finds=("per-process-key", "per-process-init"))
    def report_key(self, site: Site) -> Finding | None:
        """A key that is another in each process, where the program over all of them takes it for one."""
        given = [*site.call.args, *(one.value for one in site.call.keywords if one.arg is not None)]
        given = given[1:] if site.api == "jax.random.fold_in" else given
        parts = ((one, find_process_difference(site.program, Place(site.file, one))) for one in given)
        found = next(((node, own) for node, own in parts if own is not None), None)
        if found is None or not _runs_on_several(site.program, site.file, site.call):
            return None
        node, own = found
        reached = next(Following(site.program).find_uses(Place(site.file, site.call)), None)
        return self._report_reached(site, node, own, reached) if reached is not None else None

    def _report_reached(self, site: Site, node: ast.expr, difference: ProcessDifference, reached: Reached) -> Finding:
        where = f"`{shorten_text(reached.place)}` at {site.where(reached.place)}"
        of_key, made = reached.what == "key", site.text(site.call.func)
        return site.finding(
            node,
            f"`{made}` makes a different key in each process, but a jitted function treats it as replicated."
            if of_key
            else f"Each process initializes different weights: `{made}` makes a different key in each.",
            label=difference.what,
            help="make the key from one seed in all processes; fold in the process index only for per-process data",
            form="per-process-key" if of_key else "per-process-init",
            why=f"`{shorten_text(difference.place)}`{describe_position(difference.place, site.file, node)} differs "
            f"between processes, and the key reaches "
            + (
                f"{where} ({reached.why}); jax does not compare replicated arguments between processes"
                if of_key
                else f"{where}, which copies the weights"
            ),
        )

    @detector("call", of="jax.device_put", finds="per-process-data")
    def report_placement(self, site: Site) -> Finding | None:
        """Data that differ, and that are placed on all devices."""
        given = site.argument("x")
        message = "This raises AssertionError with several processes: `{data}` differs between them."
        return _make_finding(site, given, given, message, Harm.CRASH)

    @detector("call", of="jax.make_array_from_callback", finds="per-process-copies")
    def report_callback(self, site: Site) -> Finding | None:
        """A callback that makes the data of all devices."""
        given = site.argument("data_callback")
        result = _find_result(site, given) if given is not None else None
        return _make_finding(site, given, result, _COPIES, Harm.SILENT)

    @detector("call", of=tuple(_MAKERS), finds="per-process-copies")
    def report_array(self, site: Site) -> Finding | None:
        """Data that differ, and of which an array is made on all devices."""
        given = site.argument(_MAKERS[site.api])
        if given is None and site.api == _TO_GLOBAL and site.call.args:
            given = site.call.args[0]
        return _make_finding(site, given, given, _COPIES, Harm.SILENT)


def _make_finding(
    site: Site, given: ast.expr | None, data: ast.expr | Place | None, message: str, harm: Harm
) -> Finding | None:
    """The finding of an argument whose data differ between processes, if the sharding is replicated."""
    if given is None or data is None or not _is_replicated(site):
        return None
    found = find_process_difference(site.program, data if isinstance(data, Place) else Place(site.file, data))
    if found is None or not _runs_on_several(site.program, site.file, site.call):
        return None
    given = _find_origin(site, given)
    return site.finding(
        given,
        message.format(data=site.shown(given)),
        label=f"depends on {found.what}",
        help="make the data equal on all processes, or write `multihost_utils.broadcast_one_to_all(data)`",
        harm=harm,
        why=f"`{shorten_text(found.place)}`{describe_position(found.place, site.file, given)} differs between "
        f"processes, and the "
        "sharding is replicated",
    )


def _find_origin(site: Site, given: ast.expr) -> ast.expr:
    """Where in the function what is given comes to differ: the first of the assignments that it is made by."""
    for _ in range(6):
        names = [one for one in walk_nodes(given) if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Load)]
        before = None
        for name in names:
            bindings, scope = lookup_bindings(site.file, name, name.id)
            one = bindings[0] if len(bindings) == 1 else None
            value = one.value if one is not None and one.kind in ("assign", "for", "comprehension") else None
            if (
                value is not None
                and scope is not None
                and scope.enclosing_function() is site.scope.enclosing_function()
            ):
                if find_process_difference(site.program, Place(site.file, value)) is not None:
                    before = value
                    break
        if before is None:
            break
        given = before
    return given


def _is_replicated(site: Site) -> bool:
    if site.api == _TO_GLOBAL:
        spec = site.argument("pspecs") or (site.call.args[2] if len(site.call.args) > 2 else None)
        return spec is not None and all(is_spec_unsharded(site, one) for one in options(site.value(spec)))
    given = site.argument("device" if site.api == "jax.device_put" else "sharding")
    found = options(site.value(given)) if given is not None else ()
    return bool(found) and all(is_whole(site, one) and site.sharding_parts(one) is not None for one in found)


def _find_result(site: Site, callback: ast.expr) -> Place | None:
    """Return the result of a callback, if it is one expression."""
    for option in options(site.value(callback)):
        if isinstance(option, Function):
            returned = sole_returned_value(option.place.file, option.node)
            if returned is not None:
                return Place(option.place.file, returned)
    return None


def _runs_on_several(program: Program, file: FileFacts, node: ast.AST) -> bool:
    return is_for_several_processes(program, file) and not left_to_one(program, Place(file, node))
