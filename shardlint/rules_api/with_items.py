"""Edits of `with` items."""

from __future__ import annotations

import ast

from shardlint.rules_api.rule import Edit
from shardlint.rules_api.site import Site


def enter_by_function(site: Site, item: ast.withitem, function: str) -> list[Edit]:
    """Edits that make what a `with` item enters the argument of a library function. What is behind its `as` is bound
    in a line above.
    """
    name, imports = site.spell(function)
    node, target = item.context_expr, item.optional_vars
    if target is None:
        return [*site.wrap_in_call(node, name), *imports]
    statement = site.file.parent(item)
    assert isinstance(statement, ast.With)
    line = site.file.source.offset_of(statement.lineno, 0)
    start = site.file.character_span(statement)[0]
    indent = site.file.source.text[line:start]
    lead = f"{indent}{site.text(target)} = "
    text = _move_to_line(site.text(node), len(lead) - (site.file.character_span(node)[0] - line))
    bound = f"{lead}{text}{site.file.source.common_newline}"
    entered = Edit(
        site.file.character_span(node)[0], site.file.character_span(target)[1], f"{name}({site.text(target)})"
    )
    return [Edit(line, line, bound), entered, *imports]


def _move_to_line(text: str, by: int) -> str:
    """An expression whose lines stand below its bracket, written elsewhere on its line."""
    first, *others = text.split("\n")
    if first.rstrip().endswith(("(", "[", "{")) or '"""' in text or "'''" in text:
        return text
    if by < 0:
        others = [line[-by:] if not line[:-by].strip() else line for line in others]
    else:
        others = [" " * by + line for line in others]
    return "\n".join([first, *others])
