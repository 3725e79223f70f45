"""SL102."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from typing import ClassVar

from shardlint.model.signatures import DONATE_SETTINGS, STATIC_SETTINGS
from shardlint.model.values import Constant, Items, Place, Value, options
from shardlint.rules_api.rule import Calls, Certainty, Finding, Fix, Harm, Rule
from shardlint.rules_api.site import Site
from shardlint_rules.equinox.filled import Entry, filled
from shardlint_rules.equinox.wrapped import NotRewritten, besides

_NAMES = (*DONATE_SETTINGS, *STATIC_SETTINGS)


class FilterJitJitKeyword(Rule):
    """`eqx.filter_jit` takes none of `jax.jit`'s keywords for static and donated arguments.

    ## What it does
    Reports `donate_argnums`, `donate_argnames`, `static_argnums` and `static_argnames` given to
    `eqx.filter_jit`: as a decorator, a call, or through `functools.partial`; also in a dict given as `**`. Where that
    is put into the dict on some ways only (under an `if`, by a caller), and where what is called may also be another
    jit, the finding is likely.

    ## Why it hurts
    Wrapping a function so raises ValueError. filter_jit finds out by itself what is static, which is all
    that is not an array, and the numbers would count the arguments of its own inner function.

    ## Use instead
    `donate="all-except-first"` keeps the first argument. Other choices are made by packing what is to be
    kept into the first argument, as a tuple.

    ## Fix safety
    Safe where `donate=` donates exactly the arguments that were asked for. Dropping `static_argnums` or
    `static_argnames` is safe where the annotation of the parameter says that it is not an array, and
    unsafe elsewhere: an array would be traced. Where neither "all" nor "all-except-first" means the same, the
    jitted function takes what is kept as a first argument, and one around it by the old name calls it; unsafe, as that
    is no jit with a `lower` of its own. Arguments of `*args` are counted by the calls, where all are seen. By numbers
    that only the run tells (of a parameter, or in a dict that is filled elsewhere) the arguments are parted when it is
    called; what is given by keyword is kept then. A name for `partial(filter_jit, donate_argnums=0)` becomes a function
    that does so, where all that is done with the name is to wrap a function. What is called static and may hold arrays
    is not donated, as `self` of a Module. No fix where `lower` is used, and where names that only the run tells say
    which arguments are meant.

    ## Evidence
    Equinox 0.11.5, 0.11.11, 0.12.2, 0.13.0, 0.13.1 and 0.13.8 refuse the first
    three by name, with any value; `donate_argnames` fails in jax, which does not find the name. What is
    donated by `"all"` and `"all-except-first"` was checked on the same releases.
    """

    code = "SL102"
    name = "filter-jit-jit-keyword"
    harm = Harm.CRASH
    likely = ("sometimes",)
    releases: ClassVar[Mapping[str, str]] = {"equinox": ">=0.11.5"}
    triggers = (Calls("equinox.filter_jit"),)
    bound = True
    in_version_checks = False
    fixes = "both"

    def check(self, site: Site) -> Iterator[Finding]:
        """One finding for a call, however many of the keywords it has."""
        places = {name: site.arguments.keywords[name] for name in _NAMES if name in site.arguments.keywords}
        node: ast.AST | None = next(
            (keyword for keyword in site.call.keywords if keyword.arg in places), None
        )
        sometimes: dict[str, Entry] = {}
        for keyword in site.call.keywords:
            entries = {} if keyword.arg else filled(site, keyword.value, _NAMES)
            for name, entry in entries.items():
                places.setdefault(name, Place(site.file, keyword.value))
                if not entry.surely:
                    sometimes[name] = entry
            node = node or (keyword if entries else None)
        certainty = self._certainty(site, places)
        where = next(iter(sometimes.values())).place if sometimes and len(sometimes) == len(places) else None
        why = (
            f"{_line(site, where)} puts {next(iter(sometimes))} into the dict"
            if where is not None
            else besides(site)
        )
        if node is None or certainty is None or (why and not site.wants("sometimes")):
            return
        fix, reason = self._fix(site)
        advice = 'donate with donate="all" or "all-except-first"; what is not an array is static by itself'
        when = "this raises ValueError"
        if site.decorated is not None:
            when = f"wrapping `{site.decorated.name}` raises ValueError"
        elif site.argument("fun") is None:
            when = "this raises ValueError as soon as it wraps a function"
        yield site.finding(
            node,
            f"On {site.release('equinox')} {when}.",
            label=f"`filter_jit` takes no {' and no '.join(places)}",
            help=f"{advice}; not rewritten: {reason}" if reason else advice,
            fix=fix,
            certainty=Certainty.POSSIBLE if why else certainty,
            form="sometimes" if why else "",
            why=why,
        )

    def _certainty(self, site: Site, places: Mapping[str, Place]) -> Certainty | None:
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

    def _fix(self, site: Site) -> tuple[Fix | None, str]:
        from shardlint_rules.equinox._donate_mode import rewrite

        try:
            return rewrite(site), ""
        except NotRewritten as reason:
            return None, str(reason)


def _line(site: Site, place: Place) -> str:
    return f"line {place.line}" if place.file is site.file else f"line {place.line} of {place.file.path.name}"


def _names_nothing(value: Value) -> bool:
    return value == Constant(None) or (isinstance(value, Items) and not value.items and not value.open)
