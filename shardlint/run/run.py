"""Queries of rules about the whole program: large arrays, state, other sharded arrays."""

from __future__ import annotations

from collections.abc import Sequence

from shardlint.run.dumps import Compiled
from shardlint.source.patterns import compile_lazily
from shardlint.verify.facts import Array

Layout = tuple[int, tuple[tuple[str, int], ...]]

DATA = compile_lazily(r"(?i)(data|batch|dp|fsdp|ddp|hsdp|replica|zero)(_|\b|\d)")
"""What the axis of a batch is called."""
_SHARE = 0.01
KEYS = compile_lazily(r"\.[^.\[\]]+|\[[^\]]*\]")
"""The keys of a path: `.layers`, `[0]`, `['w']`."""
_OF_VARIABLES = ("value", "raw_value")
_NAMED = compile_lazily(r"\.[^\d]|\[['\"]")
_KEPT = compile_lazily(r"(?i)\b(opt(imizer)?(_?states?)?|mu|nu|m|v|trace|momentum|moments?|adam|exp_avg(_sq)?)\b")
"""What optimizers keep for each parameter is called so, or stands below such a name."""


class Run:
    """All compilations of a run, and the least size of what is worth a word (bytes of the whole array)."""

    def __init__(self, compiled: Sequence[Compiled], limit: int) -> None:
        self.compiled, self.limit = compiled, limit
        self.spread = [one for one in compiled if one.partitions > 1]
        # By the layout too, and with None by any.
        self._split: dict[tuple[str, Layout | None], tuple[Compiled, Array]] = {}
        self._named: dict[tuple[str, str, Layout | None], tuple[Compiled, Array]] = {}
        self._paths: dict[str, set[str]] = {}
        self._turned: set[tuple[object, str]] = set()
        for one in self.spread:
            if one.function.own:
                self._note_compiled(one)

    def _note_compiled(self, compiled: Compiled) -> None:
        for leaf in compiled.program.arrays:
            # By its size when whole: beside much that lies whole, what a device holds of a split array is little.
            if self.is_large(leaf, compiled, leaf.bytes_whole) and leaf.copies < compiled.partitions:
                if self._is_turned(leaf, compiled):
                    continue
                self._paths.setdefault(leaf.array, set()).add(leaf.where)
                for where in {find_layout(compiled), (compiled.partitions, ()), None}:
                    if leaf.role == "in" and is_state(leaf, compiled):
                        self._split.setdefault((leaf.array, where), (compiled, leaf))
                    if key := last_key(leaf.where):
                        self._named.setdefault((leaf.array, key, where), (compiled, leaf))

    def _is_turned(self, leaf: Array, compiled: Compiled) -> bool:
        """Return whether an array is sharded only because its function returned it so, by the compiler's choice, and
        took it replicated.
        """
        key = (compiled.function.name, compiled.function.line)
        if leaf.role == "in" or (key, leaf.where) in self._turned:
            return (key, leaf.where) in self._turned
        path = KEYS.findall(leaf.where)
        for each in compiled.arguments:
            if each.array == leaf.array and each.copies == compiled.partitions:
                if KEYS.findall(each.where) in (path, path[1:]):
                    self._turned |= {(key, each.where), (key, leaf.where)}
                    return True
        return False

    def is_large(self, leaf: Array, compiled: Compiled, size: int = 0) -> bool:
        """Return whether an array is worth reporting: by itself, and next to the others of its function. It counts
        with `size`, or with the bytes of it on one device.
        """
        held = max(sum(each.bytes for each in part) for part in (compiled.arguments, compiled.results))
        return leaf.bytes_whole >= self.limit and (size or leaf.bytes) >= _SHARE * held

    def is_whole(self, leaf: Array, compiled: Compiled) -> bool:
        """Return whether an array is large and replicated."""
        return compiled.partitions > 1 and leaf.copies == compiled.partitions and self.is_large(leaf, compiled)

    def only_its_state(self, leaf: Array) -> bool:
        """Return whether all sharded arrays like this one are deeper in a tree under the same name: `state[0].mu['w']`
        of `params['w']`. Sharding the state of an optimizer and not its parameters is a strategy of its own (ZeRO-1).
        """
        path = KEYS.findall(leaf.where)
        if leaf.role == "out" and path and path[0][1:-1].isdigit():
            path = path[1:]
        # Of results the number is all there is.
        named = [one for one in self._paths.get(leaf.array, ()) if not one.startswith("out")]
        if not path and named:
            return all(map(_KEPT.search, named)) and not _KEPT.search(leaf.where)
        split = [KEYS.findall(one) for one in self._paths.get(leaf.array, ())]
        deeper = any(len(one) > len(path) and one[-len(path) :] == path for one in split)
        if bool(path) and deeper and all(len(one) > len(path) for one in split):
            return True
        return bool(split) and all(_is_moment(one, path) for one in split)

    def find_split_like(self, leaf: Array, compiled: Compiled | None = None) -> tuple[Compiled, Array] | None:
        """An array of the same type and shape that a function keeps split: one of the same name, or, where
        one of the two has only a number, part of the state that goes from step to step. A batch that
        happens to have the shape of a weight is neither. With `compiled` only over the mesh of that function: what one
        layout keeps split says nothing of another one, over fewer or more devices or with other axes.
        """
        key, where = last_key(leaf.where), find_layout(compiled) if compiled is not None else None
        if key and (leaf.array, key, where) in self._named:
            return self._named[leaf.array, key, where]
        known = self._split.get((leaf.array, where))
        if known is None or not (key or "[" in leaf.where):
            return None
        return None if key and last_key(known[1].where) else known


def find_layout(compiled: Compiled) -> Layout:
    """Over how many devices a function runs, and the axes of their mesh; none where no array of it names any."""
    return compiled.partitions, tuple(compiled.program.mesh.items())


def is_state(leaf: Array, compiled: Compiled) -> bool:
    """Return whether an argument is state: its function returns another like it, with the same sharding."""
    if leaf.donated and leaf.aliased:
        return True
    key = last_key(leaf.where)
    for result in compiled.results:
        if result.array == leaf.array and result.copies == leaf.copies and result.spec == leaf.spec:
            if key == last_key(result.where) if key else "[" in leaf.where:
                return True
    return False


def root_argument(leaf: Array) -> str:
    """The argument that a leaf is part of."""
    return root_of_name(leaf.where)


def root_of_name(name: str) -> str:
    """The argument that an array is part of, by its name."""
    return name.partition("[")[0].partition(".")[0]


def last_key(where: str) -> str:
    """The last key of a leaf that is a name, `w1` of `p['w1']`, `weight` of `out[1].weight`. Empty without
    one, and for what Equinox passes, `dynamic_donate['first'][5]`: the number is all there is. Below a Variable of NNX
    it is the name of the Variable.
    """
    keys = [] if where.startswith("dynamic") else [key for key in KEYS.findall(where) if _NAMED.match(key)]
    names = [key.strip(".[]'\"") for key in keys]
    return next((name for name in reversed(names) if name not in _OF_VARIABLES), "")


def _is_moment(path: list[str], of: list[str]) -> bool:
    """Return whether a path is that of an optimizer's moment for another: `state.opt_state[0].mu['w']` for
    `state.params['w']`.
    """
    same = 0
    while same < min(len(path), len(of)) and path[-1 - same] == of[-1 - same]:
        same += 1
    own, others = path[: len(path) - same], of[: len(of) - same]
    return bool(same and _NAMED.match(of[-1])) and any(map(_KEPT.search, own)) and not any(map(_KEPT.search, others))
