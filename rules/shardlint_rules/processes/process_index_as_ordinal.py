"""SL817."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from typing import ClassVar

from shardlint.model.values import CallResult, options
from shardlint.rules_api.rule import Calls, Certainty, Finding, Harm, Rule, detector
from shardlint.rules_api.site import Site
from shardlint_rules.processes.value_uses import reads_of_same_value

_ALL, _OWN = "jax.devices", "jax.local_devices"


class ProcessIndexAsOrdinal(Rule):
    """A list of devices is indexed with the process index.

    `jax.local_devices()` lists the devices of the calling process. `jax.local_devices()[jax.process_index()]` gives the
    second process its second device, or raises IndexError. With one process there is no symptom.

    ## Reports
    - `local-devices` (likely): `jax.local_devices()[jax.process_index()]`.
    - `all-devices` (possible): `jax.devices()[jax.process_index()]`, which is right if each process has one device.

    ## Write instead
    Write `jax.local_devices()[0]`.
    """

    code = "SL817"
    name = "process-index-as-ordinal"
    harm = Harm.CRASH
    certainty = Certainty.POSSIBLE
    likely = ("local-devices",)
    assumptions: ClassVar[Mapping[str, str]] = {"local-devices": "The program runs on more than one process."}
    triggers = (Calls("jax.process_index", file_says=("local_devices(", "jax.devices(")),)
    in_tests = False
    fixes = "none"

    @detector("call")
    def find_lists(self, site: Site) -> Iterator[Finding]:
        """Each list that the index of a process chooses from."""
        for use in reads_of_same_value(site.file, site.call):
            parent = site.file.parent(use)
            if not isinstance(parent, ast.Subscript) or parent.slice is not use:
                continue
            listed = options(site.value(parent.value))
            names = {one.api if isinstance(one, CallResult) else None for one in listed}
            if names not in ({_OWN}, {_ALL}):
                continue
            own, text = names == {_OWN}, site.text(parent.value)
            yield site.finding(
                parent,
                "On the second process this raises IndexError or picks the wrong device: "
                f"`{text}` is indexed with the process index."
                if own
                else f"If a process has several devices, this takes a device of another process from `{text}`.",
                help="write `jax.local_devices()[0]`",
                form="local-devices" if own else "all-devices",
                why="the list has only the devices of this process, and a process index counts processes"
                if own
                else "the index of a process is not the number of a device",
            )
