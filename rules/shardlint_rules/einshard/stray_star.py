"""SL652."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import ClassVar

from shardlint.libraries.einshard import Element, Expression
from shardlint.rules_api.rule import Calls, Certainty, Edit, Finding, Fix, Harm, Rule, Safety, detector
from shardlint.rules_api.site import Site
from shardlint_rules.einshard.calls import MAKE, SHARD, WrittenExpression, written_call

_WHY = "the array is now sharded, and a size that the devices do not divide raises"


class StrayStar(Rule):
    """An einshard expression replicates a dimension that it appears to shard.

    einshard raises nothing. A count or star without a name copies the array to that many devices: `y *` is not `y*`. If
    a name occurs twice on the right side, einshard uses the last occurrence.

    ## Reports
    - proven: a separate star after a name, if the expression shards no dimension: `x y -> x y *`.
    - proven: a name that occurs twice on the right side, the first time with a count or star: `x y -> x* x y`.
    - possible: a separate star after a name, if another dimension is sharded.
    - possible: a name with a count or star that is missing on the left side.

    ## Write instead
    Write the star without a space: `x y -> x y*`. To replicate on purpose, put the star first: `... -> * ...`.

    ## Fix
    Removes the space or the repeated name. Unsafe: the array is now sharded, and a size that the device count does not
    divide raises.
    """

    code = "SL652"
    name = "einshard-stray-star"
    harm = Harm.SILENT
    releases: ClassVar[Mapping[str, str]] = {"einshard": ">=0.2"}
    triggers = (Calls(SHARD, MAKE),)
    fixes = "unsafe"

    @detector("call")
    def find_stars(self, site: Site) -> Iterator[Finding]:
        """The stars of an expression that do something else."""
        given = written_call(site)
        if given is None or not isinstance(given.parsed, Expression):
            return
        names = [element.name for element in given.parsed.left]
        if any(name is not None and given.parsed.right_element_of(name) is None for name in names):
            return  # it raises: SL651
        yield from self._stray_star_findings(site, given, given.parsed, names)

    def _stray_star_findings(
        self, site: Site, written_expression: WrittenExpression, parsed: Expression, names: list[str | None]
    ) -> Iterator[Finding]:
        split = any(element.name is not None and element.is_splitting for element in parsed.right)
        for index, element in enumerate(parsed.right):
            before = parsed.right[index - 1] if index else None
            alone = element.name is None and element.starred and element.count == 1
            named = before is not None and before.name is not None and not before.is_splitting
            if alone and named and before is not None:
                yield self._report_stray_star(site, written_expression, before, element, split)
                return
            if element.name is None or not element.is_splitting:
                continue
            if element.name not in names:
                yield self._make_finding(
                    site,
                    written_expression,
                    element,
                    "not on the left side",
                    f"The array is replicated, not sharded: `{element.name}` is not on the left of `->`.",
                    "write a name from the left of `->`",
                    certainty=Certainty.POSSIBLE,
                )
                return
            if parsed.right_element_of(element.name) is not element:
                yield self._report_second_star(site, written_expression, element, parsed.right_element_of(element.name))
                return

    def _report_stray_star(
        self, site: Site, written_expression: WrittenExpression, name: Element, star: Element, split: bool
    ) -> Finding:
        gap = written_expression.file_span(name.end, star.start)
        edits = [Edit(*gap, "")] if gap is not None else []
        where = "the remaining devices" if split else "all devices"
        return self._make_finding(
            site,
            written_expression,
            star,
            "a separate element",
            f"The array is replicated on {where}: the star does not shard `{name.name}`.",
            f"write `{name.name}*` without the space; to replicate on purpose, put the star first",
            fix=self._write_fix(site, edits, f"write {name.name}*"),
            certainty=Certainty.POSSIBLE if split else None,
        )

    def _report_second_star(
        self, site: Site, written_expression: WrittenExpression, lost: Element, element: Element | None
    ) -> Finding:
        edits = []
        if element is not None and not element.is_splitting:
            # The later one goes, with the space before it.
            gap = written_expression.file_span(element.start - 1, element.end)
            edits = [Edit(*gap, "")] if gap is not None else []
        return self._make_finding(
            site,
            written_expression,
            lost,
            "a later element has this name",
            f"This count or star does not shard `{lost.name}`: a later `{lost.name}` replaces it.",
            f"write `{lost.name}` once",
            fix=self._write_fix(site, edits, f"remove the second {lost.name}"),
        )

    def _write_fix(self, site: Site, edits: list[Edit], message: str) -> Fix | None:
        return site.fix(Safety.UNSAFE, message, edits, _WHY) if edits else None

    def _make_finding(
        self,
        site: Site,
        written_expression: WrittenExpression,
        element: Element,
        label: str,
        message: str,
        help: str,
        fix: Fix | None = None,
        certainty: Certainty | None = None,
    ) -> Finding:
        if written_expression.body is None:
            label = f"in {written_expression.text!r}: {label}"
        return site.finding(
            written_expression.node,
            message,
            label=label,
            why=f"checked for {site.release('einshard')}",
            help=help,
            fix=fix,
            span=written_expression.span_of_element(element),
            certainty=certainty,
        )
