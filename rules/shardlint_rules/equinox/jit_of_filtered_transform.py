"""SL108."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from shardlint.model.values import Transformed, Value, options
from shardlint.rules_api.rule import Calls, Finding, Harm, Rule, Uses, detector
from shardlint.rules_api.site import Site
from shardlint_rules.equinox.jitted_functions import (
    is_failure_expected,
    jitted_function,
    replace_by_filter_jit,
)

# The unhashable field of the Module that each of them returns.
_UNHASHABLE = {
    "equinox.filter_vmap": "dict",
    "equinox.filter_grad": "dict",
    "equinox.filter_value_and_grad": "dict",
    "equinox.filter_pmap": "dict",
    "equinox.Partial": "dict",
    "equinox.filter_closure_convert": "list",
}


class JitOfFilteredTransform(Rule):
    """`jax.jit` gets a function that a filtered transform of Equinox returned.

    The first call raises `TypeError: unhashable type`. `jax.jit` hashes its function, and these transforms return
    Modules. From equinox 0.13.0 the hash of a Module reads its fields, and a dict or list field is not hashable.

    ## Reports
    - proven: `jax.jit` of a result of `eqx.filter_vmap`, `eqx.filter_grad`, `eqx.filter_value_and_grad`,
      `eqx.filter_pmap`, `eqx.filter_closure_convert` or `eqx.Partial`, as a call or as stacked decorators.

    ## Fix
    Writes `eqx.filter_jit`. Safe, because the original call raises. Numbers are static under `filter_jit`: convert a
    number to an array if it must be traced. No fix if `jax.jit` has other keywords.

    ## Limits
    `jax.jit` of `eqx.filter_jit`, `eqx.filter_checkpoint` or `eqx.filter_jacfwd` works. `jax.jit` of a lambda that
    calls any of the transforms above works too.
    """

    code = "SL108"
    name = "jit-of-filtered-transform"
    harm = Harm.CRASH
    releases: ClassVar[Mapping[str, str]] = {"equinox": ">=0.13.0"}
    triggers = (Calls("jax.jit"), Uses("jax.jit"))
    in_version_checks = False
    project = "equinox"
    fixes = "safe"

    @detector("call", "partial", "name")
    def report_transform(self, site: Site) -> Finding | None:
        """A jit of a filtered transform."""
        found = jitted_function(site)
        if found is None:
            return None
        names = [_transform_name(option) for option in options(found.fun)]
        if not all(name in _UNHASHABLE for name in names) or is_failure_expected(site, found):
            return None
        maker = names[0].replace("equinox.", "eqx.")
        return site.finding(
            found.name,
            f"On {site.release('equinox')} calling `jax.jit` of an `{maker}` raises TypeError: unhashable type.",
            why=f"jax.jit hashes its function, and `{maker}` returns a Module with a {_UNHASHABLE[names[0]]}",
            help="write `eqx.filter_jit`",
            fix=replace_by_filter_jit(site, found),
        )


def _transform_name(value: Value) -> str:
    return value.api.name if isinstance(value, Transformed) else ""
