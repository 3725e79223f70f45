"""Trees and sequences of values: what `jax.tree.map` makes, what a loop goes over, what a comprehension collects."""

from __future__ import annotations

import ast
from collections import ChainMap
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import TYPE_CHECKING

from shardlint.model.evaluator.test_outcomes import truth_of_test
from shardlint.model.values import (
    Api,
    Assumed,
    CallArguments,
    CallResult,
    Choice,
    ClassValue,
    Constant,
    Environment,
    Function,
    Items,
    Leaves,
    Parameter,
    Place,
    Table,
    Transformed,
    Unknown,
    Value,
    accept_assumed,
    choose_value,
    mark_assumed,
    options,
)
from shardlint.syntax import Binding, FileFacts

if TYPE_CHECKING:
    from shardlint.model.evaluator.evaluate import Evaluator

Comprehension = ast.ListComp | ast.SetComp | ast.GeneratorExp | ast.DictComp
TABLE_METHODS = ("items", "keys", "values", "get", "copy")
# What maps over a tree, and what the function is given before its leaves.
MAPS: dict[str, tuple[Value, ...]] = {
    "jax.tree.map": (),
    "jax.tree.map_with_path": (Unknown("a path"),),
}
# A loop over more elements tells of any of them only what holds for a leaf.
_ELEMENTS = 16


