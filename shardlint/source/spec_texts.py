"""What a text says of axes in specs and outside of them: by its characters, so that it need not parse."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import lru_cache

from shardlint.source.patterns import regex

# Specs as they are written, also over several lines; one of another name is left, and what is in it counts as said.
_SPECS = regex(r"\b(?:P|PS|PSpec|PartitionSpec)\((?:[^()]|\((?:[^()]|\([^()]*\))*\))*\)")
# A mesh takes a spec for the names of its axes, too.
_MESHES = regex(r"\b(?:Mesh|make_mesh)\((?:[^()]|\((?:[^()]|\([^()]*\))*\))*\)")
_WORD = regex(r"\w+")
_QUOTED = regex(r"""["'](\w+)["']""")


@lru_cache(256)
def words_outside(text: str) -> frozenset[str]:
    """The words of a text outside of specs, and those of specs that a mesh takes for its axes."""
    return frozenset(_outside(text))


def _outside(text: str) -> Iterator[str]:
    yield from _WORD.findall(_SPECS.sub(" ", text))
    for made in _MESHES.finditer(text):
        yield from _WORD.findall(made[0])


def axes_of_specs(text: str) -> frozenset[str]:
    """The names in quotes that the specs of a text hold."""
    return frozenset(name[1] for spec in _SPECS.finditer(text) for name in _QUOTED.finditer(spec[0]))


ASKED: dict[str, Callable[[str, str], str]] = {
    "outside": lambda text, word: "1" if word in words_outside(text) else "",
    "axes": lambda text, _: ",".join(sorted(axes_of_specs(text))),
}
"""What may be asked of a text, with a word: the answer, as it is kept with what rests on it."""
