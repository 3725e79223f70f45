"""A call without some of its arguments, comments kept with what they speak of."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterator, Mapping
from dataclasses import field
from types import MappingProxyType

from shardlint.rewrite.edits import Layer
from shardlint.rules_api.rule import Edit
from shardlint.rules_api.site import Site
from shardlint.source.lazy import dataclass
from shardlint.source.patterns import compile_lazily
from shardlint.syntax.nodes import walk_nodes

_HASH = compile_lazily(r"#[^\r\n]*")
_AFTER = compile_lazily(r"[ \t]*(?:#[^\r\n]*)?")


@dataclass(frozen=True)
class ShortenedCall:
    """The edits that leave a call with fewer arguments, and its text then. `comments` are those of each that went."""

    edits: tuple[Edit, ...]
    text: str
    drops: tuple[str, ...]
    comments: dict[ast.keyword, list[str]]


@dataclass
class _Chunk:
    """An argument with what stands before it, its comma, and the comment behind that: places in the call's text."""

    node: ast.AST
    begin: int
    start: int
    stop: int
    end: int
    own: list[str] = field(default_factory=list)


def cut_keywords(
    site: Site, keywords: set[ast.keyword], instead: Mapping[ast.keyword, str] = MappingProxyType({})
) -> ShortenedCall:
    """The site's call without some keyword arguments, and with text `instead` of others.

    With no arguments left the call is its function; a `functools.partial` with nothing bound, what it was of.
    """
    chunks = _argument_chunks(site)
    kept = [chunk for chunk in chunks if chunk.node not in keywords]
    dropped: list[ast.AST] = list(keywords)
    base = site.file.character_span(site.call)[0]
    if site.form == "call" and not kept:
        edits = [Edit(site.file.character_span(site.call.func)[1] - base, len(site.text()), "")]
    elif site.form == "partial" and len(kept) == 1 and not instead:
        edits = [Edit(0, len(site.text()), site.text(site.call.args[0]))]
        dropped.append(site.call.func)
    elif (alone := _edits_leaving_one_argument(site, kept)) is not None:
        edits = alone
    else:
        edits = list(_argument_edits(site.text(), chunks, kept))
        edits += [
            Edit(chunk.start, chunk.stop, instead[chunk.node])
            for chunk in kept
            if isinstance(chunk.node, ast.keyword) and chunk.node in instead
        ]
    names = {part.id: None for node in dropped for part in walk_nodes(node) if isinstance(part, ast.Name)}
    said = {chunk.node: chunk.own for chunk in chunks if isinstance(chunk.node, ast.keyword)}
    moved = tuple(Edit(edit.start + base, edit.end + base, edit.text) for edit in edits)
    text = Layer.sort_edits(edits).apply_edits(site.text())
    return ShortenedCall(moved, text, tuple(names), {node: said[node] for node in keywords})


def _edits_leaving_one_argument(site: Site, chunks: list[_Chunk]) -> list[Edit] | None:
    """The edits that leave one argument, on the line of its call, where nothing speaks for other lines."""
    if len(chunks) != 1 or "\n" in site.text(chunks[0].node):
        return None
    opening, closing = _argument_brackets(site)
    first, last = Edit(opening + 1, chunks[0].start, ""), Edit(chunks[0].stop, closing, "")
    text = site.text()
    if chunks[0].own or text.count("\n", first.start, first.end) != 1:
        return None
    return [first, last]


def _argument_edits(call: str, chunks: list[_Chunk], kept: list[_Chunk]) -> Iterator[Edit]:
    for chunk in chunks:
        if chunk not in kept:
            yield Edit(chunk.begin, chunk.end, "")
    if kept and kept[0] is not chunks[0]:
        lead = call[kept[0].begin : kept[0].start]
        if not lead.strip() and "\n" not in lead:
            yield Edit(kept[0].begin, kept[0].start, "")
    last = chunks[-1]
    if kept and kept[-1] is not last and "," not in _HASH.sub("", call[last.stop : last.end]):
        comma = kept[-1].stop + call[kept[-1].stop : kept[-1].end].index(",")
        yield Edit(comma, comma + 1, "")


def _argument_brackets(site: Site) -> tuple[int, int]:
    """Where the brackets of the call's arguments are in its text."""
    start = site.file.character_span(site.call)[0]
    after = site.file.character_span(site.call.func)[1] - start
    text = site.text()
    return text.index("(", after), len(text) - 1


def _argument_chunks(site: Site) -> list[_Chunk]:
    call, base = site.text(), site.file.character_span(site.call)[0]
    opening, closing = _argument_brackets(site)
    nodes: list[ast.AST] = sorted(
        [*site.call.args, *site.call.keywords], key=lambda node: site.file.character_span(node)[0]
    )
    starts = [site.file.character_span(node)[0] - base for node in nodes]
    ends = [site.file.character_span(node)[1] - base for node in nodes]
    found = []
    begin = opening + 1
    for index, node in enumerate(nodes):
        limit = starts[index + 1] if index + 1 < len(nodes) else closing
        end = _end_after_comma(call, ends[index], limit)
        before, after = call[begin : starts[index]], call[ends[index] : end]
        own = [*_HASH.findall(before), *comments_in(call[starts[index] : ends[index]]), *_HASH.findall(after)]
        found.append(_Chunk(node, begin, starts[index], ends[index], end, own))
        begin = end
    return found


def _end_after_comma(call: str, end: int, limit: int) -> int:
    """Behind an argument's comma, where it has one, and the comment on that line."""
    place = end
    while place < limit and call[place] != ",":
        if call[place] == "#":
            line = re.compile(r"[^\r\n]*").match(call, place)
            place = line.end() if line is not None else limit
        else:
            place += 1
    if place >= limit:  # the last one, without a comma
        match = _AFTER.match(call, end)
        return match.end() if match is not None else end
    match = _AFTER.match(call, place + 1, limit)
    stop = match.end() if match is not None else place + 1
    return stop if "#" in call[place:stop] else place + 1


def comments_in(text: str) -> list[str]:
    """The comments in the text of an expression."""
    tokens = tokenize.generate_tokens(io.StringIO(f"({text}\n)").readline)
    return [token.string for token in tokens if token.type == tokenize.COMMENT]
