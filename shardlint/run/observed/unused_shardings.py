"""Shardings that were computed for a tree, beside how the arrays of that tree lie: on one device, or replicated."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from shardlint.run.findings import RunFinding
from shardlint.run.observed.events import Events, first_line, format_array, function_of_place, make_line
from shardlint.run.run import KEYS
from shardlint.verify.facts import Line
from shardlint.verify.texts import size_text

_Asked = dict[str, tuple[str, list[int]]]


def find_broken_promises(events: Events, least: int) -> Iterator[RunFinding]:
    """Arrays that come to a function of several devices as they were made on one, or replicated by nobody's request,
    though the program has computed how they are to be split, and no array of that path lies so anywhere.
    """
    ran: list[dict[str, Any]] = []
    trees: list[tuple[dict[str, Any], int]] = []
    for one in events.seen:
        if one["kind"] == "shardings" and len(one["leaves"]) > 1:
            trees.append((one, len(ran)))
        elif one["kind"] == "ran" and one["lines"] and not one.get("pmap"):
            ran.append(one)
    told: set[Any] = set()
    for tree, before in trees:
        asked = {path: (spec, shape) for path, spec, split, shape in tree["leaves"] if split and path}
        if any(_is_sharded_leaf(leaf, asked) for one in ran for leaf in (*one["taken"], *one["given"])):
            continue
        for number, one in enumerate(ran):
            if one["devices"] < 2:
                continue
            lost = [
                (leaf, path)
                for leaf in one["taken"]
                if leaf["bytes"] >= least and (path := _path_suffix(leaf["name"], asked))
                if _is_left_on_one(leaf) or (number >= before and _is_replicated(leaf, asked[path][1]))
            ]
            paths = {path for _, path in lost}
            made = first_line(next((leaf["made"] for leaf, _ in lost if leaf["made"]), one["lines"]))
            if 2 * len(paths) <= len(asked) or {made, (one["name"], str(tree))} & told:
                continue
            told |= {made, (one["name"], str(tree))}
            yield _make_finding(one, tree, made, lost, asked)


def _make_finding(
    one: dict[str, Any], tree: dict[str, Any], line: Line, lost: list[tuple[dict[str, Any], str]], asked: _Asked
) -> RunFinding:
    leaves, (leaf, path) = [leaf for leaf, _ in lost], max(lost, key=lambda each: int(each[0]["bytes"]))
    total = sum(each["bytes"] for each in leaves)
    how = f"replicated on {leaf['devices']} devices" if leaf["devices"] > 1 else "created in full on one device"
    return RunFinding(
        "never-used", function_of_place([line.file, line.line, line.function]), line,
        f"{len(leaves)} arrays are {how} ({size_text(total)}): their shardings are computed and never used. The "
        f"sharding of {leaf['name']} is {asked[path][0]}",
        tuple(f"{each['name']} {format_array(each)}" for each in leaves[:12]),
        "pass the shardings in the target of the restore, jax.ShapeDtypeStruct(shape, dtype, sharding=sharding), or "
        "write jax.device_put(x, shardings)" if leaf["maker"] == "orbax restore" else
        "pass the shardings as out_shardings to the jit that creates the arrays, or write jax.device_put(x, "
        "shardings)", total,
        see=(
            *(("the shardings", make_line(each)) for each in tree["lines"][:2]),
            (f"taken by {one['name']}", first_line(one["lines"])),
        ),
    )  # fmt: skip


def _is_left_on_one(leaf: dict[str, Any]) -> bool:
    """Return whether an array lies on one device, and nobody placed it."""
    return leaf["devices"] == 1 and not leaf["placed"]


def _is_replicated(leaf: dict[str, Any], shape: list[int]) -> bool:
    """Return whether an array of a shape lies whole on several devices, and no line of the program asks for that."""
    whole = leaf["devices"] > 1 and leaf["held"] == leaf["bytes"] and leaf["shape"] == shape
    return whole and not leaf["put"] and not leaf["decided"]


def _path_suffix(name: str, asked: _Asked) -> str:
    """The path of a tree that an argument has at its end; empty where it has none."""
    keys = KEYS.findall(name)
    return next((rest for at in range(len(keys)) if (rest := "".join(keys[at:])) in asked), "")


def _is_sharded_leaf(leaf: dict[str, Any], asked: _Asked) -> bool:
    """Return whether an array of such a path is sharded."""
    return leaf["devices"] > 1 and leaf["held"] < leaf["bytes"] and bool(_path_suffix(leaf["name"], asked))
