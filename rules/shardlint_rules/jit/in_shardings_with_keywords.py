"""SL211."""

from __future__ import annotations

from collections.abc import Iterator

from shardlint.model.signatures import JITS
from shardlint.rules_api.rule import Calls, Certainty, Finding, Harm, Rule, detector
from shardlint.rules_api.site import Site
from shardlint_rules.jit.in_shardings_entries import (
    calls_of_wrapped,
    keyword_value,
    make_positional_fix,
    may_be_none,
)


class InShardingsWithKeywords(Rule):
    """A function with `in_shardings` is called with keyword arguments.

    The call raises ValueError for any keyword argument, even a static one: "pjit does not support kwargs when
    in_shardings is specified". jax matches `in_shardings` only with positional arguments.

    ## Reports
    - proven: a call with a keyword argument of a function that `jax.jit` or `pjit` wraps with `in_shardings`. A call in
      another file is reported at the `jax.jit`.
    - possible: a call with a keyword argument, if `in_shardings` may be None.

    ## Fix
    Passes the arguments by position, if the definition is known and no parameter is skipped. Unsafe: the call then
    depends on the order of the parameters.

    ## Limits
    `in_shardings=None` allows keywords. `in_shardings=(None, None)` does not. Calls with `**kwargs` are not reported:
    `kwargs` may be empty.
    """

    code = "SL211"
    name = "in-shardings-with-keywords"
    bound = True
    harm = Harm.CRASH
    triggers = (Calls(*JITS, file_says=("in_shardings",)),)
    in_version_checks = False
    fixes = "unsafe"

    @detector("call", "partial")
    def find_calls(self, site: Site) -> Iterator[Finding]:
        """The calls with keywords of a function with in_shardings."""
        keyword = site.keyword("in_shardings")
        if keyword is None:
            return
        for seen in calls_of_wrapped(site):
            given = [one for one in seen.call.keywords if one.arg is not None]
            value = keyword_value(site, seen.function, "in_shardings")
            nothing = may_be_none(value) if value is not None else True
            if not given or nothing:
                continue
            here = seen.file is site.file
            names = ", ".join(f"`{one.arg}`" for one in given)
            why = f"in_shardings is at line {keyword.value.lineno}"
            if not here:
                why = f"the call is at {seen.file.path.name}:{seen.call.lineno}"
            yield site.finding(
                given[0] if here else site.call.func,
                f"The call raises ValueError for the keyword {names}: in_shardings covers only positional arguments.",
                why=why,
                help=f"pass {names} by position",
                fix=make_positional_fix(site, seen, given, "the call then depends on the order of the parameters")
                if here and nothing is False
                else None,
                certainty=Certainty.PROVEN if nothing is False else Certainty.POSSIBLE,
            )
