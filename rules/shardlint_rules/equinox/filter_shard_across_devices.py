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
    """`eqx.filter_shard` outside jit, of an array that is on other devices already.

    ## What it does
    Reports `eqx.filter_shard(x, ...)` outside traced code where `x` comes from `jax.device_put` or
    `filter_shard` and was put on other devices than are asked for: from one device to a mesh, from a mesh to
    one device, from one device to another, between parts of `jax.devices()`.

    ## Why it hurts
    filter_shard is a sharding constraint, and outside jit that compiles a program of its own. A program runs
    on the devices that its arguments are committed to, so it raises `ValueError: Received incompatible
    devices for jitted computation`. New arrays are committed to none, which is why it works for them.

    ## Use instead
    For a Module place its arrays only, and combine it with the rest again.

    ## Fix safety
    Unsafe: the arrays are moved between devices. What `jax.device_put` made goes through it again; what
    `filter_shard` made may hold more than arrays and goes by parts.

    ## Evidence
    Run on equinox 0.11.5 to 0.13.8 with jax 0.4.38 to 0.12. Another
    arrangement of the same devices in the same order is no obstacle, another order is. Up to jax 0.6.2
    `filter_shard` of a new array to the first device commits it to nothing, and is left alone.
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
        yield site.finding(
            site.call.func,
            f"On {site.release('jax')} this raises ValueError: filter_shard does not move what is committed elsewhere.",
            label=f"it is on {before.words}, and is to be on {after.words}",
            help="outside jit move it with jax.device_put",
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
