"""SL222."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from typing import ClassVar

from shardlint.facts.jit_settings import DONATE_SETTINGS, argnum_positions, setting_names, setting_positions
from shardlint.facts.lifetime.donation import PMAP
from shardlint.facts.repeated import is_test
from shardlint.model.signatures import JITS, Jitted, Parameters
from shardlint.model.values import Place
from shardlint.rules_api.rule import Calls, Finding, Fix, Harm, Rule, Safety, detector
from shardlint.rules_api.site import Site
from shardlint.syntax.bindings import lookup_bindings, reaching_bindings
from shardlint.syntax.nodes import walk_nodes
from shardlint_rules.jit._donated_shifted import find_shifted_position
from shardlint_rules.jit.in_shardings_entries import (
    SeenCall,
    calls_of_wrapped,
    describe_function,
    make_positional_fix,
)
from shardlint_rules.jit.parameters import explain_lost_entries, given_entries


class DonateIndex(Rule):
    """`donate_argnums` or `donate_argnames` names a static argument, or an argument that the function does not have.

    Wrapping the function raises ValueError. Positions count positional arguments, including static arguments. Positions
    do not count keyword-only arguments, arguments bound by `functools.partial`, or the `self` of a bound method.

    Two mistakes raise nothing and donate nothing, so the old state stays in memory:

    - a negative position, for `pmap` and, before jax 0.12, for `jax.jit`
    - a donated argument that a call of a pmapped function passes by keyword. `jax.jit` donates such an argument.

    ## Reports
    - proven: a position in `donate_argnums`, or a name in `donate_argnames`, that the function of a `jax.jit` or `pjit`
      does not have.
    - proven: an argument that is both donated and static, for `jax.jit`, `pjit` and `pmap`.
    - proven: a negative position for `pmap`, and before jax 0.12 for `jax.jit` and `pjit` too.
    - proven: a call of a pmapped function that passes a donated argument by keyword.
    - `read-after-call` (possible): such a call, if the code below reads the array again, so that its memory is needed.
    - `counts-bound-arguments` (likely): a position that wrongly counts arguments bound by `functools.partial` or a
      method. Reported if the calls in the project assign their result to another argument than the donated one.

    ## Fix
    Safe: the fix removes static arguments from the donated arguments. Unsafe: the fix counts a negative position from
    the front, or passes a keyword argument by position. The argument is then donated. Other wrong positions and names
    have no fix.

    ## Limits
    Not reported: any position for a function with `*args`, and any name for a function with `**kwargs`. Also not
    reported: a position that a pmapped function does not have, because `pmap` raises nothing for it, and keyword
    arguments in tests.
    """

    code = "SL222"
    name = "donate-index"
    bound = True
    harm = Harm.CRASH
    releases: ClassVar[Mapping[str, str]] = {"jax": ">=0.4.30"}
    triggers = (Calls(*JITS, PMAP, file_says=DONATE_SETTINGS),)
    in_version_checks = False
    fixes = "both"
    likely = ("counts-bound-arguments",)
    assumptions: ClassVar[Mapping[str, str]] = {
        "counts-bound-arguments": "You want to donate the argument that the call reassigns."
    }

    @detector("call", "partial")
    def find_keywords(self, site: Site) -> Iterator[Finding]:
        """The donations with which wrapping raises, or the wrong arguments are donated."""
        functions = site.find_wrapped(*JITS, PMAP)
        for name in DONATE_SETTINGS:
            keyword = site.keyword(name)
            if keyword is None or not functions:
                continue
            found = {_find_wrong_donation(site, function, name) for function in functions}
            if found == {None}:
                yield from _report_negative_positions(site, keyword, functions)
                yield from _report_keyword_arguments(site, functions)
            elif len(found) == 1 and (wrong := found.pop()) is not None:
                problem, advice, static = wrong
                yield site.finding(
                    keyword,
                    f"Wrapping {describe_function(functions[0])} raises ValueError: {problem}.",
                    help=advice,
                    fix=_write_fix(site, keyword, functions[0], static) if static else None,
                )

    @detector("call", "partial", finds="counts-bound-arguments")
    def report_bound(self, site: Site) -> Finding | None:
        """Positions that count what a partial or a method has bound."""
        keyword = site.keyword("donate_argnums")
        functions = site.find_wrapped(*JITS, PMAP)
        if keyword is None or len(functions) != 1:
            return None
        given = argnum_positions(
            functions[0].setting_expression("donate_argnums"), functions[0].settings, site.program.evaluator
        )
        found = find_shifted_position(site, given or ())
        if found is None:
            return None
        return site.finding(
            keyword,
            f"`{found.donated}` is donated instead of `{found.meant}`: positions do not count the arguments that "
            f"{found.bound} binds.",
            help=f"write `donate_argnums={found.position}`",
            harm=Harm.COST,
            why=f"{site.where(Place(found.seen.file, found.seen.call))} assigns its result to `{found.meant}`, "
            f"not to `{found.donated}`",
        )


_Wrong = tuple[str, str, frozenset[int | str]]


def _find_wrong_donation(site: Site, function: Jitted, name: str) -> _Wrong | None:
    """Return the mistake in a keyword of a function: a label, the advice, and the static entries."""
    parameters = function.parameters
    entries = given_entries(function, name, site.program.evaluator)
    if not entries:
        return None
    if parameters is not None and function.api != PMAP:
        wrong = explain_lost_entries(function, parameters, entries)
        if wrong is not None:
            return *wrong, frozenset()
    static = _find_static(site, function)
    if static is None:
        return None
    both = frozenset(one for one in entries if _donated_position(parameters, one) in static or one in static)
    if site.allows("jax", "<0.12"):
        # Before, a number from behind was not known for the same argument as one from the front.
        both = frozenset(one for one in both if not (isinstance(one, int) and one < 0))
    if not both:
        return None
    shown = ", ".join(repr(one) for one in sorted(both, key=str))
    return f"{shown} is donated and static", "do not donate a static argument: it is not an array", both


def _find_static(site: Site, function: Jitted) -> frozenset[int | str | None] | None:
    """Static positions, and names that are no positions."""
    evaluator, settings = site.program.evaluator, function.settings
    if function.api == PMAP:
        found = argnum_positions(function.setting_expression("static_broadcasted_argnums"), settings, evaluator)
        return frozenset(found) if found is not None else None
    by_position = setting_positions(function, "static", evaluator)
    by_name = setting_names(function.setting_expression("static_argnames"), settings, evaluator)
    return None if by_position is None or by_name is None else frozenset((*by_position, *by_name))


def _donated_position(parameters: Parameters | None, one: int | str) -> int | None:
    if isinstance(one, str):
        known = parameters is not None and one in parameters.positional
        return parameters.positional.index(one) if known and parameters is not None else None
    found = parameters.nonnegative_position(one) if parameters is not None else one
    return one if found is None else found


def _report_negative_positions(site: Site, keyword: ast.keyword, functions: list[Jitted]) -> Iterator[Finding]:
    """Negative positions, which are taken as they stand and match no argument."""
    function = functions[0]
    if keyword.arg != "donate_argnums" or (function.api != PMAP and site.allows("jax", ">=0.12")):
        return
    given = argnum_positions(function.setting_expression(keyword.arg), function.settings, site.program.evaluator)
    negative = [number for number in given or () if number < 0]
    if not negative:
        return
    shown = ", ".join(str(number) for number in negative)
    yield site.finding(
        keyword,
        f"Nothing is donated for {shown}: {_wrapper_name(function)} does not count positions from the end.",
        why=f"on {site.release('jax')} a negative position matches no argument",
        help="count the position from the first argument",
        fix=_fix_negative_positions(site, keyword, functions),
        harm=Harm.COST,
    )


def _report_keyword_arguments(site: Site, functions: list[Jitted]) -> Iterator[Finding]:
    """Donated arguments that are given to what pmap made by keyword."""
    donated = argnum_positions(
        functions[0].setting_expression("donate_argnums"), functions[0].settings, site.program.evaluator
    )
    if functions[0].api != PMAP or not donated:
        return
    for seen in calls_of_wrapped(site, (PMAP,), DONATE_SETTINGS):
        given = _undonated_keywords(seen, donated)
        if not given or is_test(seen.file, seen.call):
            continue
        here = seen.file is site.file
        reasons = [_reason_read_after_call(seen, one.value) for one in given]
        kept = next(filter(None, reasons), "")
        shown = ", ".join(f"`{one.arg}`" for one in given)
        at = "" if here else f"; the call is at {seen.file.path.name}:{seen.call.lineno}"
        yield site.finding(
            given[0] if here else site.call.func,
            f"pmap does not donate {shown}: it donates only positional arguments.",
            why=f"without donation the old and the new arrays are in memory together{at}",
            help=f"pass {shown} by position",
            fix=_make_by_position_fix(site, seen) if here and not kept else None,
            kept=kept,
            form="read-after-call" if all(reasons) else "",
            harm=Harm.COST,
        )


def _undonated_keywords(seen_call: SeenCall, donated: tuple[int, ...]) -> list[ast.keyword]:
    """The keyword arguments of a call that stand at donated positions."""
    count, parameters, given = seen_call.count_positional, seen_call.function.parameters, seen_call.call.keywords
    if count is None or seen_call.arguments.open_keywords:
        return []
    known = parameters.positional if parameters is not None and not parameters.star else ()
    unmet = [number for number in donated if number >= count]
    named_so = {known[number] for number in unmet if number < len(known)}
    if any(number >= len(known) for number in unmet) and not count:
        return given  # the function takes nothing by position, or is not known
    return [one for one in given if one.arg in named_so]


def _reason_read_after_call(seen_call: SeenCall, node: ast.expr) -> str:
    """Why an argument had better not be donated: it is read after the call; empty where it is not."""
    file, call = seen_call.file, seen_call.call
    if isinstance(node, ast.Call):
        return ""
    if not isinstance(node, ast.Name):
        return f"`{file.source_text(node)}` may be read after the call"
    bindings, scope = lookup_bindings(file, node, node.id)
    if scope is None or file.evaluation_scope(node).enclosing_function() is not scope:
        return f"`{node.id}` may be read after the call"
    every, given = file.bindings(scope, node.id), {binding.node for binding in bindings}
    statement = next(one for one in file.ancestors(call) if isinstance(one, ast.stmt))
    if {binding.node for binding in every} & set(walk_nodes(statement)):
        return ""  # `state = step(state=state)`
    loops = (one for one in file.ancestors(call) if isinstance(one, ast.For | ast.AsyncFor | ast.While))
    again = next(loops, None)
    if again is not None and not {binding.node for binding in every} & set(walk_nodes(again)):
        return f"the next iteration of the loop passes `{node.id}` again"
    inside = set(walk_nodes(call))
    for other in file.mentions_in(scope, node.id):
        if other in inside or not isinstance(other, ast.Name) or not isinstance(other.ctx, ast.Load):
            continue
        later = (other.lineno, other.col_offset) > (call.lineno, call.col_offset)
        if later and any(binding.node in given for binding in reaching_bindings(file, other, every)):
            return f"line {other.lineno} reads `{node.id}` after the call"
    return ""


def _make_by_position_fix(site: Site, seen_call: SeenCall) -> Fix | None:
    if seen_call.function.setting_expression("in_axes") is not None:
        return None  # a keyword argument is mapped along its first dimension whatever in_axes says
    why = "the arguments are donated from now on and must not be read again"
    return make_positional_fix(site, seen_call, seen_call.call.keywords, why)


def _wrapper_name(function: Jitted) -> str:
    return "pjit" if function.api.endswith("pjit") else function.api


def _fix_negative_positions(site: Site, keyword: ast.keyword, functions: list[Jitted]) -> Fix | None:
    """The same positions counted from the front."""
    value, parameters, static = keyword.value, functions[0].parameters, _find_static(site, functions[0])
    elements = value.elts if isinstance(value, ast.Tuple | ast.List) else [value]
    found = [_literal_or_none(element) for element in elements]
    if len(functions) != 1 or parameters is None or parameters.star or static is None:
        return None
    edits = []
    for element, number in zip(elements, found, strict=True):
        index = parameters.nonnegative_position(number) if isinstance(number, int) else None
        if index is None or index in static or (number != index and index in found):
            return None
        if number != index:
            edits.append(site.replace(element, str(index)))
    shown = ", ".join(str(parameters.nonnegative_position(number)) for number in found if isinstance(number, int))
    why = "the argument is donated from now on and must not be read again"
    return site.fix(Safety.UNSAFE, f"write: {shown}", edits, why)


def _write_fix(site: Site, keyword: ast.keyword, function: Jitted, static: frozenset[int | str]) -> Fix | None:
    """Drop the static entries; with nothing left, the keyword."""
    import libcst as cst

    from shardlint.rules_api import cst as islands

    value = keyword.value
    elements = value.elts if isinstance(value, ast.Tuple | ast.List) else [value]
    if any(not isinstance(element, ast.Constant | ast.UnaryOp) for element in elements):
        return None
    kept = [element for element in elements if _literal_or_none(element) not in static]
    assert keyword.arg is not None
    if kept:
        texts = [site.text(element) for element in kept]
        inside = ", ".join(texts) + ("," if len(texts) == 1 and isinstance(value, ast.Tuple) else "")
        text = f"[{inside}]" if isinstance(value, ast.List) else f"({inside})"
        return site.fix(Safety.SAFE, f"write: {keyword.arg}={text}", [site.replace(value, text)])
    call = cst.ensure_type(site.node, cst.Call)
    text = islands.code_of_node(islands.without_keywords(call, {keyword.arg}))
    return site.fix(Safety.SAFE, f"drop {keyword.arg}", [site.replace(site.call, text)])


def _literal_or_none(node: ast.expr) -> object:
    try:
        return ast.literal_eval(node)
    except ValueError:
        return None
