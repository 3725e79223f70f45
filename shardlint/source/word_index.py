"""Which files of a project hold a word."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from shardlint.source.screen import words_of
from shardlint.source.searches import STAR


class WordIndex:
    """The files of a project by the words in them, as they were when it was made."""

    def __init__(self, texts: Iterable[tuple[Path, bytes]]) -> None:
        self._paths: list[Path] = []
        self._places: dict[bytes, list[int]] = {}
        """The places in `_paths` of the files that hold a word."""
        self._starring: set[int] = set()
        """Of those that import all there is from somewhere."""
        for place, (path, data) in enumerate(texts):
            self._paths.append(path)
            if STAR in data:
                self._starring.add(place)
            for word in words_of(data):
                self._places.setdefault(word, []).append(place)

    def files_with_words(self, words: Iterable[str], starring: bool = False) -> list[Path]:
        """The files that hold all of some words, in the order of the project; only those with a star, if asked to."""
        found = set.intersection(*(set(self._places.get(word.encode(), ())) for word in words))
        return [self._paths[place] for place in sorted(found & self._starring if starring else found)]
