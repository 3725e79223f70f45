"""SL108."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import ClassVar

from shardlint.model.values import Transformed, Value, options
from shardlint.rules_api.rule import Calls, Finding, Harm, Rule, Uses
from shardlint.rules_api.site import Site
from shardlint_rules.equinox.jitted import expected, jitted, to_filter_jit

# What each of them keeps in a field of the Module it returns, and jax.jit wants to hash.
_UNHASHABLE = {
    "equinox.filter_vmap": "dict",
    "equinox.filter_grad": "dict",
    "equinox.filter_value_and_grad": "dict",
    "equinox.filter_pmap": "dict",
    "equinox.Partial": "dict",
    "equinox.filter_closure_convert": "list",
}


class JitOfFilteredTransform(Rule):
    """`jax.jit` of a function made by a filtered transform of Equinox.

    ## What it does
    Reports `jax.jit` of what `eqx.filter_vmap`, `eqx.filter_grad`, `eqx.filter_value_and_grad`,
    `eqx.filter_pmap`, `eqx.filter_closure_convert` or `eqx.Partial` returned, as a call or stacked as
    decorators.

    ## Why it hurts
    They return Modules, and from equinox 0.13.0 on a Module is hashed by its fields. `jax.jit` hashes the
    function it is given, comes upon a dict, and the first call raises `TypeError: unhashable type`.

    ## Fix safety
    Safe: it raised before. Numbers given to the function are static under filter_jit; make arrays of those
    that are to be traced. There is no fix where `jax.jit` is told more, which filter_jit may not know.

    ## Evidence
    Run on equinox 0.11.5, 0.11.11 and 0.12.2, which work, and on 0.13.0, 0.13.1
    and 0.13.8, which raise, each with jax 0.4.38, 0.6.2 or later. `eqx.filter_jit`, `eqx.filter_checkpoint`
    and `eqx.filter_jacfwd` may be given to `jax.jit`, and so may a lambda that calls any of them.
    """

    code = "SL108"
    name = "jit-of-filtered-transform"
    harm = Harm.CRASH
    releases: ClassVar[Mapping[str, str]] = {"equinox": ">=0.13.0"}
    triggers = (Calls("jax.jit"), Uses("jax.jit"))
    in_version_checks = False
    project = "equinox"
    fixes = "safe"

    def check(self, site: Site) -> Iterator[Finding]:
        """One finding for a jit."""
        found = jitted(site)
        if found is None:
            return
        names = [_transform(option) for option in options(found.fun)]
        if not all(name in _UNHASHABLE for name in names) or expected(site, found):
            return
        kind = _UNHASHABLE[names[0]]
        yield site.finding(
            found.name,
            f"On {site.release('equinox')} calling it raises TypeError: unhashable type: '{kind}'.",
            label=f"compiles what {names[0].replace('equinox.', 'eqx.')} returned",
            help="compile it with eqx.filter_jit",
            fix=to_filter_jit(site, found),
        )


def _transform(value: Value) -> str:
    return value.api.name if isinstance(value, Transformed) else ""
