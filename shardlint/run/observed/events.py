"""The lines of JSON that the processes of a program wrote, as data."""

from __future__ import annotations

import ast
import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cache, cached_property
from pathlib import Path
from typing import Any

from shardlint.run.syntax import parse_file
from shardlint.verify.facts import Line


@dataclass
class Events:
    """Recorded events by kind, in order. Events of several processes are merged."""

    seen: list[dict[str, Any]] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)
    tests: dict[tuple[str, int], dict[str, None]] = field(default_factory=dict)
    """Under pytest, the tests in which something was first seen at a line."""

    def events_of_kind(self, kind: str) -> Iterator[dict[str, Any]]:
        """All of one kind."""
        return (one for one in self.seen if one["kind"] == kind)

    @cached_property
    def constraints_by_line(self) -> dict[tuple[str, int], list[dict[str, Any]]]:
        """The constraints on what is computed at each line."""
        found: dict[tuple[str, int], list[dict[str, Any]]] = {}
        for one in self.events_of_kind("laid-out"):
            for place in one["lines"]:
                found.setdefault((str(place[0]), int(place[1])), []).append(one)
        return found

    @property
    def device_count(self) -> int:
        """The most devices that a program's results, or arrays it took, lay on."""
        leaves = [leaf["devices"] for one in self.events_of_kind("ran") for leaf in (*one["taken"], *one["given"])]
        leaves += [one["devices"] for one in self.events_of_kind("put")]
        return max((*(one["devices"] for one in self.events_of_kind("ran")), *leaves), default=0)

    @property
    def largest_array_bytes(self) -> int:
        """Bytes of the largest array that a program took or gave, when whole."""
        return max(
            (leaf["bytes"] for one in self.events_of_kind("ran") for leaf in (*one["taken"], *one["given"])), default=0
        )


def load_events(folder: Path, names: str = "*.jsonl") -> Events:
    """The events below the folder of a run, of the processes whose files have such a name."""
    events = Events()
    known: set[str] = set()
    things: set[str] = set()
    for file in sorted((folder / "observed").glob(names)):
        for text in file.read_text("utf-8", "replace").splitlines():
            if text in known:
                continue
            known.add(text)
            try:
                one = json.loads(text)
            except ValueError:  # the last line of a process that was killed
                continue
            test = one.pop("test", None)
            if one.get("defined"):
                one["defined"] = _definition_line(*one["defined"])
            if test is not None:
                for place in _lines_of_event(one):
                    events.tests.setdefault(place, {})[test] = None
            thing = json.dumps(one, sort_keys=True)
            if thing in things:  # in another test
                continue
            things.add(thing)
            if one.get("kind") == "failed":
                events.failed.append(f"{one['where']}: {one['error']}")
            elif "kind" in one:
                events.seen.append(one)
    return events


def _lines_of_event(one: Any) -> Iterator[tuple[str, int]]:
    """The lines that an event names."""
    if isinstance(one, dict):
        for each in one.values():
            yield from _lines_of_event(each)
    elif isinstance(one, list):
        match one:
            case [str(file), int(number), str()]:
                yield file, number
            case _:
                for each in one:
                    yield from _lines_of_event(each)


def _definition_line(file: str, number: int, name: str) -> list[Any]:
    """A function by the line of its `def`: Python takes the first decorator's for its first line."""
    return [file, _definition_lines(file).get(number, number), name]


@cache
def _definition_lines(file: str) -> dict[int, int]:
    return {
        node.decorator_list[0].lineno: node.lineno
        for node in ast.walk(parse_file(file))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.decorator_list
    }


def make_line(place: Any) -> Line:
    """A `[file, line, function]` as a line; that of nothing where there is none."""
    return Line(str(place[0]), int(place[1]), str(place[2])) if place else Line()


def first_line(places: Iterable[Any]) -> Line:
    """The first of some places."""
    return make_line(next(iter(places), None))


def function_of_place(place: Any) -> str:
    """The function a place is in, as a finding names it."""
    name = str(place[2]) if place else ""
    return name.rpartition(".")[2].replace("<module>", "the program") or "the program"


def format_array(leaf: dict[str, Any]) -> str:
    """`float32[512,2048]`."""
    return f"{leaf['dtype']}[{','.join(map(str, leaf['shape']))}]"
