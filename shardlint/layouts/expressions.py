"""Expressions: what each kind comes to."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from shardlint.layouts.attributes import attribute_of_value
from shardlint.layouts.iteration import MOST_ITEMS, evaluate_iterable, join_items, known_items
from shardlint.layouts.methods import enter_value
from shardlint.layouts.operators import (
    LARGEST,
    NUMBERS,
    apply_binary,
    apply_boolean,
    apply_unary,
    call_library,
    compare_values,
    truth_of,
    truth_of_condition,
)
from shardlint.layouts.subscripts import subscript_value
from shardlint.layouts.values import (
    AnyTree,
    DictValue,
    Library,
    ListValue,
    Transformed,
    Unknown,
    Value,
    function_of,
    join_values,
)
from shardlint.model.values import Place

if TYPE_CHECKING:
    from shardlint.layouts.run_state import RunState

def _evaluate_constant(run: RunState, node: ast.Constant) -> Value:
    value: Value = node.value
    return Unknown("a large number") if isinstance(value, int) and abs(value) > LARGEST else value


def _evaluate_attribute(run: RunState, node: ast.Attribute) -> Value:
    return attribute_of_value(run, run.evaluate_expression(node.value), node.attr, Place(run.frame.file, node))


def _evaluate_subscript(run: RunState, node: ast.Subscript) -> Value:
    return subscript_value(
        run,
        run.evaluate_expression(node.value),
        run.evaluate_expression(node.slice),
        Place(run.frame.file, node),
    )


def _evaluate_binary(run: RunState, node: ast.BinOp) -> Value:
    return apply_binary(
        run,
        node.op,
        run.evaluate_expression(node.left),
        run.evaluate_expression(node.right),
        Place(run.frame.file, node),
    )


def _evaluate_comparison(run: RunState, node: ast.Compare) -> Value:
    return compare_values(run, [run.evaluate_expression(one) for one in (node.left, *node.comparators)], node.ops, node)


def _evaluate_tuple(run: RunState, node: ast.Tuple) -> Value:
    found = _evaluate_elements(run, node.elts)
    return Unknown("star items") if found is None else tuple(found)


def _evaluate_list(run: RunState, node: ast.List | ast.Set) -> Value:
    found = _evaluate_elements(run, node.elts)
    return ListValue(found or [], found is None, region=run.region)


def _evaluate_conditional(run: RunState, node: ast.IfExp) -> Value:
    known = truth_of_condition(run, node.test)
    if known is not None:
        return run.evaluate_expression(node.body if known else node.orelse)
    run.branches += 1
    try:
        return join_values(run.evaluate_expression(node.body), run.evaluate_expression(node.orelse))
    finally:
        run.branches -= 1


def _evaluate_walrus(run: RunState, node: ast.NamedExpr) -> Value:
    found = run.evaluate_expression(node.value)
    run.assign_target(node.target, found)
    return found


def _list_comprehension(run: RunState, node: ast.ListComp | ast.GeneratorExp | ast.SetComp) -> Value:
    made = ListValue(region=run.region)
    _run_comprehension(run, node.generators, lambda: made.items.append(run.evaluate_expression(node.elt)), made)
    return made


def _dict_comprehension(run: RunState, node: ast.DictComp) -> Value:
    made = DictValue(region=run.region)
    _run_comprehension(
        run,
        node.generators,
        lambda: enter_value(made, run.evaluate_expression(node.key), run.evaluate_expression(node.value)),
        made,
    )
    return made


def _evaluate_slice(run: RunState, node: ast.Slice) -> Value:
    return slice(
        *(
            None if part is None else run.evaluate_expression(part)
            for part in (node.lower, node.upper, node.step)
        )
    )


def _text_of_parts(run: RunState, node: ast.JoinedStr) -> Value:
    texts = [_format_part(run, part) for part in node.values]
    return "".join(texts) if all(isinstance(one, str) for one in texts) else Unknown("text")  # type: ignore[arg-type]


def _evaluate_yield(run: RunState, node: ast.Yield) -> Value:
    _record_yielded(run, [run.evaluate_expression(node.value) if node.value is not None else None])
    return Unknown("what is sent")


def _yield_from(run: RunState, node: ast.YieldFrom) -> Value:
    inner = run.evaluate_expression(node.value)
    _record_yielded(run, known_items(run, inner) or [join_items(run, inner)])
    return Unknown("what is sent")


def matches_pattern(run: RunState, pattern: ast.pattern, value: Value) -> bool | None:
    """Return whether a value fits a pattern, whose names it binds; None where that is not known."""
    match pattern:
        case ast.MatchValue(value=expression):
            return truth_of(_compare_plain_values(value, run.evaluate_expression(expression)))
        case ast.MatchSingleton(value=constant):
            return None if isinstance(value, Unknown) else value is constant
        case ast.MatchAs(pattern=inner, name=name):
            fits = True if inner is None else matches_pattern(run, inner, value)
            if name is not None:
                run.bind_name(name, value)
            return fits
        case ast.MatchOr(patterns=patterns):
            found = [matches_pattern(run, one, value) for one in patterns]
            return True if True in found else None if None in found else False
        case ast.MatchSequence(patterns=patterns) if isinstance(value, tuple):
            star = next((place for place, one in enumerate(patterns) if isinstance(one, ast.MatchStar)), None)
            if star is None and len(patterns) != len(value):
                return False
            if star is not None and len(value) < len(patterns) - 1:
                return False
            after = len(patterns) - star - 1 if star is not None else 0
            pairs = list(zip(patterns[:star], value, strict=False))
            if star is not None:
                rest = patterns[star]
                if isinstance(rest, ast.MatchStar) and rest.name is not None:
                    run.bind_name(rest.name, ListValue(list(value[star : len(value) - after]), region=run.region))
                pairs += zip(patterns[star + 1 :], value[len(value) - after :], strict=False)
            found = [matches_pattern(run, one, item) for one, item in pairs]
            return False if False in found else None if None in found else True
    return None


def _compare_plain_values(one: Value, two: Value) -> Value:
    plain = (str, *NUMBERS, tuple, type(None))
    return one == two if isinstance(one, plain) and isinstance(two, plain) else Unknown("a comparison")


def _record_yielded(run: RunState, values: Iterable[Value]) -> None:
    sink = run.frame.yielded
    if sink is not None:
        sink.items += values
        sink.open = sink.open or run.region is not sink.region


def _format_part(run: RunState, part: ast.expr) -> str | None:
    if isinstance(part, ast.Constant):
        return str(part.value)
    if isinstance(part, ast.FormattedValue):
        value = run.evaluate_expression(part.value)
        if isinstance(value, str | int) and part.format_spec is None and part.conversion == -1:
            return str(value)
        if part.format_spec is not None and part.conversion == -1:
            call_library(run, "shardlint.scalar", (value,), Place(run.frame.file, part.value))
    return None


def _evaluate_elements(run: RunState, nodes: list[ast.expr]) -> list[Value] | None:
    found: list[Value] | None = []
    for node in nodes:
        if isinstance(node, ast.Starred):
            more = known_items(run, run.evaluate_expression(node.value))
            if more is None or found is None:
                found = None
            else:
                found += more
        else:
            value = run.evaluate_expression(node)
            if found is not None:
                found.append(value)
    return found


def _evaluate_dict(run: RunState, node: ast.Dict) -> Value:
    made = DictValue(region=run.region, written=Place(run.frame.file, node))
    for key, given in zip(node.keys, node.values, strict=True):
        value = run.evaluate_expression(given)
        if key is None:
            if isinstance(value, DictValue):
                made.entries.update(value.entries)
                made.open = made.open or value.open
            else:
                made.open = True
        else:
            enter_value(made, run.evaluate_expression(key), value)
    return made


def _run_comprehension(
    run: RunState,
    generators: list[ast.comprehension],
    add: Callable[[], None],
    made: ListValue | DictValue,
) -> None:
    """Run the body of a comprehension for each item that is known; else once, and what it makes is open."""
    frame, before = run.frame, dict(run.frame.names)
    first, *rest = generators

    def run_iteration(item: Value) -> None:
        run.assign_target(first.target, item)
        for test in first.ifs:
            known = truth_of_condition(run, test)
            if known is False:
                return
            if known is None:
                made.open = True
        if rest:
            _run_comprehension(run, rest, add, made)
        else:
            add()

    source = evaluate_iterable(run, first.iter)
    known = known_items(run, source)
    if known is None or len(known) > MOST_ITEMS:
        made.open = True
        run_iteration(join_items(run, source))
    else:
        for item in known:
            run_iteration(item)
    walrus = {name: value for name, value in frame.names.items() if name not in before}
    frame.names = {**before, **walrus} if walrus else before


def _evaluate_call(run: RunState, node: ast.Call) -> Value:
    function = run.evaluate_expression(node.func)
    if node.args and isinstance(node.args[0], ast.GeneratorExp) and function == Library("builtins.next"):
        return Unknown("the first of what a generator gives")
    args: list[Value] = []
    keywords: dict[str, Value] = {}
    opened = False
    for one in node.args:
        if isinstance(one, ast.Starred):
            given = run.evaluate_expression(one.value)
            if isinstance(given, AnyTree):
                more: list[Value] | None = [given] * _count_missing(function, args, keywords)
            else:
                more = known_items(run, given)
            if more is None:
                opened = True
            elif not opened:
                args += more
        else:
            value = run.evaluate_expression(one)
            if not opened:
                args.append(value)
    for keyword in node.keywords:
        value = run.evaluate_expression(keyword.value)
        if keyword.arg is not None:
            keywords[keyword.arg] = value
        elif isinstance(value, AnyTree):
            args += [value] * _count_missing(function, args, keywords)
        elif isinstance(value, DictValue) and not value.open:
            keywords.update({key: one for key, one in value.entries.items() if isinstance(key, str)})
        else:
            opened = True
    found = run.call_value(function, tuple(args), keywords, Place(run.frame.file, node), opened)
    if getattr(node.func, "attr", "") in ("enter_context", "__enter__"):
        run.mesh, run.mesh_known = None, False
    return found


def _count_missing(function: Value, args: list[Value], keywords: dict[str, Value]) -> int:
    """How many arguments a function requires beside some."""
    found = function_of(function)
    if found is None or (function is not found and not isinstance(function, Transformed)):
        return 0
    names = found.positional_parameters
    required = names[: len(names) - len(found.node.args.defaults)][len(args) :]
    return sum(name not in keywords for name in required)


def readable_target(target: ast.expr) -> ast.expr:
    """The target of an augmented assignment as what is read."""
    match target:
        case ast.Name(id=name):
            return ast.copy_location(ast.Name(name, ast.Load()), target)
        case ast.Attribute(value=value, attr=name):
            return ast.copy_location(ast.Attribute(value, name, ast.Load()), target)
        case ast.Subscript(value=value, slice=index):
            return ast.copy_location(ast.Subscript(value, index, ast.Load()), target)
    return target


EVALUATORS: dict[type[ast.AST], Callable[[RunState, Any], Value]] = {
    ast.Name: lambda run, node: run.lookup_name(node.id),
    ast.Constant: _evaluate_constant,
    ast.Attribute: _evaluate_attribute,
    ast.Call: _evaluate_call,
    ast.Subscript: _evaluate_subscript,
    ast.BinOp: _evaluate_binary,
    ast.UnaryOp: lambda run, node: apply_unary(run, node.op, node.operand, node),
    ast.Compare: _evaluate_comparison,
    ast.BoolOp: lambda run, node: apply_boolean(run, node.op, node.values),
    ast.Tuple: _evaluate_tuple,
    ast.List: _evaluate_list,
    ast.Set: _evaluate_list,
    ast.Dict: _evaluate_dict,
    ast.IfExp: _evaluate_conditional,
    ast.Lambda: lambda run, node: run.make_function(node),
    ast.NamedExpr: _evaluate_walrus,
    ast.ListComp: _list_comprehension,
    ast.GeneratorExp: _list_comprehension,
    ast.SetComp: _list_comprehension,
    ast.DictComp: _dict_comprehension,
    ast.Slice: _evaluate_slice,
    ast.JoinedStr: _text_of_parts,
    ast.Await: lambda run, node: run.evaluate_expression(node.value),
    ast.Yield: _evaluate_yield,
    ast.YieldFrom: _yield_from,
}
"""How each kind of expression is evaluated. Those that are not modelled are missing."""
