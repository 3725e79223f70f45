"""Lists of devices that are of one process by what asks for them, and of all by what they get to be."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from shardlint.model.process.scales import ALL, PROCESS
from shardlint.rules_api.site import Site
from shardlint.source.patterns import regex
from shardlint.syntax import last_name
from shardlint_rules.processes._whose import Contradiction, name_of

_OWN_NAME = regex(r"(?i)^_?(?:my_|own_|this_)?local_devices?(?:_list)?$")
_GLOBAL_NAME = regex(r"(?i)^_?global_devices?(?:_list)?$")
_ARRAYS = ("array", "asarray", "list", "sorted", "reshape")
LISTS = ("jax.devices", "jax.local_devices")
LISTS_SAY = ("local_dev", "global_dev")
"""Texts of which one stands in a function with such a name."""


def listed(site: Site) -> Iterator[Contradiction]:
    """`local_devices = jax.devices()`, `global_devices = jax.local_devices()`."""
    scale = PROCESS if site.api == "jax.local_devices" else ALL
    assert isinstance(site.call, ast.Call)
    top: ast.expr = site.call
    if any(one.arg == "process_index" for one in site.call.keywords) or (scale == PROCESS and site.call.args):
        return
    while True:
        parent = site.file.parent(top)
        if isinstance(parent, ast.Call) and parent.args[:1] == [top] and last_name(parent.func) in _ARRAYS:
            top = parent
        elif isinstance(parent, ast.BoolOp | ast.IfExp) and not (isinstance(parent, ast.IfExp) and parent.test is top):
            top = parent  # `devices or jax.devices()`
        else:
            break
    name = name_of(site.file, top)
    if (_OWN_NAME if scale == ALL else _GLOBAL_NAME).search(name) is None:
        return
    own, every = "jax.local_devices", "jax.devices"
    yield Contradiction(
        site.call,
        "the devices of all processes" if scale == ALL else "the devices of this process",
        f"`{name}` are to be the devices of this process, and jax.devices() gives those of all."
        if scale == ALL
        else f"`{name}` are to be the devices of all processes, and jax.local_devices() gives those of this one.",
        "listed",
        f"the name `{name}`",
        own if scale == ALL else every,
    )