class Trees:
    """Evaluates what goes over the elements of trees and sequences, for an evaluator."""

    def __init__(self, evaluator: Evaluator) -> None:
        self.evaluator = evaluator
        self._open: set[ast.AST] = set()
        """The calls being expanded: in a loop, `x = tree.map(f, x)` is made of itself."""

    # jax.tree.map

    def expand_tree_map(self, value: Value) -> Value:
        """A value with the result of `jax.tree.map` seen as the tree it is; any other value as it is."""
        return choose_value([self._expand_mapped(option) for option in options(value)])

    def _expand_mapped(self, value: Value) -> Value:
        if isinstance(value, CallResult) and value.api in MAPS and value.call is not None:
            return self._map_over_tree(value.call, MAPS[value.api])
        return value

    def _map_over_tree(self, arguments: CallArguments, first: tuple[Value, ...]) -> Value:
        """The result of `jax.tree.map(f, tree, *rest)`, of the same structure where that is written out.

        `first` is what `f` is given before the leaves.
        """
        node = arguments.place.node
        if len(arguments.positional) < 2 or node in self._open:
            return Unknown("a tree that is not given here")
        self._open.add(node)
        try:
            return self._result_of_map(arguments, first)
        finally:
            self._open.discard(node)

    def _result_of_map(self, arguments: CallArguments, first: tuple[Value, ...]) -> Value:
        function, *trees = (
            self.evaluator.value(place, arguments.environment) for place in arguments.positional
        )
        return self._map_over_trees(function, [self.expand_tree_map(tree) for tree in trees], arguments, first)

    def _map_over_trees(
        self, function: Value, trees: Sequence[Value], arguments: CallArguments, first: tuple[Value, ...]
    ) -> Value:
        match _tree_with_structure(trees):
            case Items(kind=kind, items=items, open=False):
                parts = [
                    self._map_over_trees(
                        function, [_item_at_index(tree, index) for tree in trees], arguments, first
                    )
                    for index in range(len(items))
                ]
                return Items(kind, tuple(parts))
            case Table(entries=entries, open=False):
                return Table(
                    tuple(
                        (
                            key,
                            self._map_over_trees(
                                function, [_entry_at_key(tree, key) for tree in trees], arguments, first
                            ),
                        )
                        for key, _ in entries
                    )
                )
            case Constant(value=None):
                return Constant(None)  # no leaf
            case Leaves():
                return Leaves(self.apply_to_values(function, [*first, *map(_choose_any_leaf, trees)], arguments))
            case CallResult(by=Api()) | Constant():
                return self.apply_to_values(function, [*first, *trees], arguments)
        leaves = [*first, Unknown("a leaf"), *(_choose_any_leaf(tree) for tree in trees[1:])]
        return Leaves(self.apply_to_values(function, leaves, arguments))

    def find_mapped_calls(self, api: str, arguments: CallArguments) -> Iterator[tuple[ast.AST, Environment, str]]:
        """The function that `jax.tree.map(f, tree, *rest)` runs, what its parameters are, and the path of the leaf.

        Once for each leaf that is known.
        """
        node = arguments.place.node
        if len(arguments.positional) < 2 or arguments.open_positional or node in self._open:
            return
        self._open.add(node)
        try:
            function, *trees = (
                self.evaluator.value(place, arguments.environment) for place in arguments.positional
            )
            leaves = list(zip_leaves([self.expand_tree_map(tree) for tree in trees]))
        finally:
            self._open.discard(node)
        for path, values in leaves:
            match function:
                case Function():
                    yield function.node, self._environment_of_call(function, [*MAPS[api], *values]), path
                case Transformed(
                    api=Api(name="functools.partial"), inner=Function() as inner, call=CallArguments() as earlier
                ):
                    yield (
                        inner.node,
                        self._environment_of_partial(inner, earlier, [*MAPS[api], *values]),
                        path,
                    )

    def apply_to_values(self, function: Value, values: Sequence[Value], arguments: CallArguments) -> Value:
        """Return the result of a function value for these values. `arguments` is the call that applies it."""
        return choose_value([self._apply_function(option, values, arguments) for option in options(function)])

    def _apply_function(self, function: Value, values: Sequence[Value], arguments: CallArguments) -> Value:
        match function:
            case Function():
                return self.evaluator.calls.evaluate_result(
                    function, lambda: self._environment_of_call(function, values)
                )
            case Transformed(api=Api(name="functools.partial"), inner=inner, call=CallArguments() as earlier):
                if isinstance(inner, Function):
                    return self.evaluator.calls.evaluate_result(
                        inner, lambda: self._environment_of_partial(inner, earlier, values)
                    )
                return (
                    CallResult(inner, _arguments_after_partial(earlier))
                    if isinstance(inner, Api)
                    else Unknown("a partial")
                )
            case CallResult(by=ClassValue()):
                method = self.evaluator.evaluate_attribute(function, "__call__")
                return self.apply_to_values(method, values, arguments) if isinstance(method, Function) else method
            case Api(name="builtins.tuple" | "builtins.list") if values:
                return values[0]
            case Api():
                return CallResult(function, _hide_argument_values(arguments))
        return Unknown("the result of an unknown function")

    def _environment_of_call(self, function: Function, values: Sequence[Value]) -> Environment:
        arguments = CallArguments(function.place, (), {}, open_positional=True)
        known = dict(self.evaluator.bind_parameters(function, arguments).values)
        known.update(zip(function.positional_parameters, values, strict=False))
        return Environment(known)

    def _environment_of_partial(
        self, function: Function, earlier: CallArguments, values: Sequence[Value]
    ) -> Environment:
        before = CallArguments(
            earlier.place, earlier.positional[1:], earlier.keywords, True, False, earlier.environment
        )
        known = dict(self.evaluator.bind_parameters(function, before).values)
        known.update(zip(function.positional_parameters[len(before.positional) :], values, strict=False))
        return Environment(known)

    def evaluate_dict_get(self, table: Value, arguments: CallArguments) -> Value:
        """Return the result of `table.get(key, default)`."""
        given = [self.evaluator.value(place, arguments.environment) for place in arguments.positional]
        key, default = given[0], given[1] if len(given) > 1 else Constant(None)
        if isinstance(table, Leaves):
            return choose_value([table.of, default])
        if not isinstance(table, Table) or table.open:
            return Unknown("an entry of something unknown")
        if isinstance(key, Constant):
            return table.value_under(key.value) or default
        return choose_value([*(value for _, value in table.entries), default])

    # loops and comprehensions

    def list_elements(self, value: Value) -> Items | None:
        """The elements of a value, as `list(value)` gives them; None where they are not known."""
        match self.expand_tree_map(value):
            case Items() as items:
                return items
            case Table(open=False) as table:
                keys = evaluate_table_method(table, "keys")
                return keys if isinstance(keys, Items) else None
            case CallResult(by=Api(name="builtins.range"), call=CallArguments() as call) if not call.keywords:
                bounds = [self.evaluator.value(place, call.environment) for place in call.positional]
                numbers = None if call.open_positional else _list_range(bounds)
                return Items("list", tuple(numbers)) if numbers is not None else None
        return None

    def evaluate_loop_target(self, file: FileFacts, binding: Binding, env: Environment | None) -> Value:
        """Return the value of a `for` target, of a loop or a comprehension."""
        if binding.value is None:
            return Unknown("an element of something unknown")
        found = self._any_element(Place(file, binding.value), env)
        if binding.index is not None:
            found = choose_value([_part_at_index(option, binding.index) for option in options(found)])
        if isinstance(found, Choice):
            self.evaluator.rests_on_call()  # in one turn of the loop it is one of them
        return found

    def iteration_values(
        self, place: Place, target: ast.expr, env: Environment | None
    ) -> list[dict[ast.AST, Value]] | None:
        """Return the values of the names of a target in each iteration over an expression; None if they are not
        known.
        """
        elements = self.evaluate_elements(place, env)
        return None if elements is None else [dict(_target_values(target, element)) for element in elements]

    def evaluate_elements(self, place: Place, env: Environment | None) -> list[Value] | None:
        """All elements of what an expression goes over, in order; None where they are not known or many."""
        node = place.node
        if isinstance(node, ast.Call) and node.args and {one.arg for one in node.keywords} <= {"strict"}:
            callee = self.evaluator.value(Place(place.file, node.func), env)
            name = callee.name if isinstance(callee, Api) else ""
            parts = [Place(place.file, part) for part in node.args if not isinstance(part, ast.Starred)]
            if name == "builtins.zip" and len(parts) == len(node.args):
                rows = [self.evaluate_elements(part, env) for part in parts]
                known = [row for row in rows if row is not None]
                if len(known) < len(rows):
                    return None
                return [Items("tuple", row) for row in zip(*known, strict=False)]
            if name == "builtins.enumerate" and len(parts) == len(node.args) == 1:
                found = self.evaluate_elements(parts[0], env)
                return found and [Items("tuple", (Constant(n), one)) for n, one in enumerate(found)]
            if name == "builtins.range" and len(parts) == len(node.args):
                return _list_range([self.evaluator.value(part, env) for part in parts])
        return self._list_elements(place, env)

    def _any_element(self, place: Place, env: Environment | None) -> Value:
        """Any element of what an expression goes over."""
        file, node = place.file, place.node
        if isinstance(node, ast.Call):
            callee = self.evaluator.value(Place(file, node.func), env)
            parts = [Place(file, argument) for argument in node.args]
            if isinstance(callee, Api) and {one.arg for one in node.keywords} <= {"strict"}:
                match callee.name.rpartition(".")[2], parts:
                    case "enumerate", [one, *_]:
                        self.evaluator.rests_on_call()  # as above
                        return Items("tuple", (Unknown("an index"), self._any_element(one, env)))
                    case "zip", [_, *_]:
                        return Items("tuple", tuple(self._any_element(one, env) for one in parts))
                    case (("reversed" | "sorted" | "list" | "tuple" | "leaves" | "tree_leaves"), [one]):
                        return self._any_element(one, env)
        return _any_element_of_value(self.expand_tree_map(self.evaluator.value(place, env)))

    def evaluate_comprehension(self, file: FileFacts, node: Comprehension, env: Environment | None) -> Value:
        """Return the result of a comprehension: a value for each element if they are known, else leaves like one."""
        if len(node.generators) == 1:
            elements = self.evaluate_elements(Place(file, node.generators[0].iter), env)
            made = self._evaluate_each_element(file, node, elements, env) if elements is not None else None
            if made is not None:
                return made
        made = self.evaluator.value(
            Place(file, node.value if isinstance(node, ast.DictComp) else node.elt), env
        )
        if isinstance(node, ast.DictComp):
            return Leaves(made, "dict")
        return Items("list", (), True, (made,), self._filtered_mesh_names(file, node, env))

    def _filtered_mesh_names(
        self, file: FileFacts, node: ast.ListComp | ast.SetComp | ast.GeneratorExp, env: Environment | None
    ) -> Value | None:
        """The names of which a comprehension leaves out only those that a mesh lacks; None of any other."""
        one = node.generators[0]
        same = isinstance(node.elt, ast.Name) and isinstance(one.target, ast.Name) and node.elt.id == one.target.id
        if len(node.generators) > 1 or not same or not all(_is_axis_test(test) for test in one.ifs):
            return None
        whole = accept_assumed(self.evaluator.value(Place(file, one.iter), env))
        if isinstance(whole, Items) and whole.open:
            return whole.names_of
        return whole if isinstance(whole, Items | Parameter) else None

    def _list_elements(self, place: Place, env: Environment | None) -> list[Value] | None:
        given = self.evaluator.value(place, env)
        value = self.list_elements(accept_assumed(given))
        if isinstance(value, Items) and not value.open and len(value.items) <= _ELEMENTS:
            return [mark_assumed(one, given) for one in value.items]
        return None

    def _evaluate_each_element(
        self, file: FileFacts, node: Comprehension, elements: list[Value], env: Environment | None
    ) -> Value | None:
        """A value for each element that is kept; None where that is not known of one."""
        made: list[Value] = []
        keys: list[Value] = []
        reasons: list[Value] = []
        for element in elements:
            outer = env.values if env is not None else {}
            inner = Environment(ChainMap(_bind_targets(node, element), outer))  # type: ignore[arg-type]
            tests = [truth_of_test(self.evaluator, file, test, inner) for test in node.generators[0].ifs]
            if env is not None:
                env.asked += inner.asked
                inner.asked = 0
            if any(test is None for test in tests):
                return None
            reasons += [test[1] for test in tests if test is not None and test[1] is not None]
            if any(test is not None and not test[0] for test in tests):
                reasons.append(element)
                continue
            if isinstance(node, ast.DictComp):
                keys.append(self.evaluator.value(Place(file, node.key), inner))
                made.append(self.evaluator.value(Place(file, node.value), inner))
            else:
                made.append(self.evaluator.value(Place(file, node.elt), inner))
            if env is not None:
                env.asked += inner.asked
        if not isinstance(node, ast.DictComp):
            return mark_assumed(
                Items("set" if isinstance(node, ast.SetComp) else "list", tuple(made)), *reasons
            )
        named = [key.value for key in keys if isinstance(key, Constant)]
        if len(named) < len(keys):
            return Leaves(choose_value(made), "dict")
        return mark_assumed(Table(tuple(zip(named, made, strict=True))), *reasons)


