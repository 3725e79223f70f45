"""SL651."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import ClassVar

from shardlint.rules_api.rule import Calls, Certainty, Finding, Harm, Rule
from shardlint.rules_api.site import Site
from shardlint_rules.einshard.calls import MAKE, SHARD, Written, shape, written
from shardlint_rules.einshard.expression import Element, Expression, Fault


class BadExpression(Rule):
    """An einshard expression has a syntax error, or does not fit its array.

    einshard raises when the line runs: `ValueError` for syntax, `KeyError` for a missing name, `AssertionError`
    without a message for most others.

    ## Reports
    - proven: syntax errors: digits or `*` left of the arrow, commas, parentheses, `y*4`, `y**`.
    - proven: an ellipsis on one side only, or two on one side; in `make_sharding`, an ellipsis without `n_dims`.
    - proven: a name on the left that the right side lacks, or that the left side repeats.
    - proven: a number of names other than the number of dimensions, or a count that does not divide its dimension.
    - proven: an expression without any count or star, which has no use for more than one device.
    - possible: three or more stars. Their sizes are a floating-point root, which is exact for 8 and 27 devices, not
      for 64.
    """

    code = "SL651"
    name = "einshard-expression"
    harm = Harm.CRASH
    releases: ClassVar[Mapping[str, str]] = {"einshard": ">=0.2"}
    triggers = (Calls(SHARD, MAKE),)
    forms = ("call",)

    def check(self, site: Site) -> Iterator[Finding]:
        """The first fault of a call's expression."""
        given = written(site)
        if given is None:
            return
        if isinstance(given.parsed, Fault):
            yield self._finding(site, given, given.parsed, "ValueError: it cannot be parsed")
            return
        found = (
            _ellipsis(site, given.parsed)
            or _names(site, given.parsed)
            or _sizes(site, given.parsed)
            or _counts(given.parsed)
        )
        if found is not None:
            yield self._finding(site, given, *found)
        elif given.parsed.stars >= 3:
            stars = [element for element in given.parsed.right if element.starred]
            last = stars[-1]
            fault = Fault(last.start, last.end, f"{len(stars)} stars share the remaining devices")
            text = f"AssertionError if the root {len(stars)} of the device count is inexact, such as for 64"
            yield self._finding(site, given, fault, text, Certainty.POSSIBLE)

    def _finding(
        self, site: Site, given: Written, fault: Fault, raised: str, certainty: Certainty | None = None
    ) -> Finding:
        label = fault.text
        if given.body is None:  # the place inside the string cannot be underlined: it is quoted
            label = f"in {given.text!r}, at {given.text[fault.start : fault.end]!r}: {label}"
        return site.finding(
            given.node,
            f"This einshard expression raises {raised}.",
            label=label,
            why=f"checked for {site.release('einshard')}",
            help="write names and spaces left of `->`, and each name with its count right of it, as in `x y -> x y*`",
            span=given.span(fault.start, fault.end),
            certainty=certainty,
        )


Found = tuple[Fault, str] | None


def _at(element: Element, text: str) -> Fault:
    return Fault(element.start, element.end, text)


def _whole(elements: tuple[Element, ...], text: str) -> Fault:
    return Fault(elements[0].start, elements[-1].end, text)


def _ellipsis(site: Site, given: Expression) -> Found:
    left = [element for element in given.left if element.ellipsis]
    right = [element for element in given.right if element.ellipsis]
    for side in (left, right):
        if len(side) > 1:
            return _at(side[1], "second `...` on one side"), "AssertionError, without a message"
    if left and not right:
        return _at(left[0], "no `...` on the right"), "AssertionError, without a message"
    if right and not left:
        return _at(right[0], "no `...` on the left"), "AssertionError, without a message"
    if left and site.api == MAKE and not site.arguments.may_have("n_dims", ()):
        return _at(left[0], "`...` needs n_dims="), "AssertionError, without a message"
    return None


def _names(site: Site, given: Expression) -> Found:
    seen = set()
    for element in given.left:
        if element.name is None:
            continue
        if given.taken(element.name) is None:
            return _at(element, "not on the right side"), f"KeyError: {element.name!r}"
        if element.name in seen:
            return _at(element, "repeats an earlier name"), _duplicate(site)
        seen.add(element.name)
    return None


def _duplicate(site: Site) -> str:
    return "DuplicateSpecError" if site.allows("jax", ">=0.9") else "ValueError: an axis is used twice"


def _sizes(site: Site, given: Expression) -> Found:
    dims = shape(site)
    if dims is None:
        return None
    if not given.elided and len(dims) != len(given.left):
        text = f"{len(given.left)} names for {len(dims)} dimensions"
        return _whole(given.left, text), "AssertionError, without a message"
    hidden = len(dims) - len(given.left) + 1
    if hidden < 0:
        return None  # what jax says to it depends on its release
    at = 0
    for element in given.left:
        if element.ellipsis:
            at += hidden
            continue
        size, taken = dims[at], given.taken(element.name or "")
        at += 1
        if size is not None and taken is not None and size % taken.count:
            fault = _at(taken, f"{element.name} has size {size}")
            return fault, f"an error: {taken.count} does not divide {size}"
    return None


def _counts(given: Expression) -> Found:
    if given.stars or given.fixed() > 1:
        return None
    text = "uses one device; add a star or a count"
    return _whole(given.right, text), "ValueError wherever there is more than one device"
