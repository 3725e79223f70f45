"""What earlier runs found, where it still holds.

A finding rests on the file it is in, on what other files were read for it and on what was asked of the whole project
(which files hold a name, which file a module is). All that is kept with it; a changed file costs what rests on it, and
nothing else. What is kept is JSON that only the user can write: a torn or strange file is as good as none.
"""

from __future__ import annotations

from shardlint.config.folders import Places
from shardlint.engine.cache.memory import Memory
from shardlint.engine.results import Options, Outcome
from shardlint.engine.run import results
from shardlint.engine.workers import worth_it
from shardlint.source.find import Found
from shardlint.source.timing import timed

__all__ = ["remembered"]


def remembered(found: Found, options: Options, places: Places) -> list[Outcome]:
    """The outcomes of files, in order: those that are known, and the rest checked now and kept."""
    store = places.store
    if store is None:
        from shardlint.engine.one_file import Checker

        return list(results(found.files, Checker(options, places=places)))
    with timed("remembering"):
        memory = Memory(store, options, places, worth_it(found.met))
        known = list(map(memory.recall, found.met))
    left = [index for index, outcome in enumerate(known) if outcome is None]
    if left:
        from shardlint.engine.catalogue import keep, recall
        from shardlint.engine.one_file import Checker

        recall(store)
        checker = Checker(
            options, places=places, answers=memory.answers(), before=memory.before, graphs=memory.graphs()
        )
        fresh = results([found.met[index].path for index in left], checker)
        for index, outcome in zip(left, fresh, strict=True):
            known[index] = outcome
            memory.keep(found.met[index].real, outcome)
        memory.learn(checker.answers(), checker.parts())
        keep(store)
    with timed("remembering"):
        memory.save()
    return [outcome for outcome in known if outcome is not None]
