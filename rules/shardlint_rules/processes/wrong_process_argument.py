"""SL815."""

from __future__ import annotations

import ast

from shardlint.facts.bound_names import settled_expression
from shardlint.model.values import CallResult, Constant, Value, options
from shardlint.rules_api.rule import Calls, Edit, Finding, Harm, Methods, Rule, Safety, detector
from shardlint.rules_api.site import Site
from shardlint_rules.processes.sharded_datasets import find_swapped_arguments

_LOCAL = "jax.local_devices"
_SINGLE = "jax.make_array_from_single_device_arrays"
_UTILS = "jax.experimental.multihost_utils."
_CONVERTING = (f"{_UTILS}host_local_array_to_global_array", f"{_UTILS}global_array_to_host_local_array")


class WrongProcessArgument(Rule):
    """A call of a function for several processes raises: an argument is wrong or missing.

    ## Reports
    - proven: `jax.local_devices("cpu")` raises TypeError: its first parameter is a process index.
    - proven: `host_local_array_to_global_array(x, mesh)` or its reverse, without specs, raises TypeError.
    - proven: `make_array_from_single_device_arrays(shape, sharding, arrays)` raises TypeError for numpy arrays. It
      raises ValueError for several arrays that are all on one device.
    - proven: `dataset.shard(process_index(), process_count())` of tf.data, or `num_shards=process_index()`, raises
      ValueError on process 0.

    ## Fix
    Writes `jax.local_devices(backend="cpu")`. Safe, because the call raised before. The other calls have no fix.
    """

    code = "SL815"
    name = "wrong-process-argument"
    harm = Harm.CRASH
    triggers = (Calls(_LOCAL, _SINGLE, *_CONVERTING), Methods("shard", file_says=("process_index",)))
    fixes = "safe"
    closed = ("positional", "keywords")
    in_version_checks = False

    @detector("method")
    def report_swapped(self, site: Site) -> Finding | None:
        """A `shard` that takes the index of the process for the number of parts."""
        given = find_swapped_arguments(site)
        if given is None:
            return None
        return site.finding(
            given,
            "`shard` raises ValueError on process 0: the process index and the number of parts are swapped.",
            label="must be the number of parts",
            why="the first parameter is num_shards, which is 0 on process 0 here; the index must be smaller",
            help="write `.shard(jax.process_count(), jax.process_index())`",
        )

    @detector("call", of=_LOCAL)
    def report_platform(self, site: Site) -> Finding | None:
        """A platform in the place of the index of a process."""
        if not site.call.args:
            return None
        given = site.call.args[0]
        found = options(site.value(given))
        if not all(isinstance(one, Constant) and isinstance(one.value, str) for one in found):
            return None
        start = site.file.character_span(given)[0]
        fix = None
        if len(site.call.args) == 1 and site.keyword("backend") is None:
            fix = site.fix(Safety.SAFE, f"write backend={site.text(given)}", [Edit(start, start, "backend=")])
        return site.finding(
            given,
            "`jax.local_devices` raises TypeError: its first parameter is a process index, not a platform.",
            help="write `jax.local_devices(backend=platform)`",
            fix=fix,
        )

    @detector("call", of=_CONVERTING)
    def report_missing_specs(self, site: Site) -> Finding | None:
        """A conversion without specs."""
        given = site.argument("pspecs")
        if given is None and len(site.call.args) > 2:
            given = site.call.args[2]
        if given is not None:
            return None
        return site.finding(
            site.call,
            f"`{site.text(site.call.func)}` raises TypeError: the specs are missing.",
            help="pass a `PartitionSpec`, or `P()` if all processes have the same array",
        )

    @detector("call", of=_SINGLE)
    def report_arrays(self, site: Site) -> Finding | None:
        """Arrays that are not on the devices of this process."""
        given = site.argument("arrays")
        if given is None:
            return None
        made = settled_expression(site.file, given)
        if not isinstance(made, ast.ListComp) or len(made.generators) != 1 or made.generators[0].ifs:
            return None
        element = site.value(made.elt)
        if _is_made_by(element, "numpy."):
            return self._report_list(site, given, "TypeError", "are numpy arrays")
        if _is_made_by(element, "jax.numpy.") and _several_elements(site, made.generators[0].iter):
            return self._report_list(site, given, "ValueError", "are all on the default device")
        return None

    def _report_list(self, site: Site, expression: ast.expr, error: str, cause: str) -> Finding:
        return site.finding(
            expression,
            f"This raises {error}: `{site.shown(expression)}` {cause}.",
            help="write `[jax.device_put(x[i], d) for d, i in "
            "sharding.addressable_devices_indices_map(x.shape).items()]`, where x is the full array",
        )


def _is_made_by(value: Value, *names: str) -> bool:
    """Return whether a value is surely made by a function whose name begins so."""
    found = options(value)
    return bool(found) and all(isinstance(one, CallResult) and one.api.startswith(names) for one in found)


def _several_elements(site: Site, iterated: ast.expr) -> bool:
    """Return whether the iterable is a list of devices, or a number of them."""
    node = iterated
    if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "range" and len(node.args) == 1:
        number = options(site.value(node.args[0]))
        return all(
            isinstance(one, Constant) and isinstance(one.value, int) and one.value > 1 for one in number
        )
    found = options(site.value(node))
    return all(
        isinstance(one, CallResult) and one.api in ("jax.devices", "jax.local_devices") for one in found
    )
