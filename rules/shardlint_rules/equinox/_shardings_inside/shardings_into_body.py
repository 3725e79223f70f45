"""The codemod of SL101: shardings given to `filter_jit` become `filter_shard` in the function's body.

    @eqx.filter_jit(in_shardings=(a, b), out_shardings=b)
    def f(x, y):
        return x + y

becomes

    @eqx.filter_jit
    def f(x, y):
        x, y = eqx.filter_shard(x, a), eqx.filter_shard(y, b)
        return eqx.filter_shard(x + y, b)

A lambda is constrained in place. What has no body here (`eqx.filter_grad(loss)`) gets a `def` around it.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable
from contextlib import suppress

from shardlint.model.signatures import SHARDING_SETTINGS
from shardlint.rules_api.rule import Edit, Fix, Safety
from shardlint.rules_api.site import Site
from shardlint_rules.equinox._shardings_inside.body import Body
from shardlint_rules.equinox._shardings_inside.def_above import insert_wrapper_above
from shardlint_rules.equinox._shardings_inside.given_shardings import (
    RequestedShardings,
    expressions_in_shardings,
    import_edits,
    read_given_shardings,
)
from shardlint_rules.equinox._shardings_inside.in_lambda import constrain_in_lambda
from shardlint_rules.equinox._shardings_inside.layout import line_length
from shardlint_rules.equinox._shardings_inside.outer_def import convert_lambda, wrap_call, wrap_decorated
from shardlint_rules.equinox._shardings_inside.removed_shardings import (
    insert_lines_above,
    name_shardings,
    take_shardings_out,
)
from shardlint_rules.equinox._shardings_inside.written_function import (
    WithoutBody,
    WrittenFunction,
    find_wrapped_function,
)
from shardlint_rules.equinox.before_call import is_run_repeatedly
from shardlint_rules.equinox.call_text import ShortenedCall, cut_keywords
from shardlint_rules.equinox.hidden_keywords import DictArgument, find_hidden_keywords
from shardlint_rules.equinox.keyword_dicts import read_dict_entries
from shardlint_rules.equinox.same_in_body import explain_obstacle
from shardlint_rules.equinox.wrapped_functions import (
    NotRewritten,
    OutOfReach,
    Wrapping,
    find_wrappings,
    has_one_argument,
)

_WHY = "the arrays are now sharded, and the compiled program changes"


# A mesh made without axis types, over which the constraints raise until it says that its axes are Auto.
_UNCOVERED = ("SL307",)


def make_body_fix(site: Site) -> Fix:
    """The fix. Raises `NotRewritten` where the text does not tell how the body would have to look."""
    try:
        inside = find_hidden_keywords(site)
    except NotRewritten:
        opened = (keyword for keyword in site.call.keywords if keyword.arg is None)
        if any(read_dict_entries(site, keyword.value, SHARDING_SETTINGS) for keyword in opened):
            return _out_of_dict(site)
        inside = []  # what is in the dict stays there
    try:
        return _fix_with_written_shardings(site, inside)
    except NotRewritten as reason:
        with suppress(NotRewritten):
            return _fix_with_written_shardings(site, inside, named=True)
        raise reason from None


def _fix_with_written_shardings(site: Site, arguments: list[DictArgument], *, named: bool = False) -> Fix:
    """The fix with the shardings as they are written; or, `named`, given names before the function."""
    nodes: dict[str, ast.expr] = {}
    for one in arguments:
        nodes.update({name: one.entries[name] for name in SHARDING_SETTINGS if name in one.entries})
    direct = {name: site.keyword(name) for name in SHARDING_SETTINGS}
    nodes.update({name: keyword.value for name, keyword in direct.items() if keyword is not None})
    inputs, outputs = (
        read_given_shardings(site, nodes.get("in_shardings"), inputs=True),
        read_given_shardings(site, nodes.get("out_shardings")),
    )
    imports = import_edits(inputs, outputs)
    rest = _call_without_shardings(
        site, arguments, {keyword for keyword in direct.values() if keyword is not None}
    )
    forgotten = [*imports, *(edit for one in arguments if _is_moved_entry(one) for edit in one.remove_variable(site))]
    if inputs is None and outputs is None:
        edits = [*rest.edits, *forgotten]
        return site.fix(Safety.SAFE, "remove the keyword: None has no effect", edits, drops=rest.drops)
    comments = {name: _comments_of_keyword(rest, keyword) for name, keyword in direct.items()}
    asked = RequestedShardings(inputs, outputs, comments["in_shardings"], comments["out_shardings"])
    if inputs is None:
        asked = RequestedShardings(inputs, outputs, [], [*comments["in_shardings"], *comments["out_shardings"]])
    elif outputs is None:
        asked = RequestedShardings(inputs, outputs, [*comments["in_shardings"], *comments["out_shardings"]], [])
    if named:
        lines, asked = name_shardings(site, asked)
        return _fix_with_names_above(site, lines, asked, rest, forgotten)
    return _fix_by_constraints(site, asked, rest, forgotten)


def _out_of_dict(site: Site) -> Fix:
    """The fix where the shardings are in a dict whose entries the text of the call does not spell out."""
    found = take_shardings_out(site)
    comments = [comment for one in found.rest.comments.values() for comment in one]
    if comments:
        raise NotRewritten(f"a comment next to the shardings at line {site.call.lineno} would be lost")
    edits = import_edits(found.inputs, found.outputs)
    return _fix_with_names_above(
        site, found.lines, RequestedShardings(found.inputs, found.outputs, [], []), found.rest, edits
    )


def _fix_with_names_above(
    site: Site, lines: list[str], requested: RequestedShardings, shortened: ShortenedCall, forgotten: list[Edit]
) -> Fix:
    """The fix that names the shardings in statements above the function."""
    definition = site.decorated
    edits: Iterable[Edit]
    if definition is not None:
        (wrapping,) = find_wrappings(site)
        target = find_wrapped_function(site, wrapping)
        if isinstance(target, WithoutBody) or site.file.evaluation_scope(definition).kind == "class":
            raise NotRewritten(
                f"the body of `{definition.name}` at line {definition.lineno} has no place "
                "for the statement that reads the shardings"
            )
        first = definition.decorator_list[0]
        more, shown, _ = _edits_for_function(site, target, requested, shortened, 1)
        edits = [*shortened.edits, *more, *insert_lines_above(site, first.lineno, lines)]
    elif (function := _wrapped_function(site)) is not None:
        edits, shown = insert_wrapper_above(site, function, requested, shortened, lines)
    else:
        raise NotRewritten(f"the function that line {site.call.lineno} wraps is not known")
    message = f"write: {' '.join('; '.join([*lines, *shown]).split())}"
    return site.fix(Safety.UNSAFE, message, [*edits, *forgotten], _WHY, shortened.drops, uncovers=_UNCOVERED)


def _comments_of_keyword(shortened: ShortenedCall, keyword: ast.keyword | None) -> list[str]:
    return shortened.comments.get(keyword, []) if keyword is not None else []


def _is_line_too_long(site: Site, function: ast.Lambda, edits: Iterable[Edit]) -> bool:
    """Return whether edits make the line of a lambda longer than the file's lines."""
    source = site.file.source
    start = source.line_starts[function.lineno - 1]
    line = source.line_text(function.lineno)
    inside = [edit for edit in edits if start <= edit.start < start + len(line)]
    more = sum(len(edit.text) - (edit.end - edit.start) for edit in inside)
    return function.lineno == function.end_lineno and len(line.rstrip()) + more > line_length(site.file)


