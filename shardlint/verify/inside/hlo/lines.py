"""From an instruction to the line of the user's own code."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from shardlint.verify.facts import Line
from shardlint.verify.inside.hlo.module import Instruction, Module

_LIBRARY = ("/site-packages/", "/dist-packages/", "/shardlint/verify/")
_STANDARD = re.compile(r"/lib/python3\.\d+/[^/]|^<")
_FIELDS = re.compile(r"(\w+)=(\d+)")


def is_own(file: str) -> bool:
    """Return whether a file is the user's: not installed, not Python's, and not shardlint's verifier."""
    path = file.replace("\\", "/")
    return bool(path) and not any(part in path for part in _LIBRARY) and not _STANDARD.search(path)


class Lines:
    """The stack frames of one module. `renumbered` maps the frame numbers its instructions carry to those
    of its tables, where a release mixed them up (see `renumber_frames`).
    """

    def __init__(self, module: Module, renumbered: Mapping[int, int | None] | None = None) -> None:
        self.module = module
        self.renumbered = renumbered
        tables = module.tables
        self._files = {key: value.strip('"') for key, value in tables.get("FileNames", {}).items()}
        self._functions = {key: value.strip('"') for key, value in tables.get("FunctionNames", {}).items()}
        self._places = {key: _parse_fields(value) for key, value in tables.get("FileLocations", {}).items()}
        frames = {key: _parse_fields(value) for key, value in tables.get("StackFrames", {}).items()}
        # Numbers count from 1; printers that write a frame without parent as its own write all parents one
        # too high.
        high = any(frame.get("parent_frame_id") == key for key, frame in frames.items())
        self._frames = {
            key: (frame.get("file_location_id", 0), frame.get("parent_frame_id", 0) - high)
            for key, frame in frames.items()
        }
        self._known: dict[int, tuple[Line | None, Line | None]] = {}

    def frame_stack(self, frame: int) -> Iterator[Line]:
        """The calls that lead to a frame, innermost first."""
        seen: set[int] = set()
        while frame in self._frames and frame not in seen:
            seen.add(frame)
            place, frame = self._frames[frame]
            fields = self._places.get(place, {})
            file = self._files.get(fields.get("file_name_id", 0), "")
            function = self._functions.get(fields.get("function_name_id", 0), "")
            if file:
                yield Line(file, fields.get("line", 0), function)

    def lines_of_instruction(self, instruction: Instruction) -> tuple[Line | None, Line | None]:
        """The innermost line of the user's own that an instruction comes from, and the innermost of all."""
        frame = instruction.frame_number
        if frame is None:
            source = instruction.source_line
            if source is None:
                return None, None
            line = Line(*source)
            return (line if is_own(line.file) else None), line
        if frame not in self._known:
            number = frame if self.renumbered is None else self.renumbered.get(frame)
            stack = [] if number is None else list(self.frame_stack(number))
            own = next((line for line in stack if is_own(line.file)), None)
            self._known[frame] = own, next(iter(stack), None)
        return self._known[frame]


def renumber_frames(module: Module, original: Module) -> dict[int, int | None] | None:
    """For a module whose instructions carry other frame numbers than its own tables: the tables' number of
    each. None where they agree.

    jax 0.8's compiler renumbers frames when it propagates shardings, but prints the tables it was given.
    The module before that tells: names of operations stay. A number that two operations would take
    to different frames is mapped to None, so that no wrong line is reported.
    """
    if module.tables != original.tables or not module.tables:
        return None
    was, now = _frame_numbers(original), _frame_numbers(module)
    votes: dict[int, set[int]] = {}
    for name, numbers in now.items():
        before = was.get(_known_operation_name(name, was), [])
        if len(before) == len(numbers):
            for left, right in zip(numbers, before, strict=True):
                votes.setdefault(left, set()).add(right)
        else:
            for left in numbers:
                votes.setdefault(left, set())
    if all(right <= {left} for left, right in votes.items()):
        return None
    return {left: right.copy().pop() if len(right) == 1 else None for left, right in votes.items()}


def _known_operation_name(name: str, names: Mapping[str, object]) -> str:
    """The longest end of an operation's name that is known: before inlining, names begin where their function
    does.
    """
    while name not in names and "/" in name:
        name = name.partition("/")[2]
    return name


def _frame_numbers(module: Module) -> dict[str, list[int]]:
    """The different frame numbers of each operation name, in order."""
    found: dict[str, dict[int, None]] = {}
    for computation in module.computations.values():
        for one in computation:
            frame = one.frame_number
            if frame is not None:
                found.setdefault(one.op_name, {})[frame] = None
    return {name: list(numbers) for name, numbers in found.items()}


def _parse_fields(text: str) -> dict[str, int]:
    return {key: int(value) for key, value in _FIELDS.findall(text)}
