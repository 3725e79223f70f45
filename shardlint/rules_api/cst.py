"""Small slices of source as libcst nodes, and back to text. libcst is imported only when a rule rewrites."""

from __future__ import annotations

import libcst as cst

_EMPTY = cst.Module([])


def parse_expression(text: str) -> cst.BaseExpression:
    """Parse the text of one expression, also when it spans lines inside brackets that are not part of it.

    Raises `libcst.ParserSyntaxError` when it is not an expression.
    """
    try:
        return cst.parse_expression(text)
    except cst.ParserSyntaxError:
        return cst.parse_expression(f"({text})")


def code_of_node(node: cst.CSTNode) -> str:
    """The text of a node."""
    return _EMPTY.code_for_node(node)


def make_keyword_argument(name: str, value: cst.BaseExpression) -> cst.Arg:
    """A keyword argument, spaced as in a call."""
    bare = cst.SimpleWhitespace("")
    equal = cst.AssignEqual(whitespace_before=bare, whitespace_after=bare)
    return cst.Arg(value=value, keyword=cst.Name(name), equal=equal)


def with_arguments(call: cst.Call, args: list[cst.Arg]) -> cst.Call:
    """A call with other arguments: the last one keeps the comma and line break that the call's last one had."""
    if not args:
        return call.with_changes(args=[], whitespace_before_args=cst.SimpleWhitespace(""))
    kept = [
        arg if isinstance(arg.comma, cst.Comma) else arg.with_changes(comma=cst.MaybeSentinel.DEFAULT)
        for arg in args
    ]
    if call.args and args[-1] is not call.args[-1]:
        kept[-1] = _format_as_last(kept[-1], call.args[-1])
    return call.with_changes(args=kept)


def _format_as_last(arg: cst.Arg, old: cst.Arg) -> cst.Arg:
    """The argument with the comma and line break of the call's old last one, but its own comment."""
    own = arg.comma.whitespace_after if isinstance(arg.comma, cst.Comma) else arg.whitespace_after_arg
    trailing = isinstance(old.comma, cst.Comma)
    tail = old.comma.whitespace_after if isinstance(old.comma, cst.Comma) else old.whitespace_after_arg
    if isinstance(tail, cst.ParenthesizedWhitespace):
        bare = tail.first_line.with_changes(whitespace=cst.SimpleWhitespace(""), comment=None)
        first = own.first_line if isinstance(own, cst.ParenthesizedWhitespace) else bare
        tail = tail.with_changes(first_line=first)
    if trailing:
        comma = cst.Comma(whitespace_after=tail)
        return arg.with_changes(comma=comma, whitespace_after_arg=cst.SimpleWhitespace(""))
    return arg.with_changes(comma=cst.MaybeSentinel.DEFAULT, whitespace_after_arg=tail)


def append_argument(call: cst.Call, name: str, text: str) -> cst.Call:
    """The call with `name=text` behind its arguments."""
    added = make_keyword_argument(name, parse_expression(text))
    if not call.args:
        return with_arguments(call, [added])
    before = call.args[:-1]
    separator = before[-1].comma if before else None
    if not isinstance(separator, cst.Comma):
        separator = cst.Comma(whitespace_after=cst.SimpleWhitespace(" "))
    after = separator.whitespace_after
    if isinstance(after, cst.ParenthesizedWhitespace):
        # The line break between two arguments, without the comment that stands there.
        line = after.first_line.with_changes(whitespace=cst.SimpleWhitespace(""), comment=None)
        separator = separator.with_changes(
            whitespace_after=after.with_changes(first_line=line, empty_lines=[])
        )
    bare = cst.SimpleWhitespace("")
    last = call.args[-1].with_changes(comma=separator, whitespace_after_arg=bare)
    return with_arguments(call, [*before, last, added])


def without_keywords(call: cst.Call, names: set[str]) -> cst.Call:
    """A call without some of its keyword arguments."""
    return with_arguments(
        call, [arg for arg in call.args if arg.keyword is None or arg.keyword.value not in names]
    )
