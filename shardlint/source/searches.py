"""Searches through the texts of a project."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import lru_cache

_WORD = frozenset(b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_")
Question = tuple[str, ...]
"""What is looked for: its kind and the words. The other questions to a project are which file a module is."""
STAR = b"import *"
# The name of a file may hold what is no UTF-8: it stands in no text.
_ANY = "surrogatepass"
SEARCHES = frozenset(("named", "starred", "attribute", "anywhere", "imported", "calling", "holding"))
PART, WORD, SAYS, WITHIN, GLOBALS, BOUND = "part", "word", "says", "within", "globals", "bound"
OF_FILES = frozenset((PART, WORD, SAYS, WITHIN, GLOBALS, BOUND))
"""The kinds of what may be noted of a file besides the whole of it. The file's path comes second."""
TOGETHER, JOINED = "together", "joined"
"""The kinds of the questions which files may run in one program with a file, and which with one of those, and so on."""


def search_holds(question: Question, data: bytes) -> bool:
    """Return whether a file's bytes match a search."""
    match question:
        case ("named", name, stem):
            return all(holds_word(data, word.encode(errors=_ANY)) for word in (stem, name))
        case ("starred", stem):
            return STAR in data and holds_word(data, stem.encode(errors=_ANY))
        case ("attribute", name):
            return holds_word(data, name.encode(), after=b".")
        case ("anywhere", text):
            return holds_word(data, text.encode())
        case ("imported", module):
            return any(b"import" in line for line in _lines_holding(data, module.encode()))
        case ("calling", *names):
            return any(f"{name}(".encode() in data for name in names)
        case ("holding", *_):
            plain, patterns = _sought_texts(question)
            return any(text in data for text in plain) or any(search(data) for search in patterns)
    raise ValueError(f"no such search: {question}")


@lru_cache(maxsize=256)
def _sought_texts(question: Question) -> tuple[list[bytes], list[Callable[[bytes], object]]]:
    """The texts of which one is looked for, and the patterns."""
    texts = question[1:]
    plain = [text.encode() for text in texts if not text.startswith("(?")]
    return plain, [re.compile(text.encode()).search for text in texts if text.startswith("(?")]


def holds_word(data: bytes, word: bytes, after: bytes = b"") -> bool:
    """Return whether bytes contain a word on its own. `find` runs at memory speed; a regular expression is 40 times
    slower.
    """
    return next(_word_places(data, word, after), None) is not None


def _lines_holding(data: bytes, word: bytes) -> Iterator[bytes]:
    """Each line that holds a word, once: all of a file may be one."""
    end = -1
    for start in _word_places(data, word):
        if start > end:
            begin, end = data.rfind(b"\n", 0, start) + 1, data.find(b"\n", start)
            end = end if end >= 0 else len(data)
            yield data[begin:end]


def _word_places(data: bytes, word: bytes, after: bytes = b"") -> Iterator[int]:
    needle = after + word
    start = data.find(needle)
    while start >= 0:
        end = start + len(needle)
        left_free = bool(after) or start == 0 or data[start - 1] not in _WORD
        if left_free and (end == len(data) or data[end] not in _WORD):
            yield start
        start = data.find(needle, start + 1)
