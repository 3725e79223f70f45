"""A `def` around a function that went through a transform, with the constraints in its body."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from shardlint.rewrite.indent import UNIT, indented_as
from shardlint.rules_api.imports import spell_name
from shardlint.rules_api.rule import Edit
from shardlint.rules_api.site import Site
from shardlint.syntax import Scope
from shardlint.syntax.nodes import walk_nodes
from shardlint_rules.equinox._shardings_inside.body import input_constraint_lines, names_with_star
from shardlint_rules.equinox._shardings_inside.given_shardings import (
    ShardingPerArgument,
    SingleSharding,
    expressions_in_shardings,
)
from shardlint_rules.equinox._shardings_inside.layout import line_length
from shardlint_rules.equinox._shardings_inside.written_function import WithoutBody
from shardlint_rules.equinox.beside_statement import indentation_of, replace_statement
from shardlint_rules.equinox.later_changes import changed_later
from shardlint_rules.equinox.same_in_body import gives_the_same
from shardlint_rules.equinox.wrapped_functions import NotRewritten, OutOfReach

if TYPE_CHECKING:
    from shardlint_rules.equinox._shardings_inside.given_shardings import RequestedShardings
    from shardlint_rules.equinox.call_text import ShortenedCall


def wrap_call(
    site: Site, target: WithoutBody, requested: RequestedShardings, shortened: ShortenedCall
) -> tuple[list[Edit], list[str]]:
    """`step = filter_jit(transform(f), ...)` as a decorated `def step`."""
    statement = site.file.statement(target.by)
    name = statement.targets[0] if isinstance(statement, ast.Assign) else None
    if not isinstance(statement, ast.Assign) or statement.value is not target.by or site.form != "call":
        raise OutOfReach(
            f"line {site.call.lineno} does not assign the jit of `{target.text}` to a variable"
        )
    if not isinstance(name, ast.Name) or len(statement.targets) > 1 or target.by is not site.call:
        raise OutOfReach(
            f"line {site.call.lineno} does not assign the jit of `{target.text}` to a variable"
        )
    indent = indentation_of(site, statement)
    assert target.node is not None
    decorator = _decorator_text(site, shortened, target.node)
    edits, body, shown = _write_body(site, target, requested, site.text(target.node), indent, statement)
    signature = _signature_text(site, target, requested)
    text = f"@{decorator}\n{indent}def {name.id}({signature}):\n{body}".rstrip("\n")
    return [*edits, *replace_statement(site, statement, text, indent)], shown


def convert_lambda(
    site: Site, function: ast.Lambda, requested: RequestedShardings, shortened: ShortenedCall, names: list[str]
) -> tuple[list[Edit], list[str]]:
    """`step = filter_jit(lambda x: ...)` as a decorated `def step`."""
    statement = site.file.statement(function)
    name = statement.targets[0] if isinstance(statement, ast.Assign) else None
    if not isinstance(statement, ast.Assign) or statement.value is not site.call or site.form != "call":
        raise NotRewritten(f"the lambda at line {function.lineno} would not fit on its line")
    if not isinstance(name, ast.Name) or len(statement.targets) > 1 or "\n" in site.text(function):
        raise NotRewritten(f"the lambda at line {function.lineno} would not fit on its line")
    indent = indentation_of(site, statement)
    shard, imports = spell_name(site.program, site.file, statement, "equinox.filter_shard")
    room = line_length(site.file) - len(indent) - len(UNIT)
    spare = len(function.args.defaults)
    names, inputs = names_with_star(names, function.args.vararg, requested.inputs)
    lines = input_constraint_lines(shard, names, inputs, spare, "the lambda", room)
    body = site.text(function.body)
    returned = (
        [f"return {body}"] if requested.outputs is None else result_statements(shard, body, requested.outputs, room)
    )
    head = site.text(function)[
        len("lambda") : site.file.character_span(function.body)[0] - site.file.character_span(function)[0]
    ]
    signature = head[: head.rindex(":")].strip()
    text = "".join(f"{indent}{UNIT}{part}\n" for line in [*lines, *returned] for part in line.split("\n"))
    decorator = _decorator_text(site, shortened, function)
    whole = f"@{decorator}\n{indent}def {name.id}({signature}):\n{text}".rstrip("\n")
    return [*imports, *replace_statement(site, statement, whole, indent)], [*lines, *returned]


def wrap_decorated(
    site: Site, target: WithoutBody, requested: RequestedShardings, shortened: ShortenedCall
) -> tuple[list[Edit], list[str]]:
    """The decorated definition under another name, and a jitted `def` that calls it below."""
    node = target.decorated
    assert node is not None
    file = site.file
    hidden = f"_{node.name}"
    if file.find_mentions(hidden):
        raise NotRewritten(f"the file uses the name `{hidden}` already")
    if any(isinstance(part, ast.Name) and part.id == node.name for part in walk_nodes(node)):
        raise NotRewritten(f"`{node.name}` at line {node.lineno} calls itself")
    indent = indentation_of(site, node)
    source = file.source
    by = node.decorator_list[0]
    line = by.lineno
    start, end = source.line_starts[line - 1], source.line_starts[by.end_lineno or line]
    edits, body, shown = _write_body(site, target, requested, hidden, indent, node)
    header = file.source_text(node)
    at = file.character_span(node)[0] + header.index(node.name, header.index("def") + 3)
    gap = "\n\n" if not indent else "\n"
    signature = _signature_text(site, target, requested)
    whole = f"{gap}{indent}@{shortened.text}\n{indent}def {node.name}({signature}):\n{body}"
    whole = indented_as(file, whole, indent)
    last = node.end_lineno or node.lineno
    below = source.line_starts[last] if last < len(source.line_starts) else len(source.text)
    lead = "" if source.text[below - 1 : below] in ("\n", "\r") else "\n"
    if lead:  # the file ends without one, and goes on to
        whole = whole.removesuffix("\n")
    return [
        *edits,
        Edit(start, end, ""),
        Edit(at, at + len(node.name), hidden),
        Edit(below, below, f"{lead}{whole}"),
    ], shown


def _decorator_text(site: Site, shortened: ShortenedCall, function: ast.expr) -> str:
    """The call without the function: `filter_jit`, or `filter_jit(donate="all")`."""
    text = shortened.text
    name = site.text(site.call.func)
    inside = text[len(name) :].strip()
    given = site.text(function)
    if given not in inside or "#" in inside:
        raise NotRewritten(f"a comment in the call at line {site.call.lineno} would be lost")
    left = inside[1:-1].replace(given, "", 1).strip().removeprefix("fun=").strip().removeprefix(",").strip()
    left = " ".join(left.rstrip(",").split())
    return f"{name}({left})" if left else name


def _signature_text(site: Site, target: WithoutBody, requested: RequestedShardings) -> str:
    parameters = target.parameters
    if requested.inputs is None:
        return "*args, **kwargs"
    if parameters.star or parameters.double_star or parameters.keyword_only:
        raise NotRewritten(f"`{target.text}` takes more than positional arguments")
    if parameters.required < len(parameters.positional) and not isinstance(requested.inputs, ShardingPerArgument):
        raise OutOfReach(
            f"`{target.text}` has parameters with defaults, and the entries at line {site.call.lineno} omit them"
        )
    return ", ".join(_passed_parameters(target, requested))


def _passed_parameters(target: WithoutBody, requested: RequestedShardings) -> list[str]:
    """The parameters that are given: of those with defaults as many as in_shardings has entries for."""
    names, required = list(target.parameters.positional), target.parameters.required
    if isinstance(requested.inputs, ShardingPerArgument) and required <= len(requested.inputs.texts) <= len(names):
        return names[: len(requested.inputs.texts)]
    return names


def _write_body(
    site: Site, target: WithoutBody, requested: RequestedShardings, function: str, indent: str, node: ast.stmt
) -> tuple[list[Edit], str, list[str]]:
    """The imports it needs, the lines of the body, and what they write."""
    shard, imports = spell_name(site.program, site.file, node, "equinox.filter_shard")
    names = _passed_parameters(target, requested)
    given = ", ".join(names) if requested.inputs is not None else "*args, **kwargs"
    _check_names(site, requested, names, node)
    room = line_length(site.file) - len(indent) - len(UNIT)
    lines = input_constraint_lines(shard, names, requested.inputs, 0, f"`{target.text}`", room)
    call = f"{function}({given})"
    returned = (
        [f"return {call}"] if requested.outputs is None else result_statements(shard, call, requested.outputs, room)
    )
    every = [*requested.above_inputs, *lines, *requested.above_outputs, *returned]
    text = "".join(f"{indent}{UNIT}{part}\n" for line in every for part in line.split("\n"))
    return list(imports), text, [*lines, *returned]


def result_statements(shard: str, call: str, asked: SingleSharding | ShardingPerArgument, room: int) -> list[str]:
    """The statements that constrain what a call gives, and return it."""
    if isinstance(asked, ShardingPerArgument) and (
        None in asked.texts or len(asked.texts) == 1 or asked.optional or asked.trees
    ):
        parts = [f"result{index}" for index in range(len(asked.texts))]
        made = [asked.constrain_variable(shard, part, text) for part, text in zip(parts, asked.texts, strict=True)]
        comma = "," if len(parts) == 1 else ""
        return [f"{', '.join(parts)}{comma} = {call}", f"return {', '.join(made)}{comma}"]
    if isinstance(asked, SingleSharding) and asked.when:
        again = f"result = {asked.constrain_value(shard, 'result')}"
        return [f"result = {call}", f"if {asked.when}:\n{UNIT}{again}", "return result"]
    if asked.parted is not None and isinstance(asked, SingleSharding):
        return [f"return {asked.constrain_value(shard, call)}"]
    text = asked.text if isinstance(asked, SingleSharding) else f"({', '.join(text or '' for text in asked.texts)})"
    line = f"return {shard}({call}, {text})"
    if len(line) <= room:
        return [line]
    return [f"return {shard}(\n{UNIT}{call},\n{UNIT}{text},\n)"]


def _check_names(site: Site, requested: RequestedShardings, names: list[str], node: ast.stmt) -> None:
    """The shardings must mean the same in the new function, which is made where they are given."""
    for source in (*expressions_in_shardings(requested.inputs), *expressions_in_shardings(requested.outputs)):
        if (change := changed_later(site, source)) is not None:
            raise NotRewritten(change.reason)
        for part in walk_nodes(source):
            if isinstance(part, ast.Call) and not gives_the_same(site, part):
                raise NotRewritten(
                    f"`{site.text(part)}` at line {part.lineno} would be called at every trace: assign "
                    "its result to a variable first"
                )
            if isinstance(part, ast.Name) and part.id in (*names, "args", "kwargs"):
                raise NotRewritten(f"`{part.id}` at line {part.lineno} is also the name of a parameter")
            if isinstance(part, ast.Name) and _is_rebound(site.file.evaluation_scope(node), part.id):
                raise NotRewritten(f"`{part.id}` at line {part.lineno} is assigned more than once")


def _is_rebound(scope: Scope, name: str) -> bool:
    return any(len(outer.bindings.get(name, ())) > 1 for outer in scope.enclosing_scopes())
