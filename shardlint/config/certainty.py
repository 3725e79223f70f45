"""How sure shardlint is of a finding."""

from __future__ import annotations

import enum


class Certainty(enum.StrEnum):
    """How far a finding can be relied on, the surest first."""

    PROVEN = "proven"
    """The program text proves it on this release."""
    LIKELY = "likely"
    """It breaks a requirement of a library under one named assumption, or such findings were right in two real
    projects: see `shardlint/rules_api/ledger.py`."""
    POSSIBLE = "possible"
    """Worth a look."""

    def is_at_least(self, least: Certainty) -> bool:
        """Return whether the certainty is at least `least`."""
        order = list(Certainty)
        return order.index(self) <= order.index(least)


DEFAULT = Certainty.LIKELY
"""What is reported where nobody says otherwise: this, and what is surer."""
