"""Whether a file is worth parsing, by its bytes: three of four are not."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any

# Blanks for all that is in no identifier: one translation finds every word of a file, faster than a search for each.
_IN_WORDS = bytes(
    byte if byte > 127 or byte == ord("_") or chr(byte).isalnum() else ord(" ") for byte in range(256)
)

# How a file that uses a library names it or a part of it, also where a module of the project hands that on; or a mesh.
_MENTIONS = {
    "jax": (b"jax", b"jnp"),
    "flax": (b"flax", b"nnx", b"linen"),
    "equinox": (b"equinox", b"eqx"),
    "haliax": (b"haliax", b"hax"),
    "mesh": (b"Mesh", b"mesh"),
}

Words = Mapping[str, Mapping[str, tuple[bytes, ...] | None]]
"""Identifiers to look for: for each library they may be of, the texts of which one must stand in the file too (None:
it is enough alone). A text that begins with `(?` is a regular expression, one that begins with `names:` is asked of
`names_another`."""


# A text that begins so asks for a name that a module does not have: `names:jnp=abs add;jax.lax=abs`. What stands after
# it are modules as files write them, each with the names that it has.
NAMES = b"names:"
_FROM = re.compile(rb"from ([A-Za-z][\w.]*) import (\([^)]*\)|[^\n]*)")
_NAME = re.compile(rb"[A-Za-z_]\w*")


@lru_cache(maxsize=4)
def _known_names(text: bytes) -> dict[bytes, frozenset[bytes]]:
    entries = (entry.partition(b"=") for entry in text[len(NAMES) :].split(b";"))
    return {module: frozenset(names.split()) for module, _, names in entries}


def names_another(data: bytes, text: bytes) -> bool:
    """Whether a file takes a name from a module that does not have it; may be said of a file that takes none."""
    known = _known_names(text)
    for module, names in known.items():
        for piece in data.split(module + b".")[1:]:
            found = _NAME.match(piece)
            if found is not None and found[0] not in names:
                return True
    for found in _FROM.finditer(data):
        if found[1] in known:
            names = known[found[1]]
            taken = re.sub(rb"#[^\n]*", b"", found[2]).strip(b"() \n\\").split(b",")
            if any(one.split()[0] not in names for one in taken if one.split() and one.split()[0] != b"*"):
                return True
    return False


def words_of(data: bytes) -> set[bytes]:
    """The identifiers in a text; in UTF-8, those of other alphabets too."""
    return set(data.translate(_IN_WORDS).split())


class Screen:
    """Looks for identifiers. Knows nothing of rules."""

    def __init__(self, words: Words) -> None:
        self.words = words
        self._needles = {word.encode(): (word, tuple(asked.items())) for word, asked in words.items()}

    @classmethod
    def load(cls, data: Any) -> Screen:
        """A screen from plain data. Raises `AttributeError`, `TypeError` or `ValueError` for what is none."""
        return cls(
            {
                str(word): {
                    str(library): None if near is None else tuple(bytes(text, "utf-8") for text in near)
                    for library, near in asked.items()
                }
                for word, asked in data.items()
            }
        )

    def dump(self) -> dict[str, Any]:
        """The screen as plain data."""
        return {
            word: {
                library: None if near is None else [text.decode() for text in near]
                for library, near in asked.items()
            }
            for word, asked in self.words.items()
        }

    def hits(self, data: bytes) -> list[str]:
        """The identifiers that make a file worth parsing, of those its bytes hold as words of their own."""
        words = self._needles.keys() & data.translate(_IN_WORDS).split()
        return self._near(words, data) if words else []

    def of(self, hits: Iterable[str], data: bytes) -> list[str]:
        """The same, of what a screen for more rules has found."""
        return self._near({word.encode() for word in hits} & self._needles.keys(), data)

    def _near(self, words: set[bytes], data: bytes) -> list[str]:
        texts = Texts(data)
        found = []
        for needle in words:
            word, asked = self._needles[needle]
            if any(texts.meet(library, near) for library, near in asked):
                found.append(word)
        return sorted(found)


class Texts(dict[bytes, bool]):
    """Which texts a file holds: each is looked for once."""

    def __init__(self, data: bytes) -> None:
        self.data = data

    def __missing__(self, text: bytes) -> bool:
        if text.startswith(NAMES):
            found = names_another(self.data, text)
        elif text.startswith(b"(?"):
            found = re.search(text, self.data) is not None
        else:
            found = text in self.data
        self[text] = found
        return found

    def meet(self, library: str, near: tuple[bytes, ...] | None) -> bool:
        """Whether a file is about a library and holds one of the texts, if there are any."""
        about = library not in _MENTIONS or self.mention(library)
        return about and (not near or any(map(self.__getitem__, near)))

    def mention(self, library: str) -> bool:
        """Whether a file names a library or a part of it.

        `update` is in every third file, and is Flax's in few: one that names neither Flax nor a part of it has none.
        (`device_put` may be handed on by a module of the project; it means the same thing everywhere.)
        """
        return any(map(self.__getitem__, _MENTIONS[library]))
