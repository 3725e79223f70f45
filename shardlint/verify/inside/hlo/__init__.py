"""Analysis of a partitioned program from its HLO text alone, without jax and without devices."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from shardlint.verify.facts import Collective, Product
from shardlint.verify.inside.hlo import collectives, loops, products
from shardlint.verify.inside.hlo.axes import Axes
from shardlint.verify.inside.hlo.flow import Flow
from shardlint.verify.inside.hlo.lines import Lines, renumber_frames
from shardlint.verify.inside.hlo.module import Instruction, Module, parse_module


class Read(NamedTuple):
    """Facts read from an HLO text. `instructions` are those of `collectives`, one each; `before` is the module before
    the partitioner, empty if it was not available.
    """

    collectives: list[Collective]
    products: list[Product]
    module: Module
    lines: Lines
    instructions: list[Instruction]
    before: Module

    @classmethod
    def read_nothing(cls) -> Read:
        """Of an empty text."""
        return read_module("", {})


def read_module(
    text: str,
    mesh: Mapping[str, int],
    *,
    before: str | None = None,
    original: str | None = None,
    names: Mapping[int, str] | None = None,
) -> Read:
    """The collectives and matrix products of a partitioned HLO module.

    `text` is a dump after the SPMD partitioner (the best view: true types, nothing fused or combined), or
    a compiled module's `as_text()`. `mesh` gives axis sizes in order; where their product is not the
    number of devices, groups are counted but no axis is named.

    `before` is the dump before the partitioner. It has the sharding of every array; without it there are
    no products, for a device's part of a product does not tell what was split. `original` is the dump
    before shardings were propagated (`before_shardy`): only jax 0.8 needs it, to name the right lines.

    `names` gives argument texts for parameter numbers; without it they are called as the program does,
    `p['w1']`. A text that is no HLO has nothing in it; nothing is raised.
    """
    module = parse_module(text)
    flow, axes = Flow(module), Axes(mesh)
    lines = Lines(module, renumber_frames(module, parse_module(original)) if original else None)
    runs = loops.computation_runs(module, flow)
    if names is None:
        names = collectives.argument_names(module)
    found = collectives.find_collectives(module, flow, lines, axes, runs, names)
    unsplit = parse_module(before or "")
    made = products.find_products(module, unsplit, flow, lines, axes, runs, found)
    return Read(
        [one.collective for one in found], made, module, lines, [one.instruction for one in found], unsplit
    )
