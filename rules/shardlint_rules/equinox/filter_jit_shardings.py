"""SL101."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from typing import ClassVar

from shardlint.model.signatures import SHARDING_SETTINGS
from shardlint.model.values import Place
from shardlint.rules_api.rule import Calls, Certainty, Finding, Fix, Harm, Rule
from shardlint.rules_api.site import Site
from shardlint.source.lazy import dataclass
from shardlint_rules.equinox._shardings_inside.before_0_13_1 import (
    Outcome,
    outcome_of_inputs,
    outcome_of_outputs,
)
from shardlint_rules.equinox.filled import Entry, filled
from shardlint_rules.equinox.wrapped import NotRewritten, besides

_HARMS = (Harm.CRASH, Harm.SILENT, Harm.COST, Harm.REMOVED)


class FilterJitShardings(Rule):
    """`eqx.filter_jit` takes no `in_shardings` and no `out_shardings`.

    ## What it does
    Reports `in_shardings` and `out_shardings` given to `eqx.filter_jit`: as a decorator, a call, or through
    `functools.partial`, with any value, also None; also in a dict given as `**`, as it is made or with what is put into
    it later. Where that is done on some ways only (under an `if`, by a caller), and where what is called may also be
    another jit (`jit = eqx.filter_jit if filtered else jax.jit`), the finding is likely. For releases
    up to 0.13.0 only what surely does something else than it says is reported by default; what may do as it says
    needs `--certainty possible`.

    ## Why it hurts
    From equinox 0.13.1 wrapping a function so raises ValueError. Up to 0.13.0 a pair of input shardings
    raises nothing and lands elsewhere: filter_jit hands it to a jit of its own, whose two arguments are
    what is donated and what is not. Without `donate` every array gets the second sharding; with
    `donate="all"` or `"warn"` every array gets the first; with `"all-except-first"` or
    `"warn-except-first"` they are swapped. A single sharding falls on every array, weights too.
    `out_shardings` also falls on an internal scalar, so that anything but a replicated sharding raises.

    ## Use instead
    `eqx.filter_shard` shards the arrays of a tree and leaves the rest alone. The constraint does not move the
    arguments before the call: place large ones on the mesh first.

    ## Fix safety
    Unsafe: the constraints take effect, so the compiled program changes its memory and communication.
    Dropping keywords that are None is safe. A lambda is constrained in place; around what has no body there that
    could be written into (`filter_value_and_grad(loss)`, `self._step`, a function of another file, of a parameter
    or with other callers, a decorator that a function returns) goes a `def`. What may hold arrays is handed to it by
    `eqx.Partial`, so that they stay arguments of the program. What is not known in the body gets a name above the
    function: a name that means something else there, a call, an entry of a table or an attribute that may change before
    the function is traced; what differs for each element of a comprehension is handed
    over, too; a name of the class body is written with the class. Out of a dict that is filled elsewhere the shardings
    are taken above the call (`kwargs.pop("in_shardings", None)`), and what may be None is applied where it is not. A
    tree of shardings that holds None is applied part by part, with `jax.tree.map`. There is no fix in the body of a
    class, above a decorator that may change arguments or results, for a decorated function whose shardings change in a
    loop, where the entries are not as many as the arguments, and for meshes with Explicit axes; one that has these only
    because nothing was said becomes Auto with it (SL307). The finding says which.

    ## Evidence
    Run on equinox 0.11.5, 0.11.11, 0.12.2 and 0.13.0 (all
    alike), 0.13.1 and 0.13.8, with jax 0.4.38 to 0.12. See also equinox issue 1077.
    """

    code = "SL101"
    name = "filter-jit-shardings"
    harm = Harm.CRASH
    likely = ("sometimes",)
    releases: ClassVar[Mapping[str, str]] = {"equinox": ">=0.11.5"}
    triggers = (Calls("equinox.filter_jit"),)
    bound = True
    in_version_checks = False
    fixes = "both"

    def check(self, site: Site) -> Iterator[Finding]:
        """One finding for a call, however many of the keywords it has."""
        given = _given(site)
        if given is None:
            return
        where = given.where(site)
        why = f"{where} puts {next(iter(given.sometimes))} into the dict" if where else besides(site)
        if why and not site.wants("sometimes"):
            return
        outcome = self._outcome(site, given)
        fix, reason = self._fix(site)
        advice = "constrain inside the function with eqx.filter_shard"
        yield site.finding(
            given.node,
            outcome.message,
            label=f"`filter_jit` takes no {' and no '.join(given.names)}",
            help=f"{advice}; not rewritten: {reason}" if reason else advice,
            fix=fix,
            harm=outcome.harm,
            certainty=Certainty.POSSIBLE if why else outcome.certainty,
            form="sometimes" if why else "",
            why=why,
        )

    def _outcome(self, site: Site, given: _Given) -> Outcome:
        release = f"On {site.release('equinox')} "
        if site.allows("equinox", ">=0.13.1"):
            when = "this raises ValueError"
            if site.decorated is not None:
                when = f"wrapping `{site.decorated.name}` raises ValueError"
            elif site.argument("fun") is None:
                when = "this raises ValueError as soon as it wraps a function"
            return Outcome(f"{release}{when}.", Harm.CRASH)
        if any(
            place.node is one.value
            for place in given.places.values()
            for one in site.call.keywords
            if not one.arg
        ):
            said = (
                "filter_jit hands it to a jit of its own, whose arguments are what is donated and what is not"
            )
            return Outcome(
                f"{release}{said}. From 0.13.1 wrapping raises ValueError.", Harm.SILENT, Certainty.POSSIBLE
            )
        found = [
            (name, (outcome_of_inputs if name == "in_shardings" else outcome_of_outputs)(site, place))
            for name, place in given.places.items()
        ]
        outcomes = [outcome for _, outcome in found]
        proven = [outcome for outcome in outcomes if outcome.certainty is Certainty.PROVEN] or outcomes
        text = "; ".join(f"{name} {outcome.message}" for name, outcome in found)
        harm = min((outcome.harm for outcome in proven), key=_HARMS.index)
        return Outcome(f"{release}{text}. From 0.13.1 wrapping raises ValueError.", harm, proven[0].certainty)

    def _fix(self, site: Site) -> tuple[Fix | None, str]:
        from shardlint_rules.equinox._shardings_inside.shardings_into_body import rewrite

        try:
            return rewrite(site), ""
        except NotRewritten as reason:
            return None, str(reason)


@dataclass(frozen=True)
class _Given:
    """The keywords of a call that are shardings; `node` is the first."""

    node: ast.AST
    places: dict[str, Place]
    sometimes: dict[str, Entry]
    """Those that a dict has on some ways only."""

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self.places)

    def where(self, site: Site) -> str:
        """Where a dict gets them on some ways, in words; empty where one is surely given."""
        if len(self.sometimes) < len(self.places):
            return ""
        place = next(iter(self.sometimes.values())).place
        same = place.file is site.file
        return f"line {place.line}" if same else f"line {place.line} of {place.file.path.name}"


def _given(site: Site) -> _Given | None:
    places = {
        name: site.arguments.keywords[name] for name in SHARDING_SETTINGS if name in site.arguments.keywords
    }
    node: ast.AST | None = next((keyword for keyword in site.call.keywords if keyword.arg in places), None)
    sometimes: dict[str, Entry] = {}
    for keyword in site.call.keywords:
        if keyword.arg is None:
            entries = filled(site, keyword.value, SHARDING_SETTINGS)
            for name, entry in entries.items():
                places.setdefault(name, Place(site.file, keyword.value))
                if not entry.surely:
                    sometimes[name] = entry
            node = node or (keyword if entries else None)
    return _Given(node, places, sometimes) if node is not None else None
