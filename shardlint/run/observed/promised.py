"""Shardings that were computed for a tree, beside how the arrays of that tree lie: on one device."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from shardlint.run.findings import Found
from shardlint.run.observed.events import Events, first_line, format_array, function_of_place, make_line
from shardlint.run.run import KEYS
from shardlint.verify.texts import size_text


def find_broken_promises(events: Events, least: int) -> Iterator[Found]:
    """Arrays that come to a function of several devices as they were made on one, though the program has computed how
    they are to be split, and no array of that path lies so anywhere.
    """
    ran = [one for one in events.events_of_kind("ran") if one["lines"] and not one.get("pmap")]
    told = set()
    for tree in events.events_of_kind("shardings"):
        asked = {path: spec for path, spec, split in tree["leaves"] if split and path}
        if len(tree["leaves"]) < 2 or any(
            _is_sharded_leaf(leaf, asked) for one in ran for leaf in (*one["taken"], *one["given"])
        ):
            continue
        for one in ran:
            if one["devices"] < 2:
                continue
            lost = [
                (leaf, path)
                for leaf in one["taken"]
                if leaf["devices"] == 1 and not leaf["placed"] and leaf["bytes"] >= least
                if (path := _path_suffix(leaf["name"], asked))
            ]
            paths = {path for _, path in lost}
            made = first_line(next((leaf["made"] for leaf, _ in lost if leaf["made"]), one["lines"]))
            if 2 * len(paths) <= len(asked) or made in told:
                continue
            told.add(made)
            leaves = [leaf for leaf, _ in lost]
            total, (leaf, path) = sum(each["bytes"] for each in leaves), max(lost, key=lambda each: each[0]["bytes"])
            yield Found(
                "never-used", function_of_place([made.file, made.line, made.function]), made,
                f"{len(leaves)} arrays are created in full on one device ({size_text(total)}): their shardings "
                f"are computed and never used. The sharding of {leaf['name']} is {asked[path]}",
                tuple(f"{each['name']} {format_array(each)}" for each in leaves[:12]),
                "pass the shardings as out_shardings to the jit that creates the arrays, or write jax.device_put(x, "
                "shardings)", total,
                see=(
                    *(("the shardings", make_line(each)) for each in tree["lines"][:2]),
                    (f"taken by {one['name']}", first_line(one["lines"])),
                ),
            )  # fmt: skip


def _path_suffix(name: str, asked: dict[str, str]) -> str:
    """The path of a tree that an argument has at its end; empty where it has none."""
    keys = KEYS.findall(name)
    return next((rest for at in range(len(keys)) if (rest := "".join(keys[at:])) in asked), "")


def _is_sharded_leaf(leaf: dict[str, Any], asked: dict[str, str]) -> bool:
    """Return whether an array of such a path is sharded."""
    return leaf["devices"] > 1 and leaf["held"] < leaf["bytes"] and bool(_path_suffix(leaf["name"], asked))
