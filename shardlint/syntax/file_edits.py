"""Changes of one file by an edit, for caches that depend on parts of it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

from shardlint.source.code import code_of
from shardlint.source.lazy import dataclass
from shardlint.source.searches import BOUND, GLOBALS, OF_FILES, PART, SAYS, WITHIN, WORD, holds_word
from shardlint.source.store import digest_bytes
from shardlint.source.text import Source
from shardlint.source.words import names_bound_to_calls, rebound_globals
from shardlint.syntax.parts import EVERY, OUTLINE, function_of_header, parts_of, texts_of_parts

_Need = Path | tuple[str, ...]


class Text(NamedTuple):
    """A text, and what stands in each of its parts."""

    whole: str
    parts: Mapping[str, str]

    @staticmethod
    def parse_text(source: Source, path: Path) -> Text | None:
        """The parts of a text; None where it cannot be parsed."""
        parts = parts_of(source, path)
        return None if parts is None else Text(source.text, texts_of_parts(source.text, parts))


def code_digests(text: Text) -> dict[str, str]:
    """By what the code of each part is known; a comment changes none."""
    return {name: digest_bytes(code_of(_encode_text(said))) for name, said in text.parts.items()}


@dataclass(frozen=True)
class Edited:
    """A file that is no longer as it was. `parts` are the names of those that changed; None where all may have."""

    now: Text | None
    parts: frozenset[str] | None

    @staticmethod
    def compare_digests(before: Mapping[str, str], now: Text | None, after: Mapping[str, str]) -> Edited:
        """Return the changes by digests of the parts, before and after."""
        if now is None or not before:
            return Edited(now, None)
        changed = {name for name in before.keys() | after.keys() if before.get(name) != after.get(name)}
        if OUTLINE in changed or _function_headers(before) != _function_headers(after):
            changed.add(EVERY)
            if not _only_adds(before, now, after):
                changed.add(OUTLINE)
        return Edited(now, frozenset(changed))

    def may_have_changed(self, need: _Need) -> bool:
        """Return whether a noted fact of the file may have changed."""
        if self.parts is not None and not self.parts:
            return False
        if isinstance(need, Path) or need[0] not in OF_FILES or self.parts is None or self.now is None:
            return True
        kind, _, *said = need
        if kind == PART:
            return not self.parts.isdisjoint(said)
        if kind == SAYS:
            return (said[0] in self.now.whole) != bool(said[1])
        if kind == GLOBALS:
            return ",".join(sorted(rebound_globals(self.now.whole))) != said[0]
        if kind == BOUND:
            return ",".join(sorted(names_bound_to_calls(self.now.whole, said[0].split(",")))) != said[1]
        # What no longer holds the word or text was noted by itself.
        changed = [self.now.parts.get(name, "") for name in self.parts - {OUTLINE}]
        if kind == WORD:
            return any(
                holds_word(_encode_text(text), _encode_text(word)) for text in changed for word in said
            )
        return kind != WITHIN or any(said[0] in text.lower() for text in changed)


def _only_adds(before: Mapping[str, str], now: Text, after: Mapping[str, str]) -> bool:
    """Return whether all headers of functions remain in their order, and new ones bind only new names."""
    if _function_headers(before) != [one for one in _function_headers(after) if one[0] in before]:
        return False
    outline = _encode_text(now.parts[OUTLINE])
    new = (function_of_header(name) for name in after if name not in before)
    return not any(name and holds_word(outline, _encode_text(name)) for name in new)


def _function_headers(digests: Mapping[str, str]) -> list[tuple[str, str]]:
    """The headers of functions that are parts, in text order, each with its digest."""
    return [(name, code) for name, code in digests.items() if function_of_header(name)]


def _encode_text(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def noted_file(need: _Need) -> str | None:
    """The file that something was noted of; None of what was asked of the whole project."""
    if isinstance(need, Path):
        return str(need)
    return need[1] if need[0] in OF_FILES else None


def join_needs(needs: Iterable[_Need]) -> frozenset[_Need]:
    """Needs with one for all parts of a file, and one for all words that were looked for in it."""
    found: dict[tuple[str, str], set[str]] = {}
    others: set[_Need] = set()
    for need in needs:
        if isinstance(need, tuple) and need[0] in (PART, WORD):
            found.setdefault((need[0], need[1]), set()).update(need[2:])
        else:
            others.add(need)
    return frozenset(others).union((*key, *sorted(said)) for key, said in found.items())
