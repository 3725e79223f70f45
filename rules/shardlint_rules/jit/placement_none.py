"""SL226."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from shardlint.model.mesh.shardings import PLACING
from shardlint.model.values import Place
from shardlint.rules_api.rule import Calls, Certainty, Finding, Harm, Rule
from shardlint.rules_api.site import Site
from shardlint_rules.jit.how_many import one_of_it, settled_expression


class PlacementNone(Rule):
    """With one device an array is placed, and with several it is not.

    ## What it does
    Reports `device_put(x, sharding if one_device else None)`, where the condition asks for the number of devices or
    processes, also under a name, in a property or behind `not`: with several the target is None.

    ## Why it hurts
    `device_put(x, None)` leaves an array where it is, and puts one of numpy on the default device alone. The sharding
    is used where it changes nothing, and not where it was meant. Mostly the condition is the wrong way round, or the
    other branch was never written.

    ## Evidence
    The proof shows the array on one of eight devices. A target that is None with one device is left alone, and so are
    conditions that ask for something else: `sharding if sharding is not None else None`.
    """

    code = "SL226"
    name = "placement-none"
    harm = Harm.SILENT
    triggers = (Calls(*PLACING, file_says=("else None", "None if", "= None")),)
    forms = ("call",)
    fixes = "none"

    def check(self, site: Site) -> Iterator[Finding]:
        """One finding for a target."""
        target = site.argument(PLACING[site.api])
        if target is None:
            return
        chosen = settled_expression(site.file, target)
        if not isinstance(chosen, ast.IfExp):
            return
        none_when = _none_when(chosen)
        if none_when is None:
            return
        alone = one_of_it(site.program, Place(site.file, chosen.test))
        if alone is None or alone.truth is none_when:
            return
        certainty = Certainty.PROVEN if alone.proven else Certainty.POSSIBLE
        yield site.finding(
            chosen,
            f"None with several {alone.what}",
            f"{self._when(site, chosen, none_when)} this leaves the array where it is, one of numpy on the default "
            "device alone.",
            help="give the sharding where there are several; with one it changes nothing",
            certainty=certainty,
            form="" if alone.proven else "by-name",
            why="" if alone.proven else f"`{site.text(chosen.test)}` asks for one of several by its name",
        )

    def _when(self, site: Site, chosen: ast.IfExp, none_when: bool) -> str:
        test = site.shown(chosen.test)
        return f"Where `{test}` is {none_when}"


def _none_when(chosen: ast.IfExp) -> bool | None:
    """Whether the target is None where the condition is true, or false; None where both or neither is."""
    body = isinstance(chosen.body, ast.Constant) and chosen.body.value is None
    orelse = isinstance(chosen.orelse, ast.Constant) and chosen.orelse.value is None
    return body if body is not orelse else None
