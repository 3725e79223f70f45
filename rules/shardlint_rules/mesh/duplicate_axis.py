"""SL302."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from shardlint.program.meshes import Spec
from shardlint.rule import Finding, Harm, Rule
from shardlint.site import Site
from shardlint_rules.mesh.given import WAKES, Given, given, named, where


class DuplicateAxis(Rule):
    """One mesh axis shards two dimensions.

    ## What it does
    Reports a `PartitionSpec` with the same axis name twice, where it is given to `NamedSharding`, to a
    constraint, to `device_put`, to the shardings of a jit or to the specs of `shard_map`.

    ## Why it hurts
    A mesh axis can split one dimension of an array only. `P("data", "data")` itself is accepted, so
    nothing is seen until the sharding is made: `DuplicateSpecError` (`ValueError` up to jax 0.4.38).

    ## Use instead
    Which dimension keeps the axis is yours to say.

    ## Evidence
    `Shard_map` raises when it is called. Run on jax 0.4.38 to 0.12. A spec of
    logical names, turned into mesh axes by rules, may repeat a name, and `P.UNCONSTRAINED` may repeat:
    both are left alone.
    """

    code = "SL302"
    name = "duplicate-axis"
    harm = Harm.CRASH
    assumes = True
    wakes = WAKES

    def check(self, site: Site) -> Iterator[Finding]:
        """One finding for each axis named again."""
        for one in given(site):
            for axis in _repeated(one.spec):
                yield self._finding(site, one, axis)

    def _finding(self, site: Site, one: Given, axis: str) -> Finding:
        mentions = [entry for entry, name in named(one.spec) if name == axis]
        again = mentions[1]
        nth = 1 if again is mentions[0] else 0  # twice inside one tuple
        node = where(site, one, again, axis, nth)
        error = "DuplicateSpecError" if site.runs("jax", ">=0.5.3") else "ValueError"
        return site.finding(
            node,
            f'"{axis}" is already used in this spec',
            f"On {site.on('jax')} this raises {error}: a mesh axis can split one dimension only, "
            f"and {one.spec.place.text()} gives it {len(mentions)}.",
            help=f'keep "{axis}" for one dimension, and write None or another axis for the rest',
        )


def _repeated(spec: Spec) -> list[str]:
    counted = Counter(axis for _, axis in named(spec))
    return [axis for axis, times in counted.items() if times > 1 and axis]
