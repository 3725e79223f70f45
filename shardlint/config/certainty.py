"""How sure shardlint is of a finding, and how sure it must be for the finding to be reported: decided here."""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from shardlint.config.settings import Settings
    from shardlint.engine.results import Options


class Certainty(enum.StrEnum):
    """How far a finding can be relied on, the surest first."""

    PROVEN = "proven"
    """The program text proves it on this release."""
    LIKELY = "likely"
    """This form was right in at least nine of ten judged findings on public code, or where that has none in recorded
    real mistakes: see `shardlint/rules_api/ledger.py`."""
    POSSIBLE = "possible"
    """Worth a look."""

    def meets(self, least: Certainty) -> bool:
        """Whether it is at least as sure as `least`."""
        order = list(Certainty)
        return order.index(self) <= order.index(least)


DEFAULT = Certainty.LIKELY
"""What is reported where nobody says otherwise: this, and what is surer."""


def least(options: Options, settings: Settings) -> Certainty:
    """The least certainty that is reported: the command line wins, and `pedantic` means possible."""
    if options.certainty is not None:
        return options.certainty
    return Certainty.POSSIBLE if settings.pedantic else settings.certainty
