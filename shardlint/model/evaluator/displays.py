"""The value of what is written out: displays, arithmetic, f-strings, elements and slices."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from shardlint.model.evaluator import sequence_parts
from shardlint.model.values import (
    LARGEST,
    AxisOf,
    Computed,
    Constant,
    Environment,
    Items,
    Leaves,
    Place,
    Table,
    Unknown,
    Value,
    accept_assumed,
    choose_value,
    mark_assumed,
    options,
)
from shardlint.syntax import FileFacts

if TYPE_CHECKING:
    from shardlint.model.evaluator.evaluate import Evaluator


class DisplayEvaluator:
    """Evaluates what is written out, for an evaluator."""

    def __init__(self, evaluator: Evaluator) -> None:
        self.evaluator = evaluator

    def evaluate_sequence(
        self, file: FileFacts, node: ast.Tuple | ast.List | ast.Set, env: Environment | None
    ) -> Value:
        """A tuple, list or set that is written out."""
        found: list[Value] = []
        is_open = False
        for element in node.elts:
            if isinstance(element, ast.Starred):
                inner = self.evaluator.value(Place(file, element.value), env)
                inner = sequence_parts.spec_entries(self.evaluator, inner) or inner
                if isinstance(inner, Items):
                    found.extend(inner.items)
                    is_open = is_open or inner.open
                else:
                    is_open = True
            else:
                found.append(self.evaluator.value(Place(file, element), env))
        return Items(type(node).__name__.lower(), tuple(found), is_open)

    def evaluate_dict(self, file: FileFacts, node: ast.Dict, env: Environment | None) -> Value:
        """A dict that is written out."""
        entries: list[tuple[object, Value]] = []
        is_open = False
        for key, value in zip(node.keys, node.values, strict=True):
            inner = accept_assumed(self.evaluator.value(Place(file, value), env)) if key is None else None
            if isinstance(inner, Table):
                entries.extend(inner.entries)
                is_open = is_open or inner.open
                continue
            name = self.evaluator.value(Place(file, key), env) if key is not None else Unknown()
            if isinstance(name, Constant):
                entries.append((name.value, self.evaluator.value(Place(file, value), env)))
            else:
                is_open = True
        return Table(tuple(entries), is_open)

    def evaluate_operation(self, file: FileFacts, node: ast.BinOp, env: Environment | None) -> Value:
        """Arithmetic."""
        one, two = self.evaluator.value(Place(file, node.left), env), self.evaluator.value(Place(file, node.right), env)
        found = self.apply_operator(node.op, accept_assumed(one), accept_assumed(two))
        if isinstance(found, Unknown):
            return Computed(found.why, Place(file, node), env)
        return mark_assumed(found, one, two)

    def apply_operator(self, op: ast.operator, left: Value, right: Value) -> Value:
        """Return the result of an operator for two values; unknown if the text does not tell."""
        if isinstance(left, Constant) and isinstance(right, Constant):
            one, two = left.value, right.value
            if isinstance(one, str) and isinstance(two, str) and isinstance(op, ast.Add):
                return Constant(one + two)
            if isinstance(one, int) and isinstance(two, int):
                match op:
                    case ast.Add():
                        return bounded_number(one + two)
                    case ast.Sub():
                        return bounded_number(one - two)
                    case ast.Mult():
                        return bounded_number(one * two)
                    case ast.FloorDiv() if two:
                        return Constant(one // two)
        if isinstance(left, Table) and isinstance(right, Table) and isinstance(op, ast.BitOr):
            return Table(left.entries + right.entries, left.open or right.open)
        if isinstance(left, Items) and isinstance(right, Items) and isinstance(op, ast.Add):
            return Items(left.kind, left.items + right.items, left.open or right.open)
        if isinstance(right, Items) and not isinstance(left, Items):
            left, right = right, left  # 2 * (a,)
        if isinstance(left, Items) and isinstance(op, ast.Mult):
            count = right.value if isinstance(right, Constant) else None
            if isinstance(count, int) and 0 <= count * len(left.items) <= 64:
                return Items(left.kind, left.items * count, left.open)
            if not left.open:
                return Items(left.kind, (), True, left.items)
        return Unknown("arithmetic on something unknown")

    def evaluate_fstring(self, file: FileFacts, node: ast.JoinedStr, env: Environment | None) -> Value:
        """An f-string of what is known."""
        said: list[str] = []
        given: list[Value] = []
        for part in node.values:
            if isinstance(part, ast.FormattedValue):
                value = self.evaluator.value(Place(file, part.value), env)
                known = accept_assumed(value)
                plain = part.conversion == -1 and part.format_spec is None
                if not plain or not isinstance(known, Constant) or not isinstance(known.value, str | int):
                    return Unknown("a text that is made when it runs")
                said.append(str(known.value))
                given.append(value)
            elif isinstance(part, ast.Constant):
                said.append(str(part.value))
        return mark_assumed(Constant("".join(said)), *given)

    def evaluate_subscript(self, file: FileFacts, node: ast.Subscript, env: Environment | None) -> Value:
        """An element or a slice."""
        whole = self.evaluator.value(Place(file, node.value), env)
        if isinstance(node.slice, ast.Slice):
            return self._evaluate_slice(file, node.slice, whole, env)
        index = self.evaluator.value(Place(file, node.slice), env)
        return mark_assumed(
            self._element_at_key(self.evaluator.trees.expand_tree_map(accept_assumed(whole)), accept_assumed(index)),
            whole,
            index,
        )

    def _evaluate_slice(
        self, file: FileFacts, node: ast.Slice, value: Value, env: Environment | None
    ) -> Value:
        given = [
            accept_assumed(self.evaluator.value(Place(file, one), env)) if one is not None else None
            for one in (node.lower, node.upper, node.step)
        ]
        found: list[Value] = []
        for option in options(self.evaluator.trees.expand_tree_map(accept_assumed(value))):
            base = sequence_parts.spec_entries(self.evaluator, option) or option
            if isinstance(base, Items) and base.kind in ("tuple", "list"):
                found.append(sequence_parts.slice_items(base, tuple(given)))
            else:
                found.append(Unknown("a part of something unknown"))
        return mark_assumed(choose_value(found), value)

    def _element_at_key(self, value: Value, key: Value) -> Value:
        found = [self._element_of(option, key) for option in options(value)]
        if any(isinstance(option, Leaves) for option in options(value)):
            found = [
                one for one in found if not isinstance(one, Unknown)
            ]  # the part of a tree, not of a leaf
        return choose_value(found)

    def _element_of(self, base: Value, key: Value) -> Value:
        if isinstance(base, Leaves):
            return choose_value([base.of, base])  # a leaf of the tree, or a part of it
        if isinstance(key, Constant):
            if isinstance(base, AxisOf) and isinstance(key.value, int):
                return AxisOf(base.why, base.of, key.value)
            if isinstance(base, Items) and isinstance(key.value, int) and not base.open:
                try:
                    return base.items[key.value]
                except IndexError:
                    return Unknown("an index out of range")
            if isinstance(base, Table) and not base.open:
                return base.value_under(key.value) or Unknown("a key that is not there")
        elif not isinstance(key, Items) and isinstance(base, Table) and not base.open and base.entries:
            return choose_value([value for _, value in base.entries])  # one of them
        return Unknown("an element of something unknown")


def bounded_number(value: int) -> Value:
    """A number, unless it is too large for a size or an index."""
    return Constant(value) if abs(value) < LARGEST else Unknown("a number larger than any size or index")
