"""Reads of the first entry of what a pmapped function returned: `losses[0]`."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from shardlint.model.reach import readers
from shardlint.rules_api.site import Site
from shardlint.source.patterns import regex
from shardlint.syntax import FileFacts
from shardlint.syntax.nodes import walk
from shardlint_rules.shard_map.per_device import called_from_elsewhere, pmapped_calls

# What is one number of all examples, by its name.
_MEASURE = regex(
    r"(?i)(?:^|_)(?:\w*loss(?:es)?|acc(?:urac(?:y|ies))?|nll|r?mse|mae|err(?:ors?)?|perplexity|metrics?)(?:$|_)"
)
# Names that say that one device, or one of several runs, is meant.
_ONE = regex(r"(?i)seed|member|replica|agent|device|local|shard|first|chain|particle|example|sample|row")


def first_measures(site: Site) -> Iterator[ast.Subscript]:
    """The reads, in the file, of the first entry of a measure that pmapped functions returned, and of no other one."""
    for call in _calls(site):
        statement = site.file.parent(call)
        for target in statement.targets if isinstance(statement, ast.Assign) else ():
            for name in walk(target):
                if isinstance(name, ast.Name) and isinstance(name.ctx, ast.Store):
                    yield from _firsts(site.file, name)


def _calls(site: Site) -> Iterator[ast.Call]:
    if site.form != "line":
        yield from pmapped_calls(site)
        return
    elsewhere = called_from_elsewhere(site)
    if elsewhere is not None:
        yield elsewhere


def _firsts(file: FileFacts, name: ast.Name) -> Iterator[ast.Subscript]:
    """The reads of a first entry, where the value is read in no other way."""
    found: list[ast.Subscript] = []
    for read, _ in readers(file, name):
        node: ast.expr = read
        parent = file.parent(node)
        said = name.id
        while isinstance(parent, ast.Attribute | ast.Subscript) and parent.value is node:
            key = parent.attr if isinstance(parent, ast.Attribute) else _key(parent)
            if key is None:
                break
            said, node, parent = key, parent, file.parent(parent)
        if not isinstance(parent, ast.Subscript) or parent.value is not node or not _zero(parent.slice):
            if node is read:  # `losses.mean()` beside it: all of them are looked at
                return
            continue
        if _MEASURE.search(said) and not _ONE.search(_around(file, parent, said)):
            found.append(parent)
    yield from found


def _key(node: ast.Subscript) -> str | None:
    return str(node.slice.value) if isinstance(node.slice, ast.Constant) and isinstance(node.slice.value, str) else None


def _zero(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value == 0 and node.value is not False


def _around(file: FileFacts, read: ast.Subscript, said: str) -> str:
    """The names that tell what is meant: of the value, of what it is bound to, of the text that it is printed in."""
    statement = file.statement(read)
    texts = [said]
    if isinstance(statement, ast.Assign):
        texts += [file.text(one) for one in statement.targets]
    elif isinstance(statement, ast.Expr):
        texts += [str(one.value) for one in walk(statement) if isinstance(one, ast.Constant)]
    return " ".join(texts)