def _call_without_shardings(site: Site, arguments: list[DictArgument], gone: set[ast.keyword]) -> ShortenedCall:
    """The call without the shardings."""
    instead = {}
    for one in arguments:
        left = one.remaining_keywords(site, SHARDING_SETTINGS)
        if left and _is_moved_entry(one):
            instead[one.keyword] = left
        elif not left:
            gone = gone | {one.keyword}
    return cut_keywords(site, gone, instead)


def _is_moved_entry(argument: DictArgument) -> bool:
    """Return whether an entry of a dict moves into the body, so that the call does not name the dict any more."""
    return not argument.entries or bool(set(argument.entries) & set(SHARDING_SETTINGS))


def _fix_by_constraints(
    site: Site, requested: RequestedShardings, shortened: ShortenedCall, forgotten: list[Edit]
) -> Fix:
    try:
        found = find_wrappings(site)
        if not found:
            raise NotRewritten(f"this file wraps no function with the result of line {site.call.lineno}")
        return _edit_in_place(site, found, requested, shortened, forgotten)
    except OutOfReach as reason:
        if (
            _wrapped_function(site) is None
            and site.form != "call"
            and not isinstance(site.file.parent(site.call), ast.Return)
        ):
            raise
        try:
            edits, shown = insert_wrapper_above(site, _wrapped_function(site), requested, shortened)
        except NotRewritten as why:
            raise NotRewritten(f"{reason}, and {why}" if str(why) != str(reason) else str(why)) from None
        message = f"write around it: {' '.join('; '.join(shown).split())}"
        return site.fix(Safety.UNSAFE, message, [*edits, *forgotten], _WHY, shortened.drops, uncovers=_UNCOVERED)


