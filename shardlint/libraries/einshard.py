"""einshard: expressions such as `x y -> x y*`, what they require, and the shardings that they make.

Facts of einshard 0.2.0, each tried: every element of the right side is an axis of the mesh, also one of one device; a
star takes what the counts leave of all devices, two stars take the root of it; the last of several elements with a name
counts; an array is read where it is placed, which a tracer cannot be.
"""

from __future__ import annotations

import unicodedata

from shardlint.layouts.layout import AxisType, Layout, Mesh, Shape, Size, Symbol
from shardlint.layouts.values import Call, PartitionSpec, Sharding, Unknown, Value
from shardlint.libraries.jax_sharding import place_array, place_of
from shardlint.libraries.meeting import layout_as_array
from shardlint.libraries.registry import register_function
from shardlint.source.lazy import dataclass

# Of a spec that says an axis twice, jax says so by a type of its own since then.
_DUPLICATES = (0, 9)
_ASSERTION = "AssertionError, without a message"


@dataclass(frozen=True)
class Element:
    """One element of a side: `name`, `name4`, `name*`, `name2*`, `4`, `*` or `...`, and where it stands.

    `name` is None for an element that only replicates. A starred element takes `count` times what is left over.
    """

    name: str | None
    count: int
    starred: bool
    ellipsis: bool
    start: int
    end: int

    @property
    def is_splitting(self) -> bool:
        """True if it takes more than one device (a star does, wherever there is more than one)."""
        return self.starred or self.count > 1


@dataclass(frozen=True)
class Expression:
    """Both sides of an expression."""

    left: tuple[Element, ...]
    right: tuple[Element, ...]

    @property
    def has_ellipsis(self) -> bool:
        """True if the left side has an ellipsis."""
        return any(element.ellipsis for element in self.left)

    @property
    def star_count(self) -> int:
        """How many elements take what is left over."""
        return sum(element.starred for element in self.right)

    def fixed_device_count(self) -> int:
        """How many devices the counts without a star take."""
        product = 1
        for element in self.right:
            product *= 1 if element.starred else element.count
        return product

    def right_element_of(self, name: str) -> Element | None:
        """The element of the right side that says how a dimension is split: of several, the last."""
        return next((element for element in reversed(self.right) if element.name == name), None)


@dataclass(frozen=True)
class Fault:
    """A mistake in an expression: its character offsets, and the error that einshard raises."""

    start: int
    end: int
    text: str
    raised: str = "ValueError: it cannot be parsed"
    is_sure: bool = True
    """Whether it raises on any number of devices but one."""


def parse_expression(text: str) -> Expression | Fault:
    """An expression, or the first place that cannot be parsed."""
    left, at = _parse_elements(text, _skip_blanks(text, 0), _left)
    if not left:
        return _parse_fault(text, at, "an axis name or `...` belongs here")
    if not text.startswith("->", at):
        if "->" not in text:
            return Fault(at, max(len(text), at + 1), "there is no `->`")
        return _parse_fault(text, at, "the left side is names of letters and `_`, separated by spaces")
    right, at = _parse_elements(text, _skip_blanks(text, at + 2), _right)
    if not right:
        return _parse_fault(text, at, "nothing stands right of `->`")
    if at < len(text):
        return _parse_fault(
            text, at, "an element is a name, then a count, then `*`, and spaces separate elements"
        )
    for element in right:
        digits = text[element.start : element.end].rstrip("*")[len(element.name or "") :]
        if digits and not element.ellipsis and not digits.isdecimal():
            return Fault(element.start, element.end, "the count is not a decimal number")
    return Expression(left, right)


def _parse_elements(text: str, at: int, reader: _Reader) -> tuple[tuple[Element, ...], int]:
    """Elements separated by spaces, and the place after the spaces behind them."""
    found: list[Element] = []
    while (element := reader(text, at)) is not None:
        found.append(element)
        after = _skip_blanks(text, element.end)
        if after == element.end:
            return tuple(found), after
        at = after
    return tuple(found), at


class _Reader:
    """Reads one element of a side."""

    def __init__(self, counts: bool) -> None:
        self.counts = counts

    def __call__(self, text: str, start: int) -> Element | None:
        at = start
        while at < len(text) and (text[at] == "_" or unicodedata.category(text[at])[0] == "L"):
            at += 1
        name, count, starred = text[start:at] or None, 1, False
        if self.counts:
            digits = at
            while at < len(text) and text[at].isdigit() and (at > digits or text[at] != "0"):
                at += 1
            number = text[digits:at]
            count = int(number) if number.isdecimal() else 1
            starred = text.startswith("*", at)
            at += starred
        if at > start:
            return Element(name, count, starred, False, start, at)
        return Element(None, 1, False, True, start, start + 3) if text.startswith("...", start) else None


_left, _right = _Reader(counts=False), _Reader(counts=True)


def _skip_blanks(text: str, at: int) -> int:
    while at < len(text) and text[at].isspace():
        at += 1
    return at


def _parse_fault(text: str, at: int, why: str) -> Fault:
    end = at + 2 if text.startswith("->", at) else at
    while end < len(text) and not text[end].isspace() and not text.startswith("->", end):
        end += 1
    return Fault(at, max(end, at + 1), why)


# what an expression requires


def _fault_at_element(element: Element, text: str, raised: str = _ASSERTION) -> Fault:
    return Fault(element.start, element.end, text, raised)


def _fault_over_elements(elements: tuple[Element, ...], text: str, raised: str = _ASSERTION) -> Fault:
    return Fault(elements[0].start, elements[-1].end, text, raised)


