"""The programs of one set of options, kept between checks and brought up to date with editors and disk."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from dataclasses import field
from pathlib import Path
from typing import Any

from shardlint.config.environments import site_packages
from shardlint.config.folders import Places
from shardlint.engine.catalogue import recall_cards
from shardlint.engine.groups import Before
from shardlint.engine.one_file import Checker
from shardlint.engine.results import Options, Outcome
from shardlint.model.bits import Bits, Need
from shardlint.model.project import Project
from shardlint.model.rechecked_project import InvalidatedFacts
from shardlint.source.decoding import decode_file
from shardlint.source.find import is_path_matched, survey_folder
from shardlint.source.lazy import dataclass
from shardlint.source.store import change_time as changed_at
from shardlint.source.text import Source, Unreadable, read_bytes
from shardlint.source.tree import Stamp, Tree

# The disk is looked at again when a file was opened, saved or closed, when the editor tells of a change, when nobody
# types and this many seconds have passed, and however one types after so many.
_LOOK, _LOOK_ANYWAY = 5.0, 60.0
Overlay = dict[Path, Source]


@dataclass
class _Walk:
    """A project on the disk: its files, and what tells which releases and settings hold."""

    files: dict[str, Stamp]
    telling: list[Any] = field(default_factory=list)


class KeptPrograms:
    """Cached state of the projects under one set of options."""

    def __init__(self, options: Options) -> None:
        self.options = options
        self.overlay: Overlay = {}
        self.outcomes: dict[Path, Outcome] = {}
        """What came of open files, as long as it holds."""
        self.took: dict[Path, float] = {}
        """Seconds of a processor that the last check of each took."""
        self._before: dict[Path, Before] = {}
        """What is known of open files from before something changed."""
        self._bits: dict[Path, Bits] = {}
        """Which bit stands for what each needed: they are many and mostly stay."""
        self._walks: dict[str, _Walk] = {}
        self._looked = 0.0
        self._start_checker({})

    def _start_checker(self, overlay: Overlay) -> None:
        self.places = Places(Tree(), self.options.config)
        recall_cards(self.places.result_store)
        self.checker = Checker(self.options, overlay, self.places, before=self._known_before)
        self.overlay = overlay
        self.outcomes.clear()
        self._before.clear()
        self._bits.clear()
        self._walks.clear()

    def forget_all(self) -> None:
        """Let go of everything: settings changed."""
        self.checker.let_go()
        self._start_checker(self.overlay)

    def bring_up_to_date(self, overlay: Overlay, look: bool) -> None:
        """Bring all up to date with the texts in editors and, if asked to or after a long time, with the disk."""
        changed = set(_differing_files(self.overlay, overlay))
        files: dict[str, dict[Path, int]] = {}
        now = time.monotonic()
        if look or now - self._looked > _LOOK_ANYWAY:
            self._looked = now
            if not self._look_for_changes(overlay, changed, files):
                self.checker.let_go()
                self._start_checker(overlay)
                return
        if changed or files:
            self._restart_checker(overlay, changed, files)
        self.overlay = overlay

    @property
    def is_disk_state_old(self) -> bool:
        """True if the disk was not looked at for some time."""
        return time.monotonic() - self._looked > _LOOK

    def check_open_file(self, path: Path) -> Outcome:
        """Return the outcome of an open file, cached or computed now."""
        known = self.outcomes.get(path)
        if known is None:
            began = time.thread_time()
            known = self.outcomes[path] = self.checker.check_file(path)
            if known.reason is None:
                self.took[path] = time.thread_time() - began
            self._walk_projects()
        return known

    def is_excluded(self, path: Path) -> bool:
        """Return whether the settings leave a file out."""
        settings = self.places.settings_for(str(path.parent))
        return bool(settings.exclude) and is_path_matched(settings.exclude, path, settings.settings_folder)

    def checker_with_texts(self, overlay: dict[Path, Source]) -> Checker:
        """A checker that sees other texts, and knows what is known of the rest."""
        changed = set(_differing_files(self.overlay, overlay))
        return self.checker.make_updated(overlay, changed, {}, beside=True)[0]

    def _restart_checker(
        self, overlay: Overlay, changed: set[Path], files: dict[str, dict[Path, int]]
    ) -> None:
        before = self.checker
        self.checker, gone = before.make_updated(overlay, changed, files)
        before.release_to(self.checker)
        named = tuple(path.name for path in changed)
        for path in self._before.keys() - overlay.keys():
            del self._before[path]
        for path in self._bits.keys() - overlay.keys():
            del self._bits[path]
        for path, known in list(self._before.items()):
            self._before[path] = known.with_changes(gone.find_invalidated_numbers(known.places), named)
        for path, outcome in list(self.outcomes.items()):
            if path in overlay and outcome.record is not None and outcome.needed is not None:
                known = Before(outcome.record, self._dependency_bits(path, outcome.needed))
                known = known.with_changes(gone.find_invalidated_numbers(known.places), named)
                if path not in changed and known.is_still_valid:
                    continue
                self._before[path] = known
            elif path in overlay and path not in changed and not _is_outcome_stale(outcome, gone):
                continue
            del self.outcomes[path]

    def _dependency_bits(self, path: Path, needs: tuple[Need, ...]) -> Bits:
        """Which bit stands for what an outcome needed: as in the last edit, where it is the same."""
        known = self._bits.get(path)
        if known is None or known.needed is not needs:
            known = self._bits[path] = Bits(needs)
        return known

    def _known_before(self, path: str) -> Before | None:
        return self._before.get(Path(path))

    def _walk_projects(self) -> None:
        for project in self.checker.checked_projects():
            root = str(project.root)
            if root not in self._walks:
                self._walks[root] = _walk_project(root)

    def _look_for_changes(
        self, overlay: Overlay, changed: set[Path], files: dict[str, dict[Path, int]]
    ) -> bool:
        """Find what changed on the disk; False where settings or releases did, so that nothing holds."""
        for root, before in self._walks.items():
            now = self._walks[root] = _walk_project(root)
            if now.telling != before.telling:
                return False
            for path in before.files.keys() | now.files.keys():
                came_or_went = path not in before.files or path not in now.files
                if before.files.get(path) != now.files.get(path) and (came_or_went or Path(path) not in overlay):
                    changed.add(Path(path))
            never_saved = {path for path in overlay if root in map(str, path.parents)} - self.overlay.keys()
            if before.files.keys() != now.files.keys() or never_saved:
                files[root] = Project(Path(root), overlay).files
        return True


def _is_outcome_stale(outcome: Outcome, invalidated: InvalidatedFacts) -> bool:
    return not outcome.quiet if outcome.needed is None else invalidated.any_of(outcome.needed)


def _differing_files(before: Overlay, after: Overlay) -> Iterator[Path]:
    """The files of which editors, or the disk where an editor has let go, now show another text."""
    for path in before.keys() | after.keys():
        one, two = before.get(path), after.get(path)
        if one is two:
            continue
        if (one.text if one is not None else _saved_text(path)) != (
            two.text if two is not None else _saved_text(path)
        ):
            yield path


def _saved_text(path: Path) -> str | None:
    try:
        return decode_file(path, read_bytes(path)).text
    except Unreadable:
        return None


def _walk_project(root: str) -> _Walk:
    tree = Tree()
    files, folders = survey_folder(Path(root), tree)
    return _Walk(dict(files), list(_folder_stamps(root, folders, tree)))


def _folder_stamps(root: str, folders: Iterable[str], tree: Tree) -> Iterator[Any]:
    for place, _ in site_packages(root):
        yield place, changed_at(place)
    for path in folders:
        folder = tree.folder_contents(path)
        if folder is not None:
            yield from ((f"{path}/{name}", stamp) for name, stamp in folder.telling.items())
