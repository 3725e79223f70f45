"""Reads of the first entry of what a pmapped function returned: `losses[0]`."""

from __future__ import annotations

import ast

from shardlint.model.reach import lookup, readers
from shardlint.rules_api.site import Site
from shardlint.source.patterns import regex
from shardlint.syntax import FileFacts
from shardlint.syntax.nodes import walk

# What is one number of all examples, by its name.
_MEASURE = regex(
    r"(?i)(?:^|_)(?:\w*loss(?:es)?|acc(?:urac(?:y|ies))?|nll|r?mse|mae|err(?:ors?)?|perplexity|metrics?)(?:$|_)"
)
# Names that say that one device, or one of several runs, is meant.
_ONE = regex(r"(?i)seed|member|replica|agent|device|local|shard|first|chain|particle|example|sample|row")


def is_measure_of_all(site: Site, read: ast.Subscript) -> bool:
    """Whether a first entry is read of what is a measure by its name, and the value is read in no other way."""
    name, said = _name_of(read.value)
    if name is None or not _MEASURE.search(said) or _ONE.search(_around(site.file, read, said)):
        return False
    if name is not read.value:
        return True
    bindings, _ = lookup(site.file, name, name.id)
    targets = [one.node for one in bindings if isinstance(one.node, ast.Name)]
    # Where `losses.mean()` stands beside it, all of them are looked at.
    return all(_is_first(site.file, use) for target in targets for use, _ in readers(site.file, target))


def _name_of(node: ast.expr) -> tuple[ast.Name | None, str]:
    """The name from which an attribute or key is read, and the last of these."""
    said = ""
    while not isinstance(node, ast.Name):
        match node:
            case ast.Attribute(value=inner, attr=key) | ast.Subscript(value=inner, slice=ast.Constant(value=str(key))):
                node, said = inner, said or key
            case _:
                return None, ""
    return node, said or node.id


def _is_first(file: FileFacts, use: ast.Name) -> bool:
    parent = file.parent(use)
    return isinstance(parent, ast.Subscript) and isinstance(parent.slice, ast.Constant) and parent.slice.value == 0


def _around(file: FileFacts, read: ast.Subscript, said: str) -> str:
    """The names that tell what is meant: of the value, of what it is bound to, of the text that it is printed in."""
    statement = file.statement(read)
    texts = [said]
    if isinstance(statement, ast.Assign):
        texts += [file.text(one) for one in statement.targets]
    elif isinstance(statement, ast.Expr):
        texts += [str(one.value) for one in walk(statement) if isinstance(one, ast.Constant)]
    return " ".join(texts)
