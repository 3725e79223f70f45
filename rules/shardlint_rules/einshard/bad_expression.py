"""SL651."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import ClassVar

from shardlint.rules_api.rule import Finding, Harm, Rule, Violates
from shardlint.rules_api.site import Site
from shardlint_rules.einshard.calls import find_text


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
    likely = ("conditional",)
    assumptions: ClassVar[Mapping[str, str]] = {"conditional": "The branch runs, and options keep their defaults."}
    triggers = (Violates("einshard.expression", "einshard.root"),)

    def check(self, site: Site) -> Iterator[Finding]:
        """The first fault of a call's expression."""
        said = site.violation.said
        node, body = find_text(site, site.syntax, said["text"])
        start, end = int(said["start"]), int(said["end"])
        label = said["label"]
        if body is None:  # the place inside the string cannot be underlined: it is quoted
            label = f"in {said['text']!r}, at {said['text'][start:end]!r}: {label}"
        yield site.report_violation(
            f"This einshard expression raises {said['raised']}.",
            label=label,
            why=f"checked for {site.release('einshard')}",
            help="write names and spaces left of `->`, and each name with its count right of it, as in `x y -> x y*`",
            at=node,
            span=None if body is None else (body + start, body + min(end, len(said["text"]))),
            form="root" if site.violation.kind == "einshard.root" else "",
        )
