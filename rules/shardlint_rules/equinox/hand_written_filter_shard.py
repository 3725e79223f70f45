"""SL104."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from typing import ClassVar

from shardlint.config.versions import show
from shardlint.model.values import Api
from shardlint.rules_api.rule import Calls, Certainty, Edit, Finding, Fix, Harm, Rule, Safety
from shardlint.rules_api.site import Site
from shardlint.syntax.nodes import walk
from shardlint_rules.equinox._sharding_helper import Helper, recognise

# What such helpers were written with, and the release of jax that has it no more.
_REMOVED = {
    "jaxlib.xla_extension": (0, 6, 1),
    "jax.lib.xla_extension": (0, 7, 0),
    "jax.sharding.PositionalSharding": (0, 7, 0),
    "jax.sharding.GSPMDSharding": (0, 7, 0),
}


class HandWrittenFilterShard(Rule):
    """A function of the project that does what `eqx.filter_shard` does.

    ## What it does
    Reports functions that split a tree by `eqx.is_array`, give its arrays to
    `jax.lax.with_sharding_constraint` and combine it again, with or without a case for a single device. By
    default only where they use what the target release of jax has removed, such as
    `jaxlib.xla_extension.Device` or `PositionalSharding`; the others with `--certainty possible`.

    ## Why it hurts
    The name that is gone raises ImportError, or AttributeError when the function is called.
    `eqx.filter_shard` is kept up to date by Equinox.

    ## Fix safety
    Safe: `eqx.filter_shard` does the same steps. Comments about them go with them, and so do imports that
    nothing else uses.

    ## Evidence
    The two were compared on equinox 0.11.5, 0.11.11, 0.12.2 and 0.13.8 with jax
    0.4.38 to 0.12, inside and outside jit, with shardings and with a device. Functions that use `device_put`,
    another filter than `eqx.is_array`, or do anything else besides are left alone.
    """

    code = "SL104"
    name = "hand-written-filter-shard"
    harm = Harm.REMOVED
    releases: ClassVar[Mapping[str, str]] = {"equinox": ">=0.11.5"}
    triggers = (Calls("equinox.combine"),)
    forms = ("call",)
    in_version_checks = False
    fixes = "safe"

    def check(self, site: Site) -> Iterator[Finding]:
        """One finding for a function, at its name."""
        helper = recognise(site)
        if helper is None:
            return
        start, _ = site.file.span(helper.function)
        end = site.file.source.text.index(helper.function.name, start) + len(helper.function.name)
        removed = self._removed(site, helper)
        message = "eqx.filter_shard does the same."
        if removed is not None:
            name, release = removed
            gone = (
                f"{name}, which it uses, was removed in jax {show(release)}: on {site.release('jax')} that raises."
            )
            message = f"{gone} {message}"
        yield site.finding(
            helper.function,
            "filter_shard written by hand",
            message,
            fix=self._fix(site, helper),
            certainty=Certainty.PROVEN if removed is not None else Certainty.POSSIBLE,
            span=(start, end),
        )

    def _removed(self, site: Site, helper: Helper) -> tuple[str, tuple[int, ...]] | None:
        """A name in the function, its annotations included, that the target release has not."""
        for part in walk(helper.function):
            if not isinstance(part, ast.Name | ast.Attribute):
                continue
            value = site.value(part)
            if not isinstance(value, Api):
                continue
            for name, release in _REMOVED.items():
                within = value.written == name or value.written.startswith(f"{name}.")
                if within and site.target("jax") >= release:
                    return value.written, release
        return None

    def _fix(self, site: Site, helper: Helper) -> Fix:
        spelled, imports = site.spell("equinox.filter_shard")
        written = f"return {spelled}({helper.tree}, {helper.target})"
        start, _ = site.file.span(helper.body[0])
        _, end = site.file.span(helper.body[-1])
        names = (part.id for one in helper.body for part in walk(one) if isinstance(part, ast.Name))
        message = f"write: {' '.join(written.split())}"
        return site.fix(
            Safety.SAFE, message, [Edit(start, end, written), *imports], drops=tuple(dict.fromkeys(names))
        )
