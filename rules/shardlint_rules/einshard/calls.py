"""The calls of einshard: what they are given, and where in the source an expression's elements stand."""

from __future__ import annotations

import ast

from shardlint.libraries.einshard import Element, Expression, Fault, parse_expression
from shardlint.model.values import Constant, Place
from shardlint.rules_api.site import Site
from shardlint.source.lazy import dataclass
from shardlint.source.patterns import compile_lazily
from shardlint.syntax.bindings import lookup_bindings

SHARD = "einshard.einshard"
MAKE = "einshard.make_sharding"
_LITERAL = compile_lazily(r"""[rRuU]?("{3}|'{3}|"|')""")


@dataclass(frozen=True)
class WrittenExpression:
    """The expression a call is given.

    `node` is its string in this file, or the argument where the string stands elsewhere. `body` is the offset of the
    string's first character, None where the text is not that of the expression (escapes, several strings).
    """

    text: str
    node: ast.AST
    body: int | None
    parsed: Expression | Fault

    def file_span(self, start: int, end: int) -> tuple[int, int] | None:
        """Where characters of the expression stand in the file."""
        if self.body is None:
            return None
        return self.body + start, self.body + min(end, len(self.text))

    def span_of_element(self, element: Element) -> tuple[int, int] | None:
        """Where an element stands in the file."""
        return self.file_span(element.start, element.end)


def written_call(site: Site) -> WrittenExpression | None:
    """The expression of a call, where the text tells it."""
    argument = site.argument("expression")
    if argument is None:
        return None
    value = site.value(argument)
    if not isinstance(value, Constant) or not isinstance(value.value, str):
        return None
    node, body = find_text(site, argument, value.value)
    return WrittenExpression(value.value, node, body, parse_expression(value.value))


def find_text(site: Site, argument: ast.AST, text: str) -> tuple[ast.AST, int | None]:
    """The string of an argument, or the argument; and where in the file the text of the string begins."""
    node = _string_node(site, argument)
    return node, _literal_start(site, node, text)


def _string_node(site: Site, argument: ast.AST) -> ast.AST:
    """The string itself where the argument is a name for one of this file."""
    if isinstance(argument, ast.Name):
        bindings, _ = lookup_bindings(site.file, argument, argument.id)
        if (
            len(bindings) == 1
            and bindings[0].kind == "assign"
            and isinstance(bindings[0].value, ast.Constant)
        ):
            return bindings[0].value
    return argument


def _literal_start(site: Site, node: ast.AST, value: str) -> int | None:
    text = site.text(node)
    opening = _LITERAL.match(text)
    if not isinstance(node, ast.Constant) or opening is None:
        return None
    if text[opening.end() : -len(opening[1])] != value:
        return None
    return site.file.character_span(node)[0] + opening.end()


def shape_of_sharded(site: Site) -> tuple[int | None, ...] | None:
    """The shape of the array that is sharded; of `make_sharding`, as much as `n_dims` tells."""
    if site.api == MAKE:
        count = site.arguments.keywords.get("n_dims")
        value = site.value(count.node) if count is not None else None
        if isinstance(value, Constant) and isinstance(value.value, int):
            return (None,) * value.value
        return None
    array = site.argument("arr")
    return site.shape_of(Place(site.file, array)) if array is not None else None