def find_fault(expression: Expression, shape: Shape | None, has_rank: bool, duplicate: str) -> Fault | None:
    """The first thing for which einshard refuses an expression. `has_rank`: it is told of how many dimensions."""
    found = (
        _find_ellipsis_fault(expression, has_rank)
        or _find_name_fault(expression, duplicate)
        or _find_size_fault(expression, shape)
    )
    if found is not None:
        return found
    if not expression.star_count and expression.fixed_device_count() == 1:
        text = "uses one device; add a star or a count"
        return _fault_over_elements(expression.right, text, "ValueError wherever there is more than one device")
    if expression.star_count >= 3:
        last = next(element for element in reversed(expression.right) if element.starred)
        raised = f"AssertionError if the root {expression.star_count} of the device count is inexact, such as for 64"
        return Fault(last.start, last.end, f"{expression.star_count} stars share the remaining devices", raised, False)
    return None


def _find_ellipsis_fault(expression: Expression, has_rank: bool) -> Fault | None:
    left, right = ([element for element in side if element.ellipsis] for side in (expression.left, expression.right))
    for side in (left, right):
        if len(side) > 1:
            return _fault_at_element(side[1], "second `...` on one side")
    if left and not right:
        return _fault_at_element(left[0], "no `...` on the right")
    if right and not left:
        return _fault_at_element(right[0], "no `...` on the left")
    return _fault_at_element(left[0], "`...` needs n_dims=") if left and not has_rank else None


def _find_name_fault(expression: Expression, duplicate: str) -> Fault | None:
    seen = set()
    for element in expression.left:
        if element.name is None:
            continue
        if expression.right_element_of(element.name) is None:
            return _fault_at_element(element, "not on the right side", f"KeyError: {element.name!r}")
        if element.name in seen:
            return _fault_at_element(element, "repeats an earlier name", duplicate)
        seen.add(element.name)
    return None


def _find_size_fault(expression: Expression, shape: Shape | None) -> Fault | None:
    if shape is None:
        return None
    if not expression.has_ellipsis and len(shape) != len(expression.left):
        return _fault_over_elements(expression.left, f"{len(expression.left)} names for {len(shape)} dimensions")
    hidden = len(shape) - len(expression.left) + 1
    if hidden < 0:
        return None  # what jax says to it depends on its release
    at = 0
    for element in expression.left:
        if element.ellipsis:
            at += hidden
            continue
        size, taken = shape[at], expression.right_element_of(element.name or "")
        at += 1
        if isinstance(size, int) and taken is not None and size % taken.count:
            return _fault_at_element(
                taken, f"{element.name} has size {size}", f"an error: {taken.count} does not divide {size}"
            )
    return None


# what it makes


def _make_sharding(expression: Expression, rank: int, line: int) -> Sharding:
    """The sharding of an expression without faults, for arrays of some rank."""
    names = [f"?{place}" for place in range(rank - len(expression.left) + 1)] if expression.has_ellipsis else []
    left = [name for one in expression.left for name in (names if one.ellipsis else [one.name])]
    right = [
        part for one in expression.right for part in ([(name, 1, False) for name in names] if one.ellipsis else [
            (one.name, one.count, one.starred)])
    ]  # fmt: skip
    axes = {name: f"a{place}" for place, (name, _, _) in enumerate(right)}
    alone: Size = (
        Symbol("jax.device_count()") if expression.fixed_device_count() == 1 and expression.star_count == 1 else None
    )
    sizes = tuple(count if not starred else alone if count == 1 else None for _, count, starred in right)
    types: list[AxisType] = ["auto"] * len(right)
    mesh = Mesh(tuple(f"a{place}" for place in range(len(right))), sizes, tuple(types), "arranged", line)
    return Sharding(mesh, PartitionSpec(tuple(axes[name] for name in left)))


def _shape_and_rank(call: Call) -> tuple[Shape | None, bool]:
    """The shape for which a sharding is made, as far as it is known, and whether einshard knows the rank."""
    if call.name.endswith(".einshard"):
        return layout_as_array(call.argument_at(0, "arr")).shape, True
    count = call.argument_at(-1, "n_dims", None)
    return (None,) * count if isinstance(count, int) else None, count is not None


@register_function("einshard einshard make_sharding")
def evaluate_einshard(call: Call) -> Value:
    """An array placed by an expression, or the sharding that it makes."""
    places = call.name.endswith(".einshard")
    text, where = call.argument_at(int(places), "expression"), place_of(call, int(places), "expression")
    array = call.argument_at(0, "arr") if places else None
    run = call.interpreter
    if places and run.traced and isinstance(array, Layout) and array.host is False:
        run.record_violation("einshard.traced", call.place)
        return Unknown("what raises")
    if not isinstance(text, str):
        return Layout() if places else Unknown("a sharding")
    shape, has_rank = _shape_and_rank(call)
    parsed = parse_expression(text)
    recent = run.releases.get("jax", (99,)) >= _DUPLICATES
    duplicate = "DuplicateSpecError" if recent else "ValueError: an axis is used twice"
    fault = parsed if isinstance(parsed, Fault) else find_fault(parsed, shape, has_rank, duplicate)
    if fault is not None:
        kind = "einshard.expression" if fault.is_sure else "einshard.root"
        said = {"text": text, "start": str(fault.start), "end": str(fault.end)}
        run.record_violation(kind, where, label=fault.text, raised=fault.raised, **said)
    if isinstance(parsed, Fault) or (fault is not None and fault.is_sure):
        return Unknown("what raises")
    rank = len(shape) if shape is not None else len(parsed.left)
    if shape is None and parsed.has_ellipsis:
        return layout_as_array(array).with_shape(None) if places else Unknown("a sharding")
    sharding = _make_sharding(parsed, rank, call.place.line)
    return place_array(call, array, sharding, where) if places else sharding
