"""SL109."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from typing import ClassVar

from shardlint.model.values import Place
from shardlint.rules_api.rule import Calls, Certainty, Finding, Fix, Harm, Rule, Safety
from shardlint.rules_api.site import Site
from shardlint_rules.equinox._devices import asked, committed, differ
from shardlint_rules.equinox.placement import by_parts, two_arguments


class FilterShardAcrossDevices(Rule):
    """`eqx.filter_shard` outside jit gets an array that is committed to other devices.

    `filter_shard` is a sharding constraint. Outside jit it compiles a separate program. A program runs on the
    devices of its arguments, so it raises `ValueError: Received incompatible devices for jitted computation`. New
    arrays are uncommitted, so they work.

    ## Reports
    - proven: `eqx.filter_shard(x, ...)` in host code if `x` comes from `jax.device_put` or `filter_shard` and is on
      other devices than the target: from one device to a mesh, from a mesh to one device, from one device to another,
      between parts of `jax.devices()`.
    - possible: the same in a function that may also be traced.

    ## Write instead
    `jax.device_put`. For a Module, place only its arrays and combine them with the rest.

    ## Fix
    Writes `jax.device_put` for an array that `device_put` made, and otherwise partitions the Module and places its
    arrays. Unsafe: arrays move between devices.
    """

    code = "SL109"
    name = "filter-shard-across-devices"
    harm = Harm.CRASH
    releases: ClassVar[Mapping[str, str]] = {"equinox": ">=0.11.5", "jax": ">=0.4.38"}
    triggers = (Calls("equinox.filter_shard"),)
    forms = ("call",)
    where = "host"
    in_version_checks = False
    fixes = "unsafe"

    def check(self, site: Site) -> Iterator[Finding]:
        """One finding for a call."""
        tree, target = site.argument("x"), site.argument("device_or_shardings")
        if tree is None or target is None:
            return
        before, after = committed(site, site.value(tree)), asked(site, Place(site.file, target))
        if before is None or after is None or not differ(before, after):
            return
        proven = site.region.traced == "never"
        text = site.shown(tree)
        yield site.finding(
            site.call.func,
            f"`filter_shard` raises ValueError: it can't move `{text}` from {before.words} to {after.words}.",
            why="outside jit it runs on the devices that its argument is committed to",
            help=f"write jax.device_put({text}, {site.shown(target)})",
            fix=self._fix(site) if proven else None,  # in traced code device_put would place nothing
            certainty=Certainty.PROVEN if proven else Certainty.POSSIBLE,
        )

    def _fix(self, site: Site) -> Fix | None:
        parts = two_arguments(site, "x", "device_or_shardings")
        if parts is None:
            return None
        tree, target = parts
        put, imports = site.spell("jax.device_put")
        edits = list(imports)
        if _from_device_put(site, tree):
            text = f"{put}({site.text(tree)}, {site.text(target)})"
        else:
            rewritten = by_parts(site, put, tree, target)
            if rewritten is None:
                return None
            text = rewritten[0]
            edits += rewritten[1]
        drops = (site.call.func.id,) if isinstance(site.call.func, ast.Name) else ()
        edits.append(site.replace(site.call, text))
        message = f"write: {' '.join(text.split())}"
        return site.fix(Safety.UNSAFE, message, edits, "the arrays move between devices", drops)


def _from_device_put(site: Site, tree: ast.expr) -> bool:
    """Whether it is made by device_put, which has shown that all its leaves are arrays."""
    return getattr(site.value(tree), "api", "") == "jax.device_put"
