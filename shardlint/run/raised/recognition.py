"""Which kind of error an exception is."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from shardlint.run.raised.kinds import KINDS, Kind
from shardlint.run.raised.record import Error


@dataclass(frozen=True)
class RecognisedError:
    """An error of the chain, what kind it is, and the words it is about."""

    error: Error
    kind: Kind | None
    words: tuple[str, ...] = ()
    releases: Mapping[str, str] = field(default_factory=dict)
    """Of what the program had imported."""


_KNOWN = [(kind, re.compile(kind.pattern, re.DOTALL)) for kind in KINDS]


def recognise_error(error: Error, releases: Mapping[str, str] | None = None) -> RecognisedError:
    """Return the kind of an error; of kind None if it is unknown."""
    for kind, pattern in _KNOWN:
        found = pattern.search(error.error_text) if error.is_raised_by_pmap or not kind.in_pmap else None
        if found:
            words = tuple(word.strip("'\"`") for word in found.groupdict().values() if word)
            return RecognisedError(error, kind, words, releases or {})
    return RecognisedError(error, None)
