"""Lines that a fix made longer than a file's lines are, broken at their brackets. The program stays what it is."""

from __future__ import annotations

import io
import tokenize
from collections.abc import Iterable, Iterator, Sequence
from tokenize import TokenInfo

from shardlint.rewrite.edits import Layer, same_program
from shardlint.rules_api.rule import Edit
from shardlint.source.text import Source

# Lines that are longer are so for a reason of their own; where all are short, this much is usual.
_USUAL, _NARROW = 88, 80
_LIMITS = (79, 80, 88, 100, 110, 120)
# A file of so many lines, of which so many nearly reach the usual width of old, keeps to it.
_LONG, _NEAR = 100, 5
_PASSES = 5
# A line that was too long before is broken only if it outgrows the longest line of its file by this factor.
_OUTGROWN = 1.1
_OPEN, _CLOSE = frozenset("([{"), frozenset(")]}")
_LAYOUT = (tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER)


def line_length(text: str) -> int:
    """How long the lines of a text may be: as long as all but a few of them are, and what people then allow."""
    lines = text.splitlines()
    lengths = sorted(len(line) for line in lines if "://" not in line)
    narrow = any(line.startswith("  ") and not line.startswith("   ") for line in lines)
    longest = lengths[-1] if lengths else 0
    if len(lines) >= _LONG and longest <= _NARROW and sum(length > _NARROW - 6 for length in lengths) >= _NEAR:
        return max(longest, _LIMITS[0])
    usual = max(lengths[-1 - len(lengths) // 100] if lengths else 0, _NARROW if narrow else _USUAL)
    return next((limit for limit in _LIMITS if usual <= limit), _LIMITS[-1])


def wrap_lines(before: Source, layer: Layer, after: str, length: int) -> list[Layer]:
    """The layers of edits that break the lines which `layer` made too long."""
    layers: list[Layer] = []
    if "\r" in after.replace("\r\n", ""):
        return layers  # old ends of lines, which tokens of Python 3.11 do not tell
    lines = set(_lines_grown_long(before, layer, after, length))
    for _ in range(_PASSES):
        breaks = (
            Layer.sort_edits(_line_break_edits(after, lines, length, before.common_newline))
            if lines
            else Layer(())
        )
        text = breaks.apply_edits(after)
        if not breaks.edits or not same_program(after, text):
            break
        layers.append(breaks)
        lines = {number for _, numbers in _edited_lines(breaks, text) for number in numbers}
        after = text
    return layers


def _lines_grown_long(before: Source, layer: Layer, after: str, length: int) -> Iterator[int]:
    """The numbers of lines that are too long now and were not, or that outgrow the other lines of the file."""
    longest = max((len(line) for line in before.text.splitlines()), default=0)
    now = after.split("\n")
    for edit, lines in _edited_lines(layer, after):
        ends = edit.text.endswith(("\n", "\r"))  # what follows is a line of its own, as it was
        short = ends or len(before.line_text_at(edit.start)) <= length
        for number in lines[:-1] if ends else lines:
            if short or len(now[number - 1].rstrip("\r")) > _OUTGROWN * longest:
                yield number


def _edited_lines(layer: Layer, after: str) -> Iterator[tuple[Edit, range]]:
    """Each edit of a layer, with the numbers of the lines that hold its text in the text that the layer makes."""
    shift, line, counted = 0, 1, 0
    for edit in sorted(layer.edits, key=lambda one: one.start):
        begin = edit.start + shift
        line += after.count("\n", counted, begin)
        counted = begin
        yield edit, range(line, line + edit.text.count("\n") + 1)
        shift += len(edit.text) - (edit.end - edit.start)


def _line_break_edits(text: str, numbers: Iterable[int], length: int, newline: str) -> Iterator[Edit]:
    lines = text.split("\n")
    long = [
        number
        for number in sorted(numbers)
        if number <= len(lines) and len(lines[number - 1].rstrip("\r")) > length
    ]
    if not long:
        return
    starts = [0]
    for line in lines:
        starts.append(starts[-1] + len(line) + 1)
    try:
        tokens = list(_tokens_of_text(text))
    except (tokenize.TokenError, SyntaxError):
        return
    for number in long:
        broken = _Line(lines[number - 1].rstrip("\r"), number, starts[number - 1], tokens, length, newline)
        yield from broken.break_edits()


def _tokens_of_text(text: str) -> Iterator[TokenInfo]:
    """The tokens, an f-string as one."""
    begin: list[TokenInfo] = []
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        name = tokenize.tok_name[token.type]
        if name.endswith("STRING_START"):
            begin.append(token)
        elif name.endswith("STRING_END"):
            first = begin.pop()
            if not begin:
                yield TokenInfo(tokenize.STRING, "''", first.start, token.end, token.line)
        elif not begin:
            yield token


class _Line:
    """A line that is too long."""

    def __init__(
        self, text: str, number: int, start: int, tokens: Sequence[TokenInfo], length: int, newline: str
    ) -> None:
        self.text, self.number, self.start, self.length, self.newline = text, number, start, length, newline
        here = [index for index, token in enumerate(tokens) if token.start[0] == number]
        self.tokens = [tokens[index] for index in here if tokens[index].type not in _LAYOUT]
        self.indent = text[: len(text) - len(text.lstrip())]
        self.inner = self.indent + ("\t" if self.indent.startswith("\t") else "    ")
        self.depth = _bracket_depth(tokens[: here[0]]) if here else 0
        behind = (
            (token for token in tokens[here[-1] + 1 :] if token.type not in _LAYOUT) if here else iter(())
        )
        following = next(behind, None)
        self.closed = following is not None and following.string in _CLOSE
        across = any(
            token.start[0] < number <= token.end[0] for token in tokens[max(0, (here or [0])[0] - 1) :][:1]
        )
        self.whole = not across and all(
            token.end[0] == number and token.type != tokenize.COMMENT for token in self.tokens
        )

    def break_edits(self) -> Iterator[Edit]:
        """The edits that break it."""
        if not self.tokens or not self.whole:
            return
        if self.tokens[0].string == "from":
            yield from self._break_import()
            return
        commas = [index for index in _top_level_commas(self.tokens) if index + 1 < len(self.tokens)]
        if self.depth and commas and _bracket_depth(self.tokens) == 0:
            yield from self._break_after_tokens(commas, self.indent)
            if self.closed and self.tokens[-1].string != "," and _takes_comma(self.tokens, True):
                yield self._edit_in_line(self.tokens[-1].end[1], self.tokens[-1].end[1], ",")
            return
        begin = 0 if self.depth else self._value_index()
        behind = [index for index in commas if index > begin]
        if begin and behind:
            yield from self._add_brackets(begin, behind)
            return
        pairs = list(_bracket_pairs(self.tokens))
        if pairs:
            least = min(depth for depth, _, _ in pairs)
            _, first, last = max(
                (pair for pair in pairs if pair[0] == least),
                key=lambda pair: self.tokens[pair[2]].start[1] - self.tokens[pair[1]].end[1],
            )
            yield from self._break_bracket(first, last)

    def _break_import(self) -> Iterator[Edit]:
        words = [token.string for token in self.tokens]
        if "(" in words or "import" not in words:
            return
        index = words.index("import")
        yield self._edit_in_line(
            self.tokens[index].end[1], self.tokens[index + 1].start[1], f" ({self.newline}{self.inner}"
        )
        yield from self._break_after_tokens([at for at, word in enumerate(words) if word == ","], self.inner)
        end = self.tokens[-1].end[1]
        yield self._edit_in_line(end, end, f",{self.newline}{self.indent})")

    def _value_index(self) -> int:
        """Where what is returned or assigned begins; 0 where nothing is."""
        depth = begin = 0
        for index, token in enumerate(self.tokens):
            depth += (token.string in _OPEN) - (token.string in _CLOSE) if token.type == tokenize.OP else 0
            if depth == 0 and token.string in ("=", "return"):
                begin = index + 1
        return begin

    def _add_brackets(self, first: int, commas: Sequence[int]) -> Iterator[Edit]:
        """A tuple that has no brackets gets some."""
        begin, end = self.tokens[first].start[1], self.tokens[-1].end[1]
        yield self._edit_in_line(begin, begin, f"({self.newline}{self.inner}")
        yield from self._break_after_tokens(commas, self.inner)
        yield self._edit_in_line(end, end, f",{self.newline}{self.indent})")

    def _break_bracket(self, first: int, last: int) -> Iterator[Edit]:
        inside = self.tokens[first + 1 : last]
        if not inside:
            return
        begin, end = inside[0].start[1], inside[-1].end[1]
        yield self._edit_in_line(self.tokens[first].end[1], begin, self.newline + self.inner)
        comma = ""
        if len(self.inner) + end - begin > self.length:
            commas = [first + 1 + index for index in _top_level_commas(inside) if index + 1 < len(inside)]
            clauses = [first + index for index in _for_clauses(inside)]
            yield from self._break_after_tokens(sorted({*commas, *clauses}), self.inner)
            before = self.tokens[first - 1] if first else None
            attached = before is not None and before.end == self.tokens[first].start
            called = attached and self.tokens[first].string == "("
            subscript = attached and self.tokens[first].string == "["
            if commas and inside[-1].string != "," and not subscript and _takes_comma(inside, called):
                comma = ","
        yield self._edit_in_line(end, self.tokens[last].start[1], comma + self.newline + self.indent)

    def _break_after_tokens(self, indexes: Iterable[int], indent: str) -> Iterator[Edit]:
        for index in indexes:
            yield self._edit_in_line(
                self.tokens[index].end[1], self.tokens[index + 1].start[1], self.newline + indent
            )

    def _edit_in_line(self, start: int, end: int, text: str) -> Edit:
        return Edit(self.start + start, self.start + end, text)


def _bracket_depth(tokens: Iterable[TokenInfo]) -> int:
    return sum(
        (token.string in _OPEN) - (token.string in _CLOSE) for token in tokens if token.type == tokenize.OP
    )


def _bracket_pairs(tokens: Sequence[TokenInfo]) -> Iterator[tuple[int, int, int]]:
    """The brackets that open and close among tokens: how deep, and the two indexes."""
    opened: list[int] = []
    for index, token in enumerate(tokens):
        if token.type != tokenize.OP:
            continue
        if token.string in _OPEN:
            opened.append(index)
        elif token.string in _CLOSE and opened:
            first = opened.pop()
            yield len(opened), first, index


def _for_clauses(tokens: Sequence[TokenInfo]) -> Iterator[int]:
    """Where the `for` clauses of a comprehension begin, in no bracket among the tokens."""
    depth = 0
    for index, token in enumerate(tokens):
        depth += (token.string in _OPEN) - (token.string in _CLOSE) if token.type == tokenize.OP else 0
        if depth == 0 and index and token.string == "for" and tokens[index - 1].string != "async":
            yield index


def _top_level_commas(tokens: Sequence[TokenInfo]) -> Iterator[int]:
    """The commas that are in no bracket among the tokens, nor between the parameters of a lambda or loop."""
    depth = lambdas = 0
    targets = False
    for index, token in enumerate(tokens):
        if token.string == "lambda" and token.type == tokenize.NAME:
            lambdas += depth == 0
        if depth == 0 and token.string in ("for", "in"):
            targets = token.string == "for"
        if token.type != tokenize.OP:
            continue
        depth += (token.string in _OPEN) - (token.string in _CLOSE)
        if depth == 0 and token.string == ":" and lambdas:
            lambdas -= 1
        elif depth == 0 and token.string == "," and not lambdas and not targets:
            yield index


def _takes_comma(tokens: Sequence[TokenInfo], called: bool) -> bool:
    """Return whether a trailing comma may be added in a bracket: not after a generator, and not where it would make a
    tuple.
    """
    depth = 0
    for token in tokens:
        depth += (token.string in _OPEN) - (token.string in _CLOSE) if token.type == tokenize.OP else 0
        if depth == 0 and token.string == "for":
            return False
    return called or any(True for _ in _top_level_commas(tokens))