def _is_axis_test(test: ast.expr) -> bool:
    """Return whether a test is about an axis of a mesh: `a in mesh.axis_names`, `mesh.shape[a] > 1`."""
    match test:
        case ast.BoolOp(op=ast.And(), values=parts):
            return all(_is_axis_test(part) for part in parts)
        case ast.Compare(left=ast.Name(), ops=[ast.In()], comparators=[ast.Attribute(attr="axis_names" | "shape")]):
            return True
        case ast.Compare(left=left, ops=[ast.Gt() | ast.NotEq()], comparators=[ast.Constant(value=1)]):
            asked = left.func if isinstance(left, ast.Call) else left
            return isinstance(asked, ast.Subscript | ast.Attribute) and _is_shape(asked.value)
    return False


def _is_shape(node: ast.expr) -> bool:
    return isinstance(node, ast.Attribute) and node.attr == "shape"


def _list_range(bounds: Sequence[Value]) -> list[Value] | None:
    """The numbers of a range that is written out and short."""
    known = [one.value for one in bounds if isinstance(one, Constant) and isinstance(one.value, int)]
    if len(known) != len(bounds) or not 1 <= len(known) <= 3 or 0 in known[2:]:
        return None
    numbers = range(*known)
    return [Constant(number) for number in numbers] if len(numbers) <= _ELEMENTS else None


