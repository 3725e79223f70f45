"""Cache of the findings of earlier runs.

A finding rests on the file it is in, on what other files were read for it and on what was asked of the whole project
(which files hold a name, which file a module is). All that is kept with it; a changed file costs what rests on it, and
nothing else. What is kept is JSON that only the user can write: a torn or strange file is as good as none.
"""

from __future__ import annotations

from collections.abc import Sequence

from shardlint.config.folders import Places
from shardlint.engine.cache.memory import Memory
from shardlint.engine.check_files import check_files
from shardlint.engine.results import Options, Outcome
from shardlint.source.find import SelectedFile
from shardlint.source.timing import timed

__all__ = ["check_with_cache"]


def check_with_cache(files: Sequence[SelectedFile], options: Options, places: Places, memory: Memory) -> list[Outcome]:
    """The outcomes of files, in order: those that are known, and the rest checked now and kept."""
    with timed("remembering"):
        known = list(map(memory.recall_outcome, files))
    left = [index for index, outcome in enumerate(known) if outcome is None]
    if left:
        from shardlint.engine.catalogue import keep_cards, recall_cards
        from shardlint.engine.one_file import Checker

        recall_cards(memory.store)
        checker = Checker(
            options,
            places=places,
            answers=memory.search_answers(),
            before=memory.record_before_change,
            graphs=memory.import_graphs(),
        )
        fresh = check_files([files[index].shown_path for index in left], checker)
        for index, outcome in zip(left, fresh, strict=True):
            known[index] = outcome
            memory.keep_outcome(files[index].real, outcome)
        memory.learn_answers(checker.search_answers(), checker.parsed_parts())
        keep_cards(memory.store)
    return [outcome for outcome in known if outcome is not None]
