"""Whether a file is worth parsing, by its bytes: three of four are not."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
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
it is enough alone). A text that begins with `(?` is a regular expression."""


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
        texts = _Texts(data)
        found = []
        for needle in words:
            word, asked = self._needles[needle]
            if any(
                (not near or any(map(texts.__getitem__, near)))
                and (library not in _MENTIONS or texts.mention(library))
                for library, near in asked
            ):
                found.append(word)
        return sorted(found)


class _Texts(dict[bytes, bool]):
    """Which texts a file holds: each is looked for once."""

    def __init__(self, data: bytes) -> None:
        self.data = data

    def __missing__(self, text: bytes) -> bool:
        found = self[text] = (
            re.search(text, self.data) is not None if text.startswith(b"(?") else text in self.data
        )
        return found

    def mention(self, library: str) -> bool:
        """Whether a file names a library or a part of it.

        `update` is in every third file, and is Flax's in few: one that names neither Flax nor a part of it has none.
        (`device_put` may be handed on by a module of the project; it means the same thing everywhere.)
        """
        return any(map(self.__getitem__, _MENTIONS[library]))
