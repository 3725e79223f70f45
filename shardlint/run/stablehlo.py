"""The StableHLO that lies beside a dump from jax 0.8 on: what the program calls its results, and where operations
come from that the compiler has folded away.
"""

from __future__ import annotations

import glob
from pathlib import Path

from shardlint.source.patterns import compile_lazily
from shardlint.verify.facts import Line

_NAME = compile_lazily(r"(?P<stamp>\d+)\.module_(?P<number>\d+)\.(?P<name>.*)\.before_optimizations\.txt")
_RESULT = compile_lazily(r'jax\.result_info = "((?:[^"\\]|\\.)*)"')
_PLACE = compile_lazily(r'#(loc\d*) = loc\("((?:[^"\\]|\\.)*)":(\d+):')
_CALL = compile_lazily(r"#(loc\d*) = loc\(callsite\(#(loc\d*) at #(loc\d*)\)\)")
_NAMED = compile_lazily(r'#(loc\d*) = loc\("((?:[^"\\]|\\.)*)"\(#(loc\d*)\)\)')


def stablehlo_file(path: Path) -> Path | None:
    """The file beside a dump, or None."""
    match = _NAME.fullmatch(path.name)
    if match is None:
        return None
    file = path.parent / f"module_{match['number']}.{match['name']}" / "module.mlir"
    if file.is_file():
        return file
    # jax 0.8 names the folder by the millisecond it began in, a little before the dump.
    stamp = int(match["stamp"]) // 1000
    earlier = [
        (int(tail), folder)
        for folder in path.parent.glob(f"{glob.escape(match['name'])}_*")
        if (tail := folder.name.removeprefix(f"{match['name']}_")).isdigit() and int(tail) <= stamp
    ]
    return max(earlier)[1] / "module.mlir" if earlier else None


def result_names(file: Path | None) -> list[str]:
    """The results, `out[0]['w1']`, in order; empty where they are not known."""
    try:
        with (file or Path()).open(encoding="utf-8", errors="replace") as text:
            for line in text:
                if "func.func public @main(" in line:
                    return [_name_as_output(name) for name in _RESULT.findall(line)]
    except OSError:
        pass
    return []


def _name_as_output(name: str) -> str:
    return "out" + name.replace("\\22", '"').replace("\\27", "'").removeprefix("result")


def operation_stacks(file: Path | None) -> list[list[Line]]:
    """The calls that lead to each operation, innermost first."""
    try:
        text = (file or Path()).read_text("utf-8", "replace")
    except OSError:
        return []
    places = {key: Line(name, int(line)) for key, name, line in _PLACE.findall(text)}
    named = {key: (name, inner) for key, name, inner in _NAMED.findall(text)}
    calls = {key: (inner, outer) for key, inner, outer in _CALL.findall(text)}

    def walk_frames(key: str) -> list[Line]:
        found: list[Line] = []
        waiting = [key]
        while waiting and len(found) < 200:
            key = waiting.pop()
            if key in calls:
                inner, outer = calls[key]
                waiting += [outer, inner]
            elif key in named and named[key][1] in places:
                place = places[named[key][1]]
                found.append(Line(place.file, place.line, named[key][0]))
            elif key in places:
                found.append(places[key])
        return found

    return [stack for _, inner in named.values() if inner in calls and (stack := walk_frames(inner))]
