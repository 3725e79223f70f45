"""A call with one more keyword argument, laid out as its others are. libcst is imported only when a rule rewrites."""

from __future__ import annotations

import libcst as cst

from shardlint.rules_api.cst import make_keyword_argument, parse_expression, with_arguments


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
