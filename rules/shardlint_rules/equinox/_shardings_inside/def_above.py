"""A `def` above the statement, where the function that is jitted has no body that could be written into.

    self.step = eqx.filter_jit(self._step, in_shardings=(self.row,))

becomes

    def sharded_step(xs):
        xs = eqx.filter_shard(xs, self.row)
        return self._step(xs)

    self.step = eqx.filter_jit(sharded_step)

A function that may hold arrays, or that another may have taken the place of by the time it is traced, goes in as an
argument: `eqx.filter_jit(eqx.Partial(sharded_step, function))`, so that its arrays stay arguments of the program.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from shardlint.model.signatures import SHARDING_SETTINGS, Parameters, parameters_of
from shardlint.model.values import options
from shardlint.rewrite.indent import UNIT, indented_as
from shardlint.rules_api.imports import spell_name
from shardlint.rules_api.rule import Edit
from shardlint.rules_api.site import Site
from shardlint.syntax.bindings import lookup_bindings
from shardlint.syntax.nodes import walk_nodes
from shardlint_rules.equinox._shardings_inside.body import input_constraint_lines, names_with_star
from shardlint_rules.equinox._shardings_inside.given_shardings import (
    Given,
    ShardingPerArgument,
    SingleSharding,
    bind_to_name,
    expressions_in_shardings,
)
from shardlint_rules.equinox._shardings_inside.layout import line_length
from shardlint_rules.equinox._shardings_inside.outer_def import result_statements
from shardlint_rules.equinox.before_call import is_run_repeatedly
from shardlint_rules.equinox.beside_statement import blank_lines_above, indentation_of
from shardlint_rules.equinox.later_changes import changed_later
from shardlint_rules.equinox.same_in_body import explain_change, gives_the_same, is_constant_function
from shardlint_rules.equinox.wrapped_functions import (
    Definition,
    NotRewritten,
    describe_other_function,
    positional_parameters,
)

if TYPE_CHECKING:
    from shardlint_rules.equinox._shardings_inside.given_shardings import RequestedShardings
    from shardlint_rules.equinox.call_text import ShortenedCall

_SIMPLE = (ast.Assign, ast.AnnAssign, ast.Return, ast.Expr)
# Where a lambda needs no parentheses: elsewhere it would take in what follows.
_TAKES_A_LAMBDA = (ast.Assign, ast.AnnAssign, ast.Return, ast.keyword, ast.Tuple, ast.List, ast.Dict)
_LETTERS = ("x", "y", "z")
_SCOPES = (ast.Lambda, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


def insert_wrapper_above(
    site: Site,
    function: ast.expr | None,
    asked: RequestedShardings,
    shortened: ShortenedCall,
    first: Sequence[str] = (),
) -> tuple[list[Edit], list[str]]:
    """The edits, the call's own too, and what they write. Without a `function` the call makes a decorator.

    Statements that have to come `first` stand above the function.
    """
    node = function if function is not None else site.call
    statement = site.file.statement(node)
    if not isinstance(statement, _SIMPLE) or site.file.evaluation_scope(statement).kind == "class":
        raise NotRewritten(
            f"no function can be written above line {statement.lineno}: it is in the body of a class, "
            "or begins a block"
        )
    indent = indentation_of(site, statement)
    if isinstance(function, ast.Lambda):
        _refuse_inner_names(site, function)
    asked, shardings = convert_to_arguments(site, asked)
    kept = _names_kept_as_defaults(site, asked)
    handed = function is None or not is_constant_function(site, function, statement)
    name = _choose_free_name(site, function)
    inner = "function" if handed else site.text(node)
    imports, lines = _wrapper_lines(site, function, asked, inner, indent, statement)
    before_all = [*(["function"] if handed else []), *shardings]
    taken = _parameters_with_defaults(site, function, _signature_text(site, function, asked, before_all), kept)
    text = "".join(f"{indent}{UNIT}{part}\n" for line in lines for part in line.split("\n"))
    lines = [line for line in lines if not line.startswith("#")]
    newline = site.file.source.common_newline
    gap = "" if indent else newline
    lead = "".join(f"{indent}{line}\n" for line in first)
    lead += ("\n" if indent else "\n\n") if first else ""
    whole = indented_as(site.file, f"{lead}{indent}def {name}({taken}):\n{text}\n", indent)
    whole = whole.replace("\n", newline) + gap
    start = site.file.source.line_starts[statement.lineno - 1]
    edits = [
        *imports,
        Edit(start, start, ("" if first else blank_lines_above(site, statement, indent)) + whole),
    ]
    if not before_all:
        assert function is not None
        return [*edits, *shortened.edits, site.replace(function, name)], lines
    if other := describe_other_function(site):
        raise NotRewritten(f"{other}: the second does not take an eqx.Partial")
    bound, more = spell_name(site.program, site.file, statement, "equinox.Partial")
    if function is not None:
        held = ", ".join([name, *([site.text(function)] if handed else []), *shardings.values()])
        return [*edits, *more, *shortened.edits, site.replace(function, f"{bound}({held})")], lines
    called, left = _decorator_parts(site, shortened)
    held = ", ".join([name, "function", *shardings.values()])
    made = f"{called}({bound}({held}){f', {left}' if left else ''})"
    written = f"lambda function: {made}"
    outer = site.file.parent(site.call)
    bare = isinstance(outer, _TAKES_A_LAMBDA) or (isinstance(outer, ast.Call) and outer.func is not site.call)
    return [*edits, *more, site.replace(site.call, written if bare else f"({written})")], lines


def convert_to_arguments(site: Site, requested: RequestedShardings) -> tuple[RequestedShardings, dict[str, str]]:
    """Return the requested shardings and new arguments by name. Shardings that only the call knows (of a
    comprehension, of a call) become arguments of the function.

    Raises `NotRewritten`.
    """
    found: list[Given] = []
    shardings: dict[str, str] = {}
    for name, given in zip(SHARDING_SETTINGS, (requested.inputs, requested.outputs), strict=True):
        if given is None or not any(map(partial(_depends_on_its_place, site), expressions_in_shardings(given))):
            found.append(given)
            continue
        value, one = bind_to_name(site, given, name)
        shardings[name] = value
        found.append(one)
    return replace(requested, inputs=found[0], outputs=found[1]), shardings


def _depends_on_its_place(site: Site, source: ast.expr) -> bool:
    """Return whether an expression has its value only at its own place."""
    for part in walk_nodes(source):
        if isinstance(part, ast.Await | ast.Yield | ast.YieldFrom | ast.NamedExpr):
            raise NotRewritten(
                f"`{site.text(source)}` at line {source.lineno} contains `:=` or `await`: assign its value "
                "to a variable first"
            )
        if isinstance(part, ast.Call) and not gives_the_same(site, part) and is_run_repeatedly(site):
            return True
    return any(kind in ("comprehension", "lambda") for _, kind in _read_from_outside(site, source))


def _refuse_inner_names(site: Site, function: ast.Lambda) -> None:
    """Raise `NotRewritten` where a lambda reads what a comprehension or another lambda around it binds."""
    for name, kind in _read_from_outside(site, function):
        if kind in ("class", "comprehension", "lambda"):
            raise NotRewritten(
                f"`{name}` at line {function.lineno} is assigned inside the statement, and a function "
                "above cannot read it"
            )


def _read_from_outside(site: Site, node: ast.expr) -> Iterator[tuple[str, str]]:
    """The names that an expression reads and does not bind itself, each with the kind of the scope that does."""
    inner = {id(site.file.scope(part)) for part in walk_nodes(node) if isinstance(part, _SCOPES)}
    for part in walk_nodes(node):
        if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Load):
            scope = lookup_bindings(site.file, part, part.id)[1]
            if scope is not None and id(scope) not in inner:
                yield part.id, scope.kind


def _decorator_parts(site: Site, shortened: ShortenedCall) -> tuple[str, str]:
    """Return the function that makes the decorator (`filter_jit`), and its remaining settings."""
    func = site.text(site.call.func)
    if site.form != "partial":
        return func, shortened.text[len(func) :].strip()[1:-1].strip().removesuffix(",")
    called = site.text(site.call.args[0])
    if shortened.text == called:
        return called, ""
    inside = shortened.text[len(func) :].strip()[1:-1].strip().removesuffix(",")
    return called, inside.removeprefix(called).lstrip(" ,\n")


def _names_kept_as_defaults(site: Site, requested: RequestedShardings) -> dict[str, str]:
    """Names in the shardings that may change before the new function is traced, with how: it keeps them as defaults.

    Raises `NotRewritten` where a sharding means something else there.
    """
    kept: dict[str, str] = {}
    for source in (*expressions_in_shardings(requested.inputs), *expressions_in_shardings(requested.outputs)):
        if (change := changed_later(site, source)) is not None:
            raise NotRewritten(change.reason)
        for part in walk_nodes(source):
            if isinstance(part, ast.Call) and not gives_the_same(site, part):
                raise NotRewritten(
                    f"`{site.text(part)}` at line {part.lineno} would be called at every trace: assign "
                    "its result to a variable first"
                )
            if not isinstance(part, ast.Name) or not isinstance(part.ctx, ast.Load):
                continue
            bindings, scope = lookup_bindings(site.file, part, part.id)
            if scope is None:
                continue
            if scope.kind in ("class", "comprehension", "lambda"):
                raise NotRewritten(
                    f"`{part.id}` at line {part.lineno} is assigned inside the statement, and a function "
                    "above cannot read it"
                )
            problem = explain_change(site, part, bindings, scope)
            if problem is not None:
                kept[part.id] = problem
    return kept


def _parameters_with_defaults(site: Site, function: ast.expr | None, taken: str, kept: dict[str, str]) -> str:
    """The parameters, and one with a default for each name that may change."""
    if not kept:
        return taken
    known = _known_parameters(site, function)
    own = {*known.positional, *known.keyword_only} if known is not None else set()
    for name, problem in kept.items():
        if name in own or (isinstance(function, ast.Lambda) and function.args.kwarg is not None):
            raise NotRewritten(problem)
    more = ", ".join(f"{name}={name}" for name in kept)
    before, rest = taken.removesuffix("**kwargs").removesuffix(", "), taken.endswith("**kwargs")
    star = "" if "*" in before else "*"
    return ", ".join(filter(None, [before, star, more, "**kwargs" if rest else ""]))


def _choose_free_name(site: Site, function: ast.expr | None) -> str:
    """A name for the function, after the one that it is around; another one for each call of the file."""
    base = _base_name(site, function)
    earlier = 0
    for mention in site.file.find_mentions("filter_jit"):
        call = site.file.parent(mention)
        if isinstance(call, ast.Call) and call.func is mention and call.lineno < site.call.lineno:
            given = call.args[0] if call.args else None
            decorates = isinstance(site.file.parent(call), Definition)
            earlier += not decorates and _base_name(site, given) == base
    name, number = (base, 2) if not earlier else (f"{base}_{earlier + 1}", earlier + 2)
    while site.file.find_mentions(name):
        name, number = f"{base}_{number}", number + 1
    return name


def _base_name(site: Site, function: ast.expr | None) -> str:
    node = function
    while isinstance(node, ast.Call):
        node = node.args[0] if node.args else node.func
    said = ""
    if isinstance(node, ast.Name | ast.Attribute):
        said = re.sub(r"\W", "", site.text(node).rpartition(".")[2]).strip("_")
    return f"sharded_{said}" if said else "sharded"


def _constrained_parameters(
    site: Site, function: ast.expr | None, requested: RequestedShardings
) -> list[str] | None:
    """The positional parameters that are constrained, by name; None where it takes what it is given."""
    known = _known_parameters(site, function)
    if isinstance(function, ast.Lambda):
        return [arg.arg for arg in positional_parameters(function)]
    if isinstance(requested.inputs, ShardingPerArgument):
        count = len(requested.inputs.texts)
    elif requested.inputs is not None and requested.inputs.surely and known is not None and _takes_all(known):
        count = len(known.positional)
    else:
        return None
    if known is not None and not known.star and not known.required <= count <= len(known.positional):
        raise NotRewritten(
            f"in_shardings has {count} entries and `{site.text(function) if function else ''}` "
            f"{len(known.positional)} positional parameters"
        )
    named = {
        part.id
        for source in (
            function,
            *expressions_in_shardings(requested.inputs),
            *expressions_in_shardings(requested.outputs),
        )
        for part in (walk_nodes(source) if source is not None else ())
        if isinstance(part, ast.Name)
    }
    plain = list(_LETTERS[:count]) if count <= len(_LETTERS) else [f"x{index}" for index in range(count)]
    ways = [list(known.positional[:count])] if known is not None and len(known.positional) >= count else []
    for names in (*ways, plain, [f"{one}_" for one in plain]):
        if not named & {*names, "function"} and not {*names} & {"function", *SHARDING_SETTINGS}:
            return names
    raise NotRewritten(f"the shardings at line {site.call.lineno} use the names that its parameters would get")


def _known_parameters(site: Site, function: ast.expr | None) -> Parameters | None:
    """Return the parameters of the function, if the text tells."""
    found = [] if function is None else options(site.value(function))
    return parameters_of(found[0], site.program.evaluator) if len(found) == 1 else None


def _takes_all(parameters: Parameters) -> bool:
    """Return whether every call passes all of the positional parameters."""
    return 0 < len(parameters.positional) == parameters.required and not parameters.star


def _extra_keyword_parameter(site: Site, function: ast.expr | None, names: list[str]) -> list[str]:
    """`**kwargs`, where the function takes more by keyword than the entries of in_shardings are for."""
    known = _known_parameters(site, function)
    if known is None or (known.star and not known.keyword_only):
        return []
    more = known.keyword_only or known.double_star or len(known.positional) > len(names)
    return ["**kwargs"] if more else []


def _signature_text(
    site: Site, function: ast.expr | None, requested: RequestedShardings, first: list[str]
) -> str:
    if isinstance(function, ast.Lambda):
        head = site.file.character_span(function.body)[0] - site.file.character_span(function)[0]
        own = site.text(function)[len("lambda") : head].rpartition(":")[0].strip()
        return ", ".join(filter(None, [*first, own]))
    names = _constrained_parameters(site, function, requested)
    if names is None:
        free = requested.inputs is None or (isinstance(requested.inputs, SingleSharding) and requested.inputs.when)
        return ", ".join([*first, "*args", *(["**kwargs"] if free else [])])
    return ", ".join([*first, *names, *_extra_keyword_parameter(site, function, names)])


def _wrapper_lines(
    site: Site, function: ast.expr | None, requested: RequestedShardings, inner: str, indent: str, statement: ast.stmt
) -> tuple[list[Edit], list[str]]:
    shard, imports = spell_name(site.program, site.file, statement, "equinox.filter_shard")
    names = _constrained_parameters(site, function, requested)
    room = line_length(site.file) - len(indent) - len(UNIT)
    if names is not None:
        of_lambda = function.args if isinstance(function, ast.Lambda) else None
        spare = len(of_lambda.defaults) if of_lambda is not None else 0
        constrained, inputs = names_with_star(
            names, of_lambda.vararg if of_lambda is not None else None, requested.inputs
        )
        lines = input_constraint_lines(shard, constrained, inputs, spare, f"`{inner}`", room)
        given = ", ".join([*names, *_extra_keyword_parameter(site, function, names)])
    elif requested.inputs is None:
        lines, given = [], "*args, **kwargs"
    else:
        assert isinstance(requested.inputs, SingleSharding)
        lines, given = [f"args = {requested.inputs.constrain_value(shard, 'args')}"], "*args"
        if requested.inputs.when:
            lines, given = [f"if {requested.inputs.when}:\n{UNIT}{lines[0]}"], "*args, **kwargs"
    call = f"{inner}({given})"
    if isinstance(function, ast.Lambda):
        call = site.text(function.body)
    out = [f"return {call}"] if requested.outputs is None else result_statements(shard, call, requested.outputs, room)
    return list(imports), [*requested.above_inputs, *lines, *requested.above_outputs, *out]
