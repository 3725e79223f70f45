"""SL101."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from typing import ClassVar

from shardlint.model.signatures import SHARDING_SETTINGS
from shardlint.model.values import Place
from shardlint.rules_api.rule import Calls, Certainty, Finding, Fix, Harm, Rule, detector
from shardlint.rules_api.site import Site
from shardlint.source.lazy import dataclass
from shardlint_rules.equinox._shardings_inside.before_0_13_1 import (
    Outcome,
    outcome_of_inputs,
    outcome_of_outputs,
)
from shardlint_rules.equinox.keyword_dicts import Entry, read_dict_entries
from shardlint_rules.equinox.wrapped_functions import (
    NotRewritten,
    describe_other_function,
    has_another_way,
    refusal_message,
)

_HARMS = (Harm.CRASH, Harm.SILENT, Harm.COST, Harm.REMOVED)


class FilterJitShardings(Rule):
    """`eqx.filter_jit` does not take `in_shardings` or `out_shardings`.

    From equinox 0.13.1, wrapping a function with them raises ValueError. Up to 0.13.0, `filter_jit` passes them to an
    inner jit with two arguments: the donated arrays and all other arrays. The effects:

    - `in_shardings=(a, b)` raises nothing. Without `donate` every array gets `b`, with `donate="all"` every array gets
      `a`. With `donate="all-except-first"` the first argument gets `b` and the others get `a`.
    - A single input sharding applies to every array, including weights.
    - `out_shardings` also applies to an internal scalar: a sharding that is not replicated raises ValueError.

    ## Reports
    - proven: `eqx.filter_jit` with `in_shardings` or `out_shardings`, even None: as a decorator, a call, through
      `functools.partial`, or in a `**` dict. Up to equinox 0.13.0 it is reported only if the effect differs from what
      is written.
    - `sometimes` (likely): a `**` dict that gets the keyword only on one branch or from one caller. Also a variable
      that may also be another jit (`jit = eqx.filter_jit if filtered else jax.jit`).
    - possible: on equinox up to 0.13.0, a keyword that may work as written, such as None or one sharding for all
      inputs.

    ## Write instead
    Call `eqx.filter_shard` in the body. It constrains the arrays of a tree and skips other leaves. It does not move
    arguments before the call. Place large arguments first: `jax.device_put(xs, by_row)`.

    ## Fix
    Unsafe: the arrays are now sharded, so memory and communication change. Removing a keyword that is None is safe.

    - The fix writes constraints into the body of the function or lambda. If the fix cannot edit the body, it writes a
      `def` around the function. Examples: `filter_value_and_grad(loss)`, `self._step`, a function of another file, a
      parameter, a function with other callers. The fix passes values that may contain arrays to the `def` through
      `eqx.Partial`. These values stay arguments.
    - The fix assigns a sharding to a variable above the function if the sharding is a call, an attribute that may
      change before tracing, or a name that the body uses for something else. A name from the class body becomes
      `Class.name`.
    - If the shardings are in a dict that is filled elsewhere, the fix removes them in a statement above the call:
      `kwargs.pop("in_shardings", None)`. If a sharding may be None, the fix tests for None. If a tree of shardings
      contains None, the fix applies the tree with `jax.tree.map`.

    No fix:

    - for a `filter_jit` in the body of a class
    - for a `filter_jit` above a decorator that may change arguments or results
    - if the shardings of a decorated function change in a loop
    - if the number of entries differs from the number of arguments
    - for meshes with Explicit axes. If the axes are Explicit only by default, the fix makes them Auto (SL307).
    """

    code = "SL101"
    name = "filter-jit-shardings"
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
        """A filter_jit with shardings, however many it has."""
        given = _find_given_shardings(site)
        if given is None or has_another_way(site):
            return None
        where = given.describe_condition(site)
        why = (
            f"{where} puts {next(iter(given.sometimes))} into the dict"
            if where
            else describe_other_function(site)
        )
        if why and not site.wants("sometimes"):
            return None
        outcome = self._find_outcome(site, given)
        fix, reason = self._write_fix(site)
        keywords = " and ".join(f"`{one}`" for one in given.places)
        advice = f"remove {keywords}, and call `eqx.filter_shard` in the body of the function"
        return site.finding(
            given.node,
            outcome.message,
            help=advice,
            fix=fix,
            kept=reason,
            harm=outcome.harm,
            certainty=outcome.certainty,
            form="sometimes" if why else "",
            why="; ".join(filter(None, (why, outcome.why))),
        )

    def _find_outcome(self, site: Site, sharding_keywords: _ShardingKeywords) -> Outcome:
        on, later = f"On {site.release('equinox')}", "from equinox 0.13.1 wrapping raises ValueError"
        if site.allows("equinox", ">=0.13.1"):
            return Outcome(refusal_message(site, sharding_keywords.places), Harm.CRASH)
        if any(
            place.node is one.value
            for place in sharding_keywords.places.values()
            for one in site.call.keywords
            if not one.arg
        ):
            names = " and ".join(f"`{name}`" for name in sharding_keywords.places)
            message = f"{on} `filter_jit` may apply {names} to the wrong arrays: its inner jit has different arguments."
            return Outcome(message, Harm.SILENT, Certainty.POSSIBLE, later)
        found = {
            name: (outcome_of_inputs if name == "in_shardings" else outcome_of_outputs)(site, place)
            for name, place in sharding_keywords.places.items()
        }
        proven = [name for name, one in found.items() if one.certainty is Certainty.PROVEN] or list(found)
        first = min(proven, key=lambda name: _HARMS.index(found[name].harm))
        worst = found[first]
        others = [one.format_message(name) for name, one in found.items() if name != first]
        why = "; ".join(filter(None, (worst.why, *others, later)))
        return Outcome(f"{on} {worst.format_message(first)}.", worst.harm, worst.certainty, why)

    def _write_fix(self, site: Site) -> tuple[Fix | None, str]:
        from shardlint_rules.equinox._shardings_inside.shardings_into_body import make_body_fix

        try:
            return make_body_fix(site), ""
        except NotRewritten as reason:
            return None, str(reason)


@dataclass(frozen=True)
class _ShardingKeywords:
    """The keywords of a call that are shardings; `node` is the first."""

    node: ast.AST
    places: dict[str, Place]
    sometimes: dict[str, Entry]
    """Those that a dict has on some ways only."""

    def describe_condition(self, site: Site) -> str:
        """Where a dict gets them on some ways, in words; empty where one is surely given."""
        if len(self.sometimes) < len(self.places):
            return ""
        place = next(iter(self.sometimes.values())).place
        same = place.file is site.file
        return f"line {place.line}" if same else f"line {place.line} of {place.file.path.name}"


def _find_given_shardings(site: Site) -> _ShardingKeywords | None:
    places = {
        name: site.arguments.keywords[name] for name in SHARDING_SETTINGS if name in site.arguments.keywords
    }
    node: ast.AST | None = next((keyword for keyword in site.call.keywords if keyword.arg in places), None)
    sometimes: dict[str, Entry] = {}
    for keyword in site.call.keywords:
        if keyword.arg is None:
            entries = read_dict_entries(site, keyword.value, SHARDING_SETTINGS)
            for name, entry in entries.items():
                places.setdefault(name, Place(site.file, keyword.value))
                if not entry.surely:
                    sometimes[name] = entry
            node = node or (keyword if entries else None)
    return _ShardingKeywords(node, places, sometimes) if node is not None else None
