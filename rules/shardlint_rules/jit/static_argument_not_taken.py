"""SL241."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import ClassVar

from shardlint.facts.jit_settings import STATIC_SETTINGS
from shardlint.model.signatures import JITS
from shardlint.rules_api.rule import Calls, Finding, Harm, Rule, detector
from shardlint.rules_api.site import Site
from shardlint_rules.jit.in_shardings_entries import describe_function
from shardlint_rules.jit.parameters import explain_lost_entries, given_entries


class StaticArgumentNotTaken(Rule):
    """`static_argnames` or `static_argnums` names an argument that the function does not have.

    `jax.jit` raises ValueError when it wraps the function. With a decorator, importing the module raises. Often the
    parameter was renamed or removed.

    ## Reports
    - proven: a name in `static_argnames` that the wrapped function does not have.
    - proven: a position in `static_argnums` that the wrapped function does not have.

    ## Write instead
    Write the current name of the parameter. For a position count from 0, and count only positional arguments. Do not
    count keyword-only arguments, arguments bound by `functools.partial`, or the `self` of a bound method.

    ## Limits
    Not reported: any name for a function with `**kwargs`, and any position for a function with `*args`.
    """

    code = "SL241"
    name = "static-argument-not-taken"
    bound = True
    harm = Harm.CRASH
    releases: ClassVar[Mapping[str, str]] = {"jax": ">=0.4.38"}
    triggers = (Calls(*JITS, file_says=STATIC_SETTINGS),)
    in_version_checks = False
    fixes = "none"

    @detector("call", "partial")
    def find_settings(self, site: Site) -> Iterator[Finding]:
        """The settings with which wrapping raises."""
        settings = [(name, site.keyword(name)) for name in STATIC_SETTINGS]
        if all(keyword is None for _, keyword in settings):
            return
        functions = site.find_wrapped()
        if not functions:
            return
        for name, keyword in settings:
            reasons = {
                explain_lost_entries(one, one.parameters, given_entries(one, name, site.program.evaluator))
                if one.parameters is not None
                else None
                for one in functions
            }
            wrong = reasons.pop() if len(reasons) == 1 else None
            if keyword is not None and wrong is not None:
                yield site.finding(
                    keyword,
                    f"Wrapping {describe_function(functions[0])} raises ValueError: {wrong[0]}.",
                    help=wrong[1],
                    why=f"{site.release('jax')} checks `{name}` against the signature",
                )
