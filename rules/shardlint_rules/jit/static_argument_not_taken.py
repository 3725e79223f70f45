"""SL241."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import ClassVar

from shardlint.model.signatures import JITS, STATIC_SETTINGS, wrappings
from shardlint.rules_api.rule import Calls, Finding, Harm, Rule
from shardlint.rules_api.site import Site
from shardlint_rules.jit.parameters import given, lost
from shardlint_rules.jit.sharded import named


class StaticArgumentNotTaken(Rule):
    """`static_argnames` or `static_argnums` means no argument of the function.

    ## What it does
    Reports names in `static_argnames` that a function wrapped by `jax.jit` or `pjit` does not take, and positions in
    `static_argnums` that it does not have, also where the setting comes from a constant or through a
    `functools.partial`.

    ## Why it hurts
    Wrapping the function raises ValueError: for a decorator that is the import of its module. It is what is left when a
    parameter was renamed or taken away.

    ## Use instead
    The name that the parameter has now. Positions count what can be given by position: keyword-only arguments, those
    filled by `functools.partial`, and the self of a bound method do not count.

    ## Evidence
    Run on jax 0.4.38 to 0.12. Functions with `**kwargs` take any name, and those with `*args` any position. Recorded in
    QDax.
    """

    code = "SL241"
    name = "static-argument-not-taken"
    bound = True
    harm = Harm.CRASH
    releases: ClassVar[Mapping[str, str]] = {"jax": ">=0.4.38"}
    triggers = (Calls(*JITS, file_says=STATIC_SETTINGS),)
    in_version_checks = False
    fixes = "none"

    def check(self, site: Site) -> Iterator[Finding]:
        """One finding for a setting with which wrapping raises."""
        settings = [(name, site.keyword(name)) for name in STATIC_SETTINGS]
        if all(keyword is None for _, keyword in settings):
            return
        functions = list(wrappings(site.program, site.file, site.call, site.form))
        if not functions:
            return
        for name, keyword in settings:
            found = {
                lost(one, one.parameters, given(one, name, site.program.evaluator))
                if one.parameters is not None
                else None
                for one in functions
            }
            wrong = found.pop() if len(found) == 1 else None
            if keyword is not None and wrong is not None:
                yield site.finding(
                    keyword,
                    f"On {site.release('jax')} wrapping {named(functions[0])} raises ValueError.",
                    label=wrong[0],
                    help=wrong[1],
                )
