"""SL223."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from typing import ClassVar

from shardlint.facts.jit_settings import DONATE_SETTINGS, setting_names, setting_positions
from shardlint.facts.lifetime.donation import PMAP
from shardlint.model.shapes import shape_of
from shardlint.model.signatures import JITS, Jitted
from shardlint.model.values import Function, Place
from shardlint.rules_api.rule import Calls, Finding, Harm, Keywords, Rule, Violates, detector
from shardlint.rules_api.site import Site
from shardlint_rules.jit._donated_named import (
    WEIGHTS,
    NamedDonation,
    find_unupdated_donations,
    function_under_donating_decorator,
)
from shardlint_rules.jit.donations import donation_node
from shardlint_rules.jit.no_output import is_sliced_elementwise, reason_no_output_fits
from shardlint_rules.jit.results import count_results as counted
from shardlint_rules.jit.results import returned_expressions


class DonationNotUsed(Rule):
    """No output can reuse a donated buffer.

    XLA reuses a donated buffer only for an output of the same shape, type and sharding. Otherwise the donation frees no
    memory. On one device jax warns "Some donated buffers were not usable". On a mesh with Auto axes it often does not
    warn.

    ## Reports
    - proven: a donated argument, if the function returns only slices of it and a call passes it with a known shape.
    - proven: a call, if no donated argument has the shape of a result but another argument does.
    - `weights` (likely): donated weights or state that the function does not use, or whose shape differs from every
      result. Such results are sums, means, comparisons, slices or the output of a model.
    - `more-than-results` (likely): more donated arguments than results. `jax.tree.map(f, caches, slices)` returns one
      array for each cache, so no result is left for the slices.
    - `by-name` (likely): donated data, a donated random key or a donated learning rate, recognized by name, if the
      function does not return an update of it. Also if a decorator that the project defines takes `donate_argnums`.
    - `shape` (possible): any other donated argument, if its shape differs from every result. `shardlint verify` checks
      it in the compiled program.

    ## Write instead
    Donate an argument that has the shape of a result, as above. If there is none, donate nothing, and write `del x` in
    the caller after the last use of the array.

    ## Limits
    Not reported: unused arguments with `keep_unused=True`, and `eqx.filter_jit(donate="all")`.
    """

    code = "SL223"
    name = "donation-not-used"
    bound = True
    harm = Harm.COST
    likely = ("more-than-results", "by-name", "weights")
    assumptions: ClassVar[Mapping[str, str]] = {
        "more-than-results": "Each donated argument has at least one array.",
        "weights": "The argument has an array whose shape differs from every result.",
    }
    triggers = (
        Calls(*JITS, PMAP, file_says=DONATE_SETTINGS),
        Keywords("donate_argnums", file_says=(r"(?m)^\s*@.*donate_argnums", "partial(")),
        Violates("donation.unused"),
    )

    @detector("violation")
    def report_unused(self, site: Site) -> Finding:
        """A call whose donated arguments fit no result, although another argument does."""
        return site.report_violation(
            "Donating {donated} frees no memory: {meant} has the shape of a result, and is not donated.",
            help="donate the argument whose update the function returns",
            words=site.violation.quoted_details,
        )

    @detector("keyword", finds="by-name")
    def report_named_for_wrapper(self, site: Site) -> Finding | None:
        """Arguments that a decorator of the project donates, and of which no new ones are returned."""
        wrapped = function_under_donating_decorator(site)
        if wrapped is None:
            return None
        return _report_named(
            site, wrapped.keyword, find_unupdated_donations(site.file, wrapped.function, wrapped.donated)
        )

    @detector("call", "partial")
    def report_lost(self, site: Site) -> Finding | None:
        """Donated arguments that no result can reuse."""
        keyword, function = _find_donation(site)
        if keyword is None or function is None:
            return None
        donated = _donated_parameters(site, function)
        lost = [(name, why) for name in donated if (why := reason_no_output_fits(site, function, name))]
        if not lost:
            return None
        shown = ", ".join(f"`{name}`" for name, _ in lost)
        proven = all(_is_proven_slice(site, function, name) for name, _ in lost)
        weights = next((name for name, _ in lost if WEIGHTS.search(name)), None)
        return site.finding(
            keyword,
            f"Donating {shown} frees no memory: no result can reuse the buffer.",
            help="do not donate the argument. Write `del` after the last use in the caller.",
            form="" if proven else "weights" if weights is not None else "shape",
            why=f"{lost[0][1]}"
            + (f"; the name `{weights}` suggests that the caller uses it again" if weights and not proven else ""),
        )

    @detector("call", "partial", finds="more-than-results")
    def report_too_many(self, site: Site) -> Finding | None:
        """More donated arguments than there are results."""
        keyword, function = _find_donation(site)
        if keyword is None or function is None or not isinstance(function.inner, Function):
            return None
        donated = _donated_parameters(site, function)
        if len(donated) < 2 or "self" in donated:
            return None
        file, node = function.inner.place.file, function.inner.node
        returned = counted(site.program.evaluator, file, returned_expressions(file, node))
        rest = returned.donations_left_over(donated) if returned is not None else []
        if returned is None or not rest:
            return None
        others = ", ".join(f"`{name}`" for name in returned.like)
        shown = ", ".join(f"`{name}`" for name in rest)
        results = [others] if others else []
        results += [f"{returned.arrays} array{'s' if returned.arrays > 1 else ''}"] if returned.arrays else []
        return site.finding(
            donation_node(keyword, rest[-1], _position_of_parameter(function, rest[-1])),
            f"More buffers are donated than the results can reuse: {shown}.",
            help="donate at most one argument for each result of the same shape and dtype",
            why=f"{len(donated)} arguments are donated, and the function returns {' and '.join(results) or 'no array'}",
        )

    @detector("call", "partial", finds="by-name")
    def report_named(self, site: Site) -> Finding | None:
        """Donated arguments that are no state by their names, and of which no new one is returned."""
        keyword, function = _find_donation(site)
        inner = function.inner if function is not None else None
        if keyword is None or function is None or not isinstance(inner, Function):
            return None
        if not isinstance(inner.node, ast.FunctionDef):
            return None
        return _report_named(
            site, keyword, find_unupdated_donations(inner.place.file, inner.node, _donated_parameters(site, function))
        )


def _find_donation(site: Site) -> tuple[ast.keyword | None, Jitted | None]:
    """The keyword that donates, and the function that is wrapped, if it is one."""
    keyword = next((one for one in site.call.keywords if (one.arg or "").startswith("donate_arg")), None)
    if keyword is None:
        return None, None
    functions = site.find_wrapped(*JITS, PMAP)
    return keyword, functions[0] if len(functions) == 1 else None


def _report_named(site: Site, keyword: ast.keyword, arguments: list[NamedDonation]) -> Finding | None:
    if not arguments:
        return None
    shown = ", ".join(f"`{one.name}`" for one in arguments)
    return site.finding(
        keyword,
        f"Donating {shown} frees no memory: no result reuses the buffer.",
        label=" and ".join(dict.fromkeys(one.what for one in arguments)),
        help="donate arguments whose update the function returns: the parameters, the optimizer state",
        why=f"the function returns no new {shown}",
    )


def _is_proven_slice(site: Site, function: Jitted, name: str) -> bool:
    """True if a call passes an array of known shape and every result is a proper slice of it."""
    parameters = function.parameters
    if not isinstance(function.inner, Function) or parameters is None or site.form != "call":
        return False
    file, node = function.inner.place.file, function.inner.node
    results = returned_expressions(file, node)
    if not results or not all(
        isinstance(one, ast.Subscript) and is_sliced_elementwise(one, name) for one in results
    ):
        return False
    evaluator = site.program.evaluator
    for end in site.program.flow.calls(Place(site.file, site.call)).found:
        if end.kind != "called" or end.wrappers or not isinstance(end.place.node, ast.Call):
            continue
        arguments = evaluator.read_arguments(end.place)
        index = parameters.positional.index(name) if name in parameters.positional else None
        if index is None or arguments.open_positional or index >= len(arguments.positional):
            continue
        if (shape := shape_of(evaluator, arguments.positional[index])) and all(shape):
            return True
    return False


def _position_of_parameter(function: Jitted, name: str) -> int | None:
    positional = function.parameters.positional if function.parameters is not None else ()
    return positional.index(name) if name in positional else None


def _donated_parameters(site: Site, function: Jitted) -> list[str]:
    parameters, evaluator = function.parameters, site.program.evaluator
    by_position = setting_positions(function, "donate", evaluator)
    by_name = setting_names(function.setting_expression("donate_argnames"), function.settings, evaluator)
    if parameters is None or by_position is None or by_name is None:
        return []
    chosen = [
        parameters.positional[index] for index in sorted(by_position) if index < len(parameters.positional)
    ]
    return [*chosen, *(name for name in by_name if name in parameters.keyword_only)]