def _arguments_after_partial(earlier: CallArguments) -> CallArguments:
    """The arguments of a partial, and some more that are not seen."""
    return CallArguments(
        earlier.place,
        earlier.positional[1:],
        earlier.keywords,
        True,
        earlier.open_keywords,
        earlier.environment,
    )


def _hide_argument_values(arguments: CallArguments) -> CallArguments:
    return CallArguments(arguments.place, (), {}, True, False, arguments.environment)


def _bind_targets(node: Comprehension, element: Value) -> dict[str, Value]:
    """The names that the target of a comprehension binds for one element."""
    return {name.id: value for name, value in _target_values(node.generators[0].target, element)}


def _target_values(target: ast.expr, element: Value) -> Iterator[tuple[ast.Name, Value]]:
    """Yield the names of a target, each with its value for one element."""
    if isinstance(target, ast.Name):
        yield target, element
    elif isinstance(target, ast.Tuple | ast.List) and not any(isinstance(one, ast.Starred) for one in target.elts):
        for index, part in enumerate(target.elts):
            yield from _target_values(part, _part_at_index(element, index))


def zip_leaves(trees: Sequence[Value], path: str = "") -> Iterator[tuple[str, list[Value]]]:
    """The leaves of trees that are alike, side by side, with their path; none that no tree tells of."""
    match _tree_with_structure(trees):
        case Items(items=items, open=False):
            for index in range(len(items)):
                yield from zip_leaves([_item_at_index(tree, index) for tree in trees], f"{path}[{index}]")
        case Table(entries=entries, open=False):
            for key, _ in entries:
                yield from zip_leaves([_entry_at_key(tree, key) for tree in trees], f"{path}[{key!r}]")
        case Leaves():
            yield path, [_choose_any_leaf(tree) for tree in trees]
        case CallResult(by=Api()) | Constant():
            if trees[0] != Constant(None):
                yield path, list(trees)
        case Unknown() if path and any(isinstance(one, CallResult | Constant | Items) for one in trees[1:]):
            yield path, list(trees)


