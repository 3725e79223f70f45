"""SL651."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from shardlint.rules_api.rule import Finding, Harm, Rule, Violates, detector
from shardlint.rules_api.site import Site
from shardlint_rules.einshard.calls import find_text


class BadExpression(Rule):
    """An einshard expression has a syntax error, or does not match its array.

    einshard raises when the line runs: `ValueError` for bad syntax or a wrong number of devices, `KeyError` for a
    missing name, and `AssertionError` without a message for most other errors.

    ## Reports
    - proven: a syntax error: digits or `*` left of the arrow, commas, parentheses, `y*4`, `y**`.
    - proven: an ellipsis on only one side, or two ellipses on one side.
    - proven: an ellipsis in `make_sharding` without `n_dims`.
    - proven: a name on the left side that is missing on the right side, or that occurs twice on the left side.
    - proven: more or fewer names than the array has dimensions.
    - proven: a number of shards (the 2 of `embed2`) that does not divide the size of the dimension.
    - proven: an expression without a number and without `*`, on more than one device.
    - possible: three or more `*`. einshard computes the number of shards for each `*` as a floating-point root of the
      device count. The root is exact for 8 and 27 devices, but not for 64.
    """

    code = "SL651"
    name = "einshard-expression"
    harm = Harm.CRASH
    releases: ClassVar[Mapping[str, str]] = {"einshard": ">=0.2"}
    triggers = (Violates("einshard.expression", "einshard.root"),)

    @detector("violation", of="einshard.root", finds="root")
    def report_root(self, site: Site) -> Finding | None:
        """An expression whose roots may not be integers."""
        return self.report_expression(site)

    @detector("violation", of="einshard.expression")
    def report_expression(self, site: Site) -> Finding | None:
        """The first fault of a call's expression."""
        said = site.violation.said
        node, body = find_text(site, site.syntax, said["text"])
        start, end = int(said["start"]), int(said["end"])
        label = said["label"]
        if body is None:  # the place inside the string cannot be underlined: it is quoted
            label = f"in {said['text']!r}, at {said['text'][start:end]!r}: {label}"
        return site.report_violation(
            f"This einshard expression raises {said['raised']}.",
            label=label,
            why=f"checked for {site.release('einshard')}",
            help="write only names left of `->`, and each name once right of it, with a count or star to shard it: "
            "`x y -> x y*`",
            at=node,
            span=None if body is None else (body + start, body + min(end, len(said["text"]))),
        )
