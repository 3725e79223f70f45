"""Cached findings of earlier runs, looked up project by project."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING

from shardlint.config.certainty import Certainty
from shardlint.config.folders import Places, ScopeKey, scope_key
from shardlint.engine.cache.project_cache import Shard
from shardlint.engine.cache.records import Records
from shardlint.engine.results import Options, Outcome
from shardlint.source.find import SelectedFile
from shardlint.source.screen import Screen, Screens
from shardlint.source.store import Store, digest_bytes

if TYPE_CHECKING:
    from shardlint.config.settings import Settings
    from shardlint.engine.changes.revision_files import Base
    from shardlint.engine.groups import Before
    from shardlint.model.project import Answers
    from shardlint.rules_api.rule import Finding
    from shardlint.source.import_graph import ImportGraph
    from shardlint.syntax.parts import Part


class Memory:
    """The projects of a run."""

    def __init__(self, store: Store, options: Options, places: Places) -> None:
        self.store = store
        self.many = False
        """Whether so much is to be checked that several processes had better screen it."""
        self.places = places
        self.options = options
        self._shards: dict[ScopeKey, tuple[str, Shard]] = {}
        self._folders: dict[str, Shard] = {}
        self._known_screens: dict[str, Screens] = {}

    def recall_outcome(self, met: SelectedFile) -> Outcome | None:
        """Return the cached outcome of a file; None if it must be checked."""
        return self._shard_of_file(met.real).recall_outcome(met)

    def keep_outcome(self, real: str, outcome: Outcome) -> None:
        """Keep what was found in a file."""
        self._shard_of_file(real).keep_outcome(real, outcome)

    def search_answers(self) -> dict[ScopeKey, Answers]:
        """Return the current results of searches through the projects."""
        return {key: shard.search_answers() for key, (_, shard) in self._shards.items()}

    def import_graphs(self) -> dict[ScopeKey, Callable[[], ImportGraph | None]]:
        """Which files of the projects import which, for whoever asks."""
        return {key: shard.known_graph for key, (_, shard) in self._shards.items()}

    def find_graph(self, real: str) -> ImportGraph:
        """Which files of the project of a file import which."""
        return self._shard_of_file(real).find_graph()

    def record_before_change(self, real: str) -> Before | None:
        """Return the record of a file from before a change."""
        return self._shard_of_file(real).known_before(real)

    def learn_answers(self, answers: Mapping[ScopeKey, Answers], parts: Mapping[str, tuple[Part, ...]]) -> None:
        """Keep what searches found, and the parts of files."""
        for key, found in answers.items():
            if key in self._shards:
                self._shards[key][1].learn_answers(found, parts)

    @property
    def is_dirty(self) -> bool:
        """True if there is anything to save."""
        return any(shard.is_dirty for _, shard in self._shards.values())

    def compare_with(self, root: str, base: Base) -> None:
        """Tell from here on what was found in the files of a project at a revision."""
        for (_, other), (_, shard) in self._shards.items():
            if other == root:
                shard.compare_with(base)

    def before_revision(self, real: str) -> list[Finding] | None:
        """Return the findings of a file that was the same at the revision; None if they are not known."""
        return self._shard_of_file(real).findings_earlier(real)

    def keep_before_revision(self, real: str, findings: list[Finding]) -> None:
        """Keep what was found in a file at the revision."""
        self._shard_of_file(real).keep_earlier(real, findings)

    def save_new(self) -> None:
        """Save what is new."""
        for name, shard in self._shards.values():
            if shard.is_dirty:
                data = shard.encode_all()
                shard.records.save_new(data["outcomes"])
                self.store.save_data(name, data)

    def _shard_of_file(self, real: str) -> Shard:
        known = self._folders.get(real.rpartition(os.sep)[0])
        if known is None:
            folder = os.path.dirname(real)
            settings = self.places.settings_for(folder)
            key = scope_key(settings, self.places.project_root(folder))
            if key not in self._shards:
                options = self.options
                asks = [options.select, options.ignore, options.harm, options.extend_select]
                targets = sorted(options.targets.items())
                about = json.dumps([key, repr(settings), *asks, options.certainty, targets])
                name = f"{digest_bytes(about.encode())}.json"
                loaded = self.store.load_data(name)
                # Whoever asks for rules that there are not is told so, also where nothing would be checked.
                own = (settings.select, settings.extend_select, settings.ignore, settings.per_file_ignores)
                asked = any((*asks, *own))
                new = loaded is None
                sure = settings.least_certainty(options.certainty)
                screens = partial(self._make_screens, sure, settings, new and asked, new)
                shard = Shard(loaded, key[1], self.places.tree, screens, Records(self.store, name))
                self._shards[key] = name, shard
            known = self._folders[real.rpartition(os.sep)[0]] = self._shards[key][1]
        return known

    def _make_screens(self, sure: Certainty, settings: Settings, asked: bool, new: bool) -> Screens | None:
        """The screen of all rules for whatever releases, and those for projects that do not hold some word.

        None where a file had better be checked: rules were asked for by name, or much of a `new` project is checked.
        """
        if asked or (new and self.many):
            return None
        own = settings.own_names
        name = f"words-{sure}.json"
        if own.triggering_names:
            name = f"{digest_bytes(json.dumps(['words', sure, own.triggering_names]).encode())}.json"
        if name not in self._known_screens:
            try:
                kept = self.store.load_data(name) or {}
                whole = Screen.load_screen(kept["all"])
                found: Screens = (
                    whole,
                    {str(module): whole.select_rules(left) for module, left in kept["without"].items()},
                )
            except (TypeError, ValueError, AttributeError, KeyError):
                from shardlint.engine.catalogue import recall_cards
                from shardlint.engine.index import make_screens

                recall_cards(self.store)
                found = make_screens(sure, own)
                without = {module: one.difference_from(found[0]) for module, one in found[1].items()}
                self.store.save_data(name, {"all": found[0].dump_screen(), "without": without})
            self._known_screens[name] = found
        return self._known_screens[name]
