"""What earlier runs found, a project at a time."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from shardlint.cache.shard import Shard
from shardlint.cache.store import Store, digest
from shardlint.outcome import Options, Outcome
from shardlint.places import Places, ScopeKey, scope_key
from shardlint.screen import Screen

if TYPE_CHECKING:
    from shardlint.program.project import Answers

_WORDS = "words.json"


class Memory:
    """The projects of a run."""

    def __init__(self, store: Store, options: Options, places: Places, many: bool = False) -> None:
        self.store = store
        self._many = many
        """Whether so much is to be checked that several processes had better screen it."""
        self.places = places
        self._options = [
            options.select,
            options.ignore,
            options.harm,
            options.pedantic,
            sorted(options.targets.items()),
        ]
        self._shards: dict[ScopeKey, tuple[str, Shard]] = {}
        self._folders: dict[str, Shard] = {}
        self._screen: Screen | None = None

    def recall(self, path: Path, real: str) -> Outcome | None:
        """What is known of a file, by the path it was given and its absolute one; None where it must be checked."""
        return self._shard(real).recall(path, real)

    def keep(self, real: str, outcome: Outcome) -> None:
        """Keep what was found in a file."""
        self._shard(real).keep(real, outcome)

    def answers(self) -> dict[ScopeKey, Answers]:
        """What searches through the projects would find."""
        return {key: shard.answers() for key, (_, shard) in self._shards.items()}

    def learn(self, answers: Mapping[ScopeKey, Answers]) -> None:
        """Keep what searches found."""
        for key, found in answers.items():
            if key in self._shards:
                self._shards[key][1].learn(found)

    def save(self) -> None:
        """Save what is new."""
        for name, shard in self._shards.values():
            if shard.dirty:
                self.store.save(name, shard.data())

    def _shard(self, real: str) -> Shard:
        folder = real.rpartition("/")[0] if "/" in real else str(Path(real).parent)
        known = self._folders.get(folder)
        if known is None:
            settings = self.places.settings(folder)
            key = scope_key(settings, self.places.root(folder))
            if key not in self._shards:
                about = json.dumps([key, repr(settings), self._options])
                name = f"{digest(about.encode())}.json"
                loaded = self.store.load(name)
                # Whoever asks for rules that there are not is told so, also where nothing would be checked.
                asked = any((*self._options[:3], settings.select, settings.ignore, settings.per_file_ignores))
                seen = loaded is not None or not (asked or self._many)
                screen = self.screen if seen else None
                self._shards[key] = name, Shard(loaded, key[1], self.places.tree, screen)
            known = self._folders[folder] = self._shards[key][1]
        return known

    @property
    def screen(self) -> Screen:
        """The screen of all rules, whatever is selected and for whatever releases."""
        if self._screen is None:
            try:
                self._screen = Screen.load(self.store.load(_WORDS))
            except (TypeError, ValueError, AttributeError, KeyError):
                from shardlint.dispatch import Wakes
                from shardlint.registry import rules

                self._screen = Wakes.of(rule() for rule in rules()).screen
                self.store.save(_WORDS, self._screen.dump())
        return self._screen