def _tree_with_structure(trees: Sequence[Value]) -> Value:
    """The first of trees that are alike, or the one that tells their structure where it does not."""
    if isinstance(trees[0], Unknown | Parameter | CallResult):
        return next((one for one in trees if _is_branching(one)), trees[0])
    return trees[0]


def _is_branching(tree: Value) -> bool:
    """Return whether a value surely has more than one leaf where an array has one. A tuple of names and numbers may be
    passed whole.
    """
    if isinstance(tree, Items):
        plain = any(isinstance(one, Constant) for one in tree.items)
        return tree.kind in ("tuple", "list") and bool(tree.items) and not tree.open and not plain
    return isinstance(tree, Table) and not tree.open


def _item_at_index(tree: Value, index: int) -> Value:
    if isinstance(tree, Items) and not tree.open and index < len(tree.items):
        return tree.items[index]
    return tree.of if isinstance(tree, Leaves) else Unknown("an item of something unknown")


def _entry_at_key(tree: Value, key: object) -> Value:
    if isinstance(tree, Table):
        return tree.value_under(key) or Unknown("a key that is not there")
    return tree.of if isinstance(tree, Leaves) else Unknown("an entry of something unknown")


def _choose_any_leaf(tree: Value) -> Value:
    """Any leaf of a tree."""
    if isinstance(tree, Leaves):
        return tree.of
    leaves = list(islice(_leaves_of_tree(tree), _ELEMENTS + 1)) if isinstance(tree, Items | Table) else []
    return choose_value(leaves) if 0 < len(leaves) <= _ELEMENTS else Unknown("a leaf")


def _leaves_of_tree(tree: Value) -> Iterator[Value]:
    match tree:
        case Items(items=parts) if _is_branching(tree):
            for part in parts:
                yield from _leaves_of_tree(part)
        case Table(entries=entries, open=False):
            for _, part in entries:
                yield from _leaves_of_tree(part)
        case Leaves(of=leaf):
            yield leaf
        case Constant(value=None):
            return
        case _:
            yield tree


def _any_element_of_value(value: Value) -> Value:
    """Any element of a value that is gone over."""
    match value:
        case Items(items=items, open=False) if 0 < len(items) <= _ELEMENTS:
            return choose_value(list(items))
        case Items(items=(), repeated=repeated) if repeated:
            return choose_value(list(repeated))
        case Table(entries=entries, open=False) if 0 < len(entries) <= _ELEMENTS:
            return choose_value([Constant(key) for key, _ in entries])
        case Assumed(value=inner, why=why):
            return Assumed(_any_element_of_value(inner), why)
    return Unknown("an element of something unknown")


def evaluate_table_method(table: Value, method: str) -> Value:
    """Return the result of `table.items()`, `.keys()` or `.values()`: all items in order, or one that represents
    any.
    """
    match table:
        case Table(entries=entries, open=False):
            pairs = [(Constant(key), value) for key, value in entries]
            chosen: dict[str, list[Value]] = {
                "items": [Items("tuple", pair) for pair in pairs],
                "keys": [key for key, _ in pairs],
            }
            return Items("list", tuple(chosen.get(method, [value for _, value in pairs])))
        case Leaves(of=leaf):
            key = Unknown("a key")
            chosen = {"items": [Items("tuple", (key, leaf))], "keys": [key]}
            return Items("list", (), True, tuple(chosen.get(method, [leaf])))
    return Unknown("an element of something unknown")


def _part_at_index(value: Value, index: int) -> Value:
    if isinstance(value, Assumed):
        return mark_assumed(_part_at_index(value.value, index), value)
    if isinstance(value, Items) and not value.open and index < len(value.items):
        return value.items[index]
    return Unknown("part of something unknown")
