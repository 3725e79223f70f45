"""SL350."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from typing import ClassVar, NamedTuple

from shardlint.rules_api.rule import Calls, Certainty, Finding, Harm, Rule
from shardlint.rules_api.site import Site
from shardlint.source.patterns import regex

_SPEC = "jax.sharding.PartitionSpec"
_FIRST = {
    "attention": frozenset(
        "wq wk wv q_proj k_proj v_proj qkv qkv_proj query key value query_proj key_proj value_proj c_attn".split()
    ),
    "mlp": frozenset(
        "w1 w3 wi wi_0 wi_1 gate_proj up_proj gate_up_proj fc_in fc1 c_fc dense_h_to_4h intermediate lin1 ffn1".split()
    ),
}
"""The weights that widen: the first of two matmuls, by what libraries call them."""
_SECOND = {
    "attention": frozenset("wo o_proj out_proj attn_out output_proj".split()),
    "mlp": frozenset("w2 wo down_proj fc_out fc2 dense_4h_to_h lin2 ffn2".split()),
}
"""The weights that narrow again, whose input dimension is what the first ones make."""
# Short names, which say something behind the name of a block only: `attn/o`, `{"mlp": {"down": ...}}`.
_SHORT_FIRST = {
    "attention": frozenset("q k v q_kernel k_kernel v_kernel w_q w_k w_v".split()),
    "mlp": frozenset("up gate gate_up up_gate w_up w_gate w_in in_proj".split()),
}
_SHORT_SECOND = {
    "attention": frozenset("o o_kernel w_o out proj c_proj proj_out".split()),
    "mlp": frozenset("down out w_down w_out out_proj c_proj proj_out".split()),
}
_ATTENTION = regex(r"at+e?nt?i?o?n?\b|attn|attention|seq_modeling")
_MLP = regex(r"mlp|ffn|feed_forward|ff\b|dense")
_NO_WEIGHT = regex(r"bias|scale|norm|embedding|\bbeta\b|\bgamma\b|lora|experts?\b")
_WORD = regex(r"[A-Za-z_][A-Za-z_0-9]*")
_OF_THE_MODEL = regex(r"(?i)embed|head|wte|wpe|logits")
_SEPARATOR = regex(r"[/.]")
_LEAVES = ("kernel", "weight", "weights", "w")
_LEAST = 2
_MODEL = regex(r"(?i)\b(?:tp|mp|model|tensor|tensor_parallel|model_parallel)\b")


class _Pair(NamedTuple):
    """A pattern and a spec: what it matches of a block (`first`, `second` or both), and its axes as written."""

    node: ast.expr
    pattern: str
    block: str
    sides: frozenset[str]
    axes: tuple[str, ...]

    @property
    def module(self) -> str:
        """The modules that its pattern names before the weight."""
        return _module(self.pattern)


class RowWeightSplitAsColumn(Rule):
    """The second of two matmuls is column-parallel like the first one, so its input is all-gathered in each layer.

    The first matmul leaves its result sharded over the model axis, and the second contracts that dimension.
    Row-parallel, it needs one all-reduce. Column-parallel, the activations or the weight are gathered in each layer
    and step.

    ## Reports
    Tables of weights and specs, as pairs of a pattern and a spec or as dictionaries:

    - `alike` (likely): a block whose second matmul has the axes of its first (`q_proj` and `o_proj`: `P("fsdp",
      "tp")`), if another block of the table swaps them (`up_proj: P("fsdp", "tp")`, `down_proj: P("tp", "fsdp")`).
    - `other-way` (likely): a block whose matmuls are both sharded the other way than those of another block.

    ## Write instead
    The axes of the first matmul, swapped: `P("tp", "fsdp")`.

    ## Limits
    Not reported: tables that swap the axes of no block, experts, biases, blocks that are not sharded over one or
    two axes, and a weight whose module has another partner in the table.
    """

    code = "SL350"
    name = "row-weight-split-as-column"
    harm = Harm.COST
    certainty = Certainty.POSSIBLE
    likely = ("alike", "other-way")
    assumptions: ClassVar[Mapping[str, str]] = {
        "alike": "The second weight of the block takes the result of the first one.",
        "other-way": "The second weight of the block takes the result of the first one.",
    }
    triggers = (
        Calls(
            _SPEC,
            file_says=(
                r"(?:)(?:wo|o_proj|out_proj|down_proj|w2|fc_out|fc2|dense_4h_to_h|lin2|ffn2|down|c_proj|proj_out|o)"
                r"\b[/.\"']",
            ),
        ),
    )
    forms = ("call",)
    fixes = "none"

    def check(self, site: Site) -> Iterator[Finding]:
        """At most one finding for a pair of a table."""
        pair, table = _of_table(site)
        own = _read(site, *pair) if pair is not None else None
        if own is None or len(own.axes) < _LEAST:
            return
        others = [one for each in table if (one := _read(site, *each)) is not None]
        if not _is_of_block(own, others, table):
            return
        others = [one for one in others if _is_of_block(one, others, table)]
        yield from self._other_way(site, own, others)
        if "second" not in own.sides:
            return
        turned = _turned_block(others, own)
        if turned is None:
            return
        first, second = turned
        like = own if "first" in own.sides else _same_first(others, own)
        if like is None:
            return
        right = _turn(own.axes)
        both = "the first matmul, by one rule" if like is own else f"`{like.pattern}`"
        yield site.finding(
            own.node,
            f"Output projection of the {own.block} block is column-parallel like its input projection; "
            f"use row-parallel `{_spec(right)}`.",
            label=_spec(own.axes),
            help=f"write {'a rule for the second matmul alone' if like is own else 'the swapped axes'}: {_spec(right)}",
            form="alike",
            why=f"it has the axes of {both}, so its input or the weight is gathered in each layer; `{first.pattern}` "
            f"and `{second.pattern}` of this table swap them: {_spec(first.axes)}, {_spec(second.axes)}",
        )

    def _other_way(self, site: Site, own: _Pair, others: list[_Pair]) -> Iterator[Finding]:
        """A block whose two matmuls are split the other way than those of another block."""
        model = next((axis for axis in own.axes[-2:] if _MODEL.search(axis)), None)
        mine = [one for one in others if one.block == own.block]
        rest = [one for one in others if one.block != own.block]
        if model is None or own.sides == {"first", "second"} or not site.wants("other-way"):
            return
        inner = {side: _same(mine, side) for side in ("first", "second")}
        outer = {side: _same(rest, side) for side in ("first", "second")}
        first, second = outer["first"], outer["second"]
        if first is None or second is None or first.axes[-1] != model or second.axes != _turn(first.axes):
            return
        if inner["first"] is None or inner["second"] is None:
            return
        if inner["first"].axes != second.axes or inner["second"].axes != first.axes:
            return
        nth = "first" if own.sides == {"first"} else "second"
        yield site.finding(
            own.node,
            f"The {nth} matmul of the {own.block} block adds an all-reduce in each layer: its axes are swapped.",
            label=_spec(own.axes),
            help=f"swap the axes of both matmuls: {_spec(_turn(own.axes))} here",
            form="other-way",
            why=f"the first matmul contracts the dimension that `{model}` shards; `{first.pattern}` and "
            f"`{second.pattern}` of this table are {_spec(first.axes)}, {_spec(second.axes)}",
        )


def _same(pairs: list[_Pair], side: str) -> _Pair | None:
    """One weight of a side, if all of that side are split alike."""
    found = [one for one in pairs if one.sides == {side}]
    return found[0] if found and all(one.axes == found[0].axes for one in found) else None


def _of_table(site: Site) -> tuple[tuple[str, ast.expr] | None, list[tuple[str, ast.expr]]]:
    """The name and the spec that the site's call is of, and all of its table."""
    parent = site.file.parent(site.call)
    if isinstance(parent, ast.Dict):
        while isinstance(outer := site.file.parent(parent), ast.Dict):
            parent = outer
        found = list(_entries(parent, ()))
    else:
        table = (
            site.file.parent(parent) if isinstance(parent, ast.Tuple) and len(parent.elts) == _LEAST else None
        )
        parts = table.elts if isinstance(table, ast.Tuple | ast.List) else []
        found = [
            (one.elts[0].value, one.elts[1])
            for one in parts
            if isinstance(one, ast.Tuple)
            and len(one.elts) == _LEAST
            and isinstance(one.elts[0], ast.Constant)
            if isinstance(one.elts[0].value, str)
        ]
    return next((one for one in found if one[1] is site.call), None), found


