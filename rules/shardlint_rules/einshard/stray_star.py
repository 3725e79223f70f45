"""SL652."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import ClassVar

from shardlint.rules_api.rule import Calls, Certainty, Edit, Finding, Fix, Harm, Rule, Safety
from shardlint.rules_api.site import Site
from shardlint_rules.einshard.calls import MAKE, SHARD, Written, written
from shardlint_rules.einshard.expression import Element, Expression

_WHY = "the array gets another sharding, which must divide it"


class StrayStar(Rule):
    """An einshard expression replicates where it was meant to split.

    ## What it does
    Reports, in the expression of `einshard` and `make_sharding`:

    - a star on its own behind a name, in an expression that splits no dimension: `x y -> x y *`;
    - a name that stands twice on the right, the earlier time with a count or star: `x y -> x* x y`.

    With `--certainty possible` also a star on its own behind a name where something else is split, and a name with
    a count or star that the left side does not have.

    ## Why it hurts
    An element without a name copies the array to so many devices. `y *` is not `y*`: every device gets the whole
    array. Of a name that stands twice the last one counts, and the devices of the others hold copies. Nothing is
    raised.

    ## Use instead
    To replicate an array on purpose put the star in front, as einshard's own examples do: `... -> * ...`.

    ## Fix safety
    Unsafe: the array is split over devices from then on, and where they do not divide it, an error is raised.

    ## Evidence
    Run with einshard 0.2.0 on jax 0.4.38 and 0.12.
    """

    code = "SL652"
    name = "einshard-stray-star"
    harm = Harm.SILENT
    releases: ClassVar[Mapping[str, str]] = {"einshard": ">=0.2"}
    triggers = (Calls(SHARD, MAKE),)
    forms = ("call",)
    fixes = "unsafe"

    def check(self, site: Site) -> Iterator[Finding]:
        """At most one finding for a call."""
        given = written(site)
        if given is None or not isinstance(given.parsed, Expression):
            return
        names = [element.name for element in given.parsed.left]
        if any(name is not None and given.parsed.taken(name) is None for name in names):
            return  # it raises: SL651
        yield from self._found(site, given, given.parsed, names)

    def _found(
        self, site: Site, given: Written, parsed: Expression, names: list[str | None]
    ) -> Iterator[Finding]:
        split = any(element.name is not None and element.splits for element in parsed.right)
        for index, element in enumerate(parsed.right):
            before = parsed.right[index - 1] if index else None
            alone = element.name is None and element.starred and element.count == 1
            named = before is not None and before.name is not None and not before.splits
            if alone and named and before is not None:
                yield self._stray(site, given, before, element, split)
                return
            if element.name is None or not element.splits:
                continue
            if element.name not in names:
                yield self._finding(
                    site,
                    given,
                    element,
                    "no dimension has this name",
                    "the array is copied to these devices",
                    "name a dimension of the left side",
                    certainty=Certainty.POSSIBLE,
                )
                return
            if parsed.taken(element.name) is not element:
                yield self._twice(site, given, element, parsed.taken(element.name))
                return

    def _stray(self, site: Site, given: Written, name: Element, star: Element, split: bool) -> Finding:
        gap = given.span(name.end, star.start)
        edits = [Edit(*gap, "")] if gap is not None else []
        what = "is copied to the devices that are left" if split else "lies whole on every device"
        return self._finding(
            site,
            given,
            star,
            f"a star on its own; {name.name} is not split by it",
            f"the array {what}",
            f"write {name.name}* without the space, or put the star in front to replicate",
            fix=self._fix(site, edits, f"write {name.name}*"),
            certainty=Certainty.POSSIBLE if split else None,
        )

    def _twice(self, site: Site, given: Written, lost: Element, kept: Element | None) -> Finding:
        edits = []
        if kept is not None and not kept.splits:
            # The later one goes, with the space before it.
            gap = given.span(kept.start - 1, kept.end)
            edits = [Edit(*gap, "")] if gap is not None else []
        return self._finding(
            site,
            given,
            lost,
            f"{lost.name} stands again behind it, and that one counts",
            f"the devices taken here hold copies, and {lost.name} is not split over them",
            f"write {lost.name} once",
            fix=self._fix(site, edits, f"leave the second {lost.name} out"),
        )

    def _fix(self, site: Site, edits: list[Edit], message: str) -> Fix | None:
        return site.fix(Safety.UNSAFE, message, edits, _WHY) if edits else None

    def _finding(
        self,
        site: Site,
        given: Written,
        element: Element,
        label: str,
        what: str,
        help: str,
        fix: Fix | None = None,
        certainty: Certainty | None = None,
    ) -> Finding:
        if given.body is None:
            label = f"in {given.text!r}: {label}"
        return site.finding(
            given.node,
            f"On {site.release('einshard')} {what}.",
            label=label,
            help=help,
            fix=fix,
            span=given.of(element),
            certainty=certainty,
        )
