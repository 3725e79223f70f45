"""SL102."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from typing import ClassVar

from shardlint.facts.jit_settings import DONATE_SETTINGS, STATIC_SETTINGS
from shardlint.model.values import Constant, Items, Place, Value, options
from shardlint.rules_api.rule import Calls, Certainty, Finding, Fix, Harm, Rule, detector
from shardlint.rules_api.site import Site
from shardlint_rules.equinox.keyword_dicts import Entry, read_dict_entries
from shardlint_rules.equinox.wrapped_functions import (
    NotRewritten,
    describe_other_function,
    has_another_way,
    refusal_message,
)

_NAMES = (*DONATE_SETTINGS, *STATIC_SETTINGS)


class FilterJitJitKeyword(Rule):
    """`eqx.filter_jit` does not take the `jax.jit` keywords for static and donated arguments.

    Wrapping a function with them raises ValueError. `filter_jit` compiles an inner function with other parameters, so
    argument numbers would not match. It treats every argument that is not an array as static.

    ## Reports
    - proven: `eqx.filter_jit` with `donate_argnums`, `donate_argnames`, `static_argnums` or `static_argnames`: as a
      decorator, a call, through `functools.partial`, or in a `**` dict.
    - `sometimes` (likely): a `**` dict that gets the keyword only on one branch or from one caller. Also a variable
      that may also be another jit (`jit = eqx.filter_jit if filtered else jax.jit`).

    ## Write instead
    Write `donate="all"`, or `donate="all-except-first"` to keep the first argument. To keep several arguments, write
    `donate="all-except-first"` and pass these arguments as a tuple in the first position.

    ## Fix
    Safe if a value of `donate=` donates exactly the same arguments. Otherwise the fix writes a jitted function that
    takes the arguments to keep first, and a wrapper with the old name. Unsafe: the wrapper has no `lower`.

    The fix removes `static_argnums` and `static_argnames`. Safe if the static parameter has a type hint that is not an
    array, otherwise unsafe.

    No fix if the code uses `lower`, or if the argument names are known only at run time.
    """

    code = "SL102"
    name = "filter-jit-jit-keyword"
    harm = Harm.CRASH
    likely = ("sometimes",)
    assumptions: ClassVar[Mapping[str, str]] = {
        "sometimes": "The program runs the branch or call that passes the keyword to filter_jit."
    }
    releases: ClassVar[Mapping[str, str]] = {"equinox": ">=0.11.5"}
    triggers = (Calls("equinox.filter_jit"),)
    bound = True
    in_version_checks = False
    fixes = "both"

    @detector("call", "partial")
    def report_keyword(self, site: Site) -> Finding | None:
        """A filter_jit with a keyword of jit, however many it has."""
        places = {name: site.arguments.keywords[name] for name in _NAMES if name in site.arguments.keywords}
        node: ast.AST | None = next(
            (keyword for keyword in site.call.keywords if keyword.arg in places), None
        )
        sometimes: dict[str, Entry] = {}
        for keyword in site.call.keywords:
            entries = {} if keyword.arg else read_dict_entries(site, keyword.value, _NAMES)
            for name, entry in entries.items():
                places.setdefault(name, Place(site.file, keyword.value))
                if not entry.surely:
                    sometimes[name] = entry
            node = node or (keyword if entries else None)
        certainty = self._find_certainty(site, places)
        where = next(iter(sometimes.values())).place if sometimes and len(sometimes) == len(places) else None
        why = (
            f"{_describe_line(site, where)} puts {next(iter(sometimes))} into the dict"
            if where is not None
            else describe_other_function(site)
        )
        if node is None or certainty is None or (why and not site.wants("sometimes")):
            return None
        if has_another_way(site):
            return None
        fix, reason = self._write_fix(site)
        advice = (
            'write `donate="all"` or `donate="all-except-first"` to donate. '
            "Arguments that are not arrays are static already."
        )
        return site.finding(
            node,
            refusal_message(site, places),
            help=advice,
            fix=fix,
            kept=reason,
            certainty=certainty,
            form="sometimes" if why else "",
            why=why,
        )

    def _find_certainty(self, site: Site, places: Mapping[str, Place]) -> Certainty | None:
        """`donate_argnames` is not refused by name: with no name in it nothing happens."""
        if set(places) - {"donate_argnames"}:
            return Certainty.PROVEN
        if not places:
            return None
        found = options(site.program.evaluator.value(places["donate_argnames"]))
        if all(_names_nothing(value) for value in found):
            return None
        return (
            Certainty.PROVEN
            if all(isinstance(value, Constant | Items) for value in found)
            else Certainty.POSSIBLE
        )

    def _write_fix(self, site: Site) -> tuple[Fix | None, str]:
        from shardlint_rules.equinox._donate_mode import make_donate_fix

        try:
            return make_donate_fix(site), ""
        except NotRewritten as reason:
            return None, str(reason)


def _describe_line(site: Site, place: Place) -> str:
    return f"line {place.line}" if place.file is site.file else f"line {place.line} of {place.file.path.name}"


def _names_nothing(value: Value) -> bool:
    return value == Constant(None) or (isinstance(value, Items) and not value.items and not value.open)