def _entries(table: ast.Dict, path: tuple[str, ...]) -> Iterator[tuple[str, ast.expr]]:
    """What a dictionary, and those in it, say under names that are written out."""
    for key, value in zip(table.keys, table.values, strict=True):
        if isinstance(key, ast.Constant) and isinstance(key.value, str):
            if isinstance(value, ast.Dict):
                yield from _entries(value, (*path, key.value))
            else:
                yield "/".join((*path, key.value)), value


def _read(site: Site, pattern: str, spec: ast.expr) -> _Pair | None:
    """A pair of a table; None of what is no weight of a block."""
    if not isinstance(spec, ast.Call):
        return None
    if spec.keywords or any(isinstance(one, ast.Starred) for one in spec.args) or _NO_WEIGHT.search(pattern):
        return None
    words = {word.lower() for word in _WORD.findall(pattern)}
    for block, others in (("attention", _MLP), ("mlp", _ATTENTION)):
        said = _says(block, pattern)
        first = _FIRST[block] | (_SHORT_FIRST[block] if said else frozenset())
        second = _SECOND[block] | (_SHORT_SECOND[block] if said else frozenset())
        sides = {"first"} if words & first else set()
        if words & second and not others.search(pattern.lower()):
            sides.add("second")
        told = (words & (_FIRST[block] | _SECOND[block])) - {"wo"}
        if sides and (told or said):
            axes = tuple(site.text(one) for one in spec.args)
            return _Pair(spec, pattern, block, frozenset(sides), axes)
    return None