def _wrapped_function(site: Site) -> ast.expr | None:
    """The one function that the call is of, or that what it gives is called with at once; None where there is none."""
    if site.form == "call" and (function := site.argument("fun")) is not None:
        return function
    applied = site.file.parent(site.call)
    at_once = isinstance(applied, ast.Call) and applied.func is site.call and has_one_argument(applied)
    return applied.args[0] if isinstance(applied, ast.Call) and at_once else None


def _edit_in_place(
    site: Site,
    wrappings: list[Wrapping],
    requested: RequestedShardings,
    shortened: ShortenedCall,
    forgotten: list[Edit],
) -> Fix:
    edits: list[Edit] = [*forgotten]
    shown: list[str] = []
    whole = False
    for wrapping in wrappings:
        target = find_wrapped_function(site, wrapping)
        more, said, replaced = _edits_for_function(site, target, requested, shortened, len(wrappings))
        edits += more
        shown += said
        whole = whole or replaced
    if not shown:
        raise NotRewritten(
            f"the function that line {site.call.lineno} wraps takes no positional arguments and "
            "returns no value"
        )
    message = f"write in the body: {' '.join('; '.join(dict.fromkeys(shown)).split())}"
    every = edits if whole else [*shortened.edits, *edits]
    return site.fix(Safety.UNSAFE, message, every, _WHY, shortened.drops, uncovers=_UNCOVERED)


def _edits_for_function(
    site: Site,
    target: WrittenFunction | WithoutBody,
    requested: RequestedShardings,
    shortened: ShortenedCall,
    count: int,
) -> tuple[list[Edit], list[str], bool]:
    """The edits for one function, what they write, and whether they hold the call itself too."""
    every = expressions_in_shardings(requested.inputs) + expressions_in_shardings(requested.outputs)
    if isinstance(target, WithoutBody):
        if count > 1:
            raise NotRewritten(
                f"line {site.call.lineno} wraps `{target.text}`, the result of another transform, "
                "and other functions"
            )
        made = wrap_decorated if target.decorated is not None else wrap_call
        edits, shown = made(site, target, requested, shortened)
        return edits, shown, True
    for source in every:
        problem = explain_obstacle(site, source, target.function)
        if problem is not None:
            there = f"inside `{getattr(target.function, 'name', '')}`"
            around = problem.endswith(there) or (_wrapped_function(site) is not None and is_run_repeatedly(site))
            raise (OutOfReach if around else NotRewritten)(problem)
    if isinstance(target.function, ast.Lambda):
        if requested.above_inputs or requested.above_outputs:
            raise NotRewritten(f"a comment next to the shardings at line {site.call.lineno} would be lost")
        edits, shown = constrain_in_lambda(
            site, target.function, target.names, target.spare, requested.inputs, requested.outputs
        )
        if _is_line_too_long(site, target.function, [*edits, *shortened.edits]):
            with suppress(NotRewritten):
                return (*convert_lambda(site, target.function, requested, shortened, target.names), True)
        return edits, shown, False
    body = Body(site, target.function, target.names, target.spare)
    body.constrain_inputs(requested.inputs, requested.above_inputs)
    body.constrain_results(requested.outputs, requested.above_outputs)
    return body.edits, body.shown, False