def _module(pattern: str) -> str:
    words = ["".join(_WORD.findall(part)) for part in _SEPARATOR.split(pattern)]
    words = [word for word in words if word]
    return "/".join(words[: -2 if words[-1:] and words[-1] in _LEAVES else -1])


def _is_same_module(one: str, other: str) -> bool:
    """Whether two patterns name the same modules; one of them may begin further inside."""
    return one == other or (bool(one and other) and (one.endswith(f"/{other}") or other.endswith(f"/{one}")))


def _is_of_block(pair: _Pair, pairs: list[_Pair], table: list[tuple[str, ast.expr]]) -> bool:
    """Whether a second matmul is of its block, and not of another module that has a name in common with it.

    It is of another one where the table has no first matmul of the block beside it, and either has something else there
    or has a second matmul beside the first one.
    """
    firsts = [one for one in pairs if one.block == pair.block and "first" in one.sides]
    if "first" in pair.sides or any(_is_same_module(one.module, pair.module) for one in firsts):
        return True
    read = [one.node for one in pairs]
    for pattern, spec in table:
        weight = spec not in read and isinstance(spec, ast.Call) and len(spec.args) >= _LEAST
        weight = weight and not _OF_THE_MODEL.search(pattern) and not _NO_WEIGHT.search(pattern)
        if weight and _module(pattern) == pair.module:
            return False
    seconds = [one for one in pairs if one.block == pair.block and "second" in one.sides]
    return not any(_is_same_module(one.module, second.module) for one in firsts for second in seconds)


def _says(block: str, pattern: str) -> bool:
    return bool((_ATTENTION if block == "attention" else _MLP).search(pattern.lower()))


def _turn(axes: tuple[str, ...]) -> tuple[str, ...]:
    """The axes of the last two dimensions, turned round."""
    return (*axes[:-2], axes[-1], axes[-2])


def _turned_block(pairs: list[_Pair], own: _Pair) -> tuple[_Pair, _Pair] | None:
    """The weights of another block that have these axes in the first matmul and turn them round in the second."""
    for first in pairs:
        if first.block != own.block and first.sides == {"first"} and first.axes == own.axes:
            for second in pairs:
                if second.block == first.block and second.sides == {"second"}:
                    if second.axes == _turn(first.axes) != first.axes:
                        return first, second
    return None


def _same_first(pairs: list[_Pair], own: _Pair) -> _Pair | None:
    """The first matmul of the same module, or block, if all that is said of it has the axes of the second."""
    firsts = [one for one in pairs if one.block == own.block and "first" in one.sides]
    firsts = [one for one in firsts if _is_same_module(one.module, own.module)] or firsts
    return firsts[0] if firsts and all(one.axes == own.axes for one in firsts) else None


def _spec(axes: tuple[str, ...]) -> str:
    return f"PartitionSpec({', '.join(axes)})"
