"""Expressions, operators and the built-in types of Python, for the interpreter."""

from __future__ import annotations

import ast
import builtins
import operator
from collections.abc import Callable, Iterable
from dataclasses import replace
from itertools import product
from math import prod
from typing import TYPE_CHECKING, Any

from shardlint.layouts.layout import (
    Layout,
    Mesh,
    Shape,
    Size,
    Symbol,
    count_entries,
    divide_size,
    multiply_size,
)
from shardlint.layouts.pieces import UnknownShape, all_axes, own_size, shape_of
from shardlint.layouts.values import (
    MISSING,
    AnyTree,
    AxisTypeValue,
    Call,
    ClassValue,
    Device,
    Devices,
    DictValue,
    Field,
    FunctionValue,
    Instance,
    Lazy,
    Library,
    ListValue,
    Method,
    ModuleValue,
    Native,
    Partial,
    PartitionSpec,
    Plain,
    Sharding,
    State,
    Transformed,
    Unknown,
    Value,
    function_of,
    join,
    known_items,
    operand,
)
from shardlint.model import api
from shardlint.model.values import Place
from shardlint.source.searches import WORD

if TYPE_CHECKING:
    from shardlint.layouts.interpreter import Interpreter

_NUMBERS = (int, float, complex, bool)
_OPERATORS: dict[type[ast.operator], tuple[Callable[[Any, Any], Any], str]] = {
    ast.Add: (operator.add, "add"),
    ast.Sub: (operator.sub, "subtract"),
    ast.Mult: (operator.mul, "multiply"),
    ast.Div: (operator.truediv, "true_divide"),
    ast.FloorDiv: (operator.floordiv, "floor_divide"),
    ast.Mod: (operator.mod, "remainder"),
    ast.Pow: (operator.pow, "power"),
    ast.MatMult: (operator.matmul, "matmul"),
    ast.BitAnd: (operator.and_, "bitwise_and"),
    ast.BitOr: (operator.or_, "bitwise_or"),
    ast.BitXor: (operator.xor, "bitwise_xor"),
    ast.LShift: (operator.lshift, "left_shift"),
    ast.RShift: (operator.rshift, "right_shift"),
}
_COMPARISONS: dict[type[ast.cmpop], Callable[[Any, Any], Any]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}
_COMPARED: dict[type[ast.cmpop], str] = {
    ast.NotEq: "not_equal",
    ast.Lt: "less",
    ast.LtE: "less_equal",
    ast.Gt: "greater",
    ast.GtE: "greater_equal",
}
_CONSTANTS: dict[str, Value] = {
    "jax.numpy.newaxis": None,
    "numpy.newaxis": None,
    "jax.numpy.pi": 3.141592653589793,
    "numpy.pi": 3.141592653589793,
    "jax.numpy.inf": float("inf"),
    "numpy.inf": float("inf"),
    **dict.fromkeys(("flax.linen.PARTITION_NAME", "flax.linen.meta.PARTITION_NAME"), "partition_name"),
    **api.CONSTANTS,
}
_LARGEST = 1 << 40
_ITEMS = 512


def evaluate(run: Interpreter, node: ast.expr) -> Value:
    """What an expression comes to."""
    kind = type(node)  # the frequent ones first: a match tries one class after the other
    if kind is ast.Name:
        return run.lookup(node.id)  # type: ignore[attr-defined]
    if kind is ast.Constant:
        value: Value = node.value  # type: ignore[attr-defined]
        return Unknown("a large number") if isinstance(value, int) and abs(value) > _LARGEST else value
    if kind is ast.Attribute:
        owner, name = node.value, node.attr  # type: ignore[attr-defined]
        return attribute(run, run.value(owner), name, Place(run.frame.file, node))
    if kind is ast.Call:
        return _call(run, node)  # type: ignore[arg-type]
    match node:
        case ast.Subscript(value=owner, slice=index):
            return subscript(run, run.value(owner), run.value(index), Place(run.frame.file, node))
        case ast.BinOp(left=left, op=op, right=right):
            return binary(run, op, run.value(left), run.value(right), Place(run.frame.file, node))
        case ast.UnaryOp(op=op, operand=inner):
            return _unary(run, op, inner, node)
        case ast.Compare(left=left, ops=ops, comparators=comparators):
            return _compared(run, [run.value(one) for one in (left, *comparators)], ops, node)
        case ast.BoolOp(op=op, values=values):
            return _boolean(run, op, values)
        case ast.Tuple(elts=elements):
            found = _elements(run, elements)
            return Unknown("star items") if found is None else tuple(found)
        case ast.List(elts=elements) | ast.Set(elts=elements):
            found = _elements(run, elements)
            return ListValue(found or [], found is None, region=run.region)
        case ast.Dict(keys=keys, values=values):
            return _dict(run, keys, values, Place(run.frame.file, node))
        case ast.IfExp(test=test, body=body, orelse=orelse):
            known = truth(run, test)
            if known is not None:
                return run.value(body if known else orelse)
            run.branches += 1
            try:
                return join(run.value(body), run.value(orelse))
            finally:
                run.branches -= 1
        case ast.Lambda():
            return run.function(node)
        case ast.NamedExpr(target=target, value=value):
            found = run.value(value)
            run.assign(target, found)
            return found
        case (
            ast.ListComp(elt=element_, generators=generators)
            | ast.GeneratorExp(elt=element_, generators=generators)
            | ast.SetComp(elt=element_, generators=generators)
        ):
            made = ListValue(region=run.region)
            _comprehend(run, generators, lambda: made.items.append(run.value(element_)), made)
            return made
        case ast.DictComp(key=key, value=value, generators=generators):
            table = DictValue(region=run.region)
            _comprehend(run, generators, lambda: _enter(table, run.value(key), run.value(value)), table)
            return table
        case ast.Slice(lower=lower, upper=upper, step=step):
            return slice(*(None if part is None else run.value(part) for part in (lower, upper, step)))
        case ast.JoinedStr(values=parts):
            texts = [_formatted(run, part) for part in parts]
            return "".join(texts) if all(isinstance(one, str) for one in texts) else Unknown("text")  # type: ignore[arg-type]
        case ast.Await(value=value):
            return run.value(value)
        case ast.Yield(value=sent):
            given = run.value(sent) if sent is not None else None
            _yielded(run, [given])
            return Unknown("what is sent")
        case ast.YieldFrom(value=value):
            inner = run.value(value)
            _yielded(run, items(run, inner) or [element(run, inner)])
            return Unknown("what is sent")
    return Unknown("an expression that is not modelled")


def matches(run: Interpreter, pattern: ast.pattern, value: Value) -> bool | None:
    """Whether a value fits a pattern, whose names it binds; None where that is not known."""
    match pattern:
        case ast.MatchValue(value=expression):
            return truth_of(_same(value, run.value(expression)))
        case ast.MatchSingleton(value=constant):
            return None if isinstance(value, Unknown) else value is constant
        case ast.MatchAs(pattern=inner, name=name):
            fits = True if inner is None else matches(run, inner, value)
            if name is not None:
                run.bind(name, value)
            return fits
        case ast.MatchOr(patterns=patterns):
            found = [matches(run, one, value) for one in patterns]
            return True if True in found else None if None in found else False
        case ast.MatchSequence(patterns=patterns) if isinstance(value, tuple):
            star = next((place for place, one in enumerate(patterns) if isinstance(one, ast.MatchStar)), None)
            if star is None and len(patterns) != len(value):
                return False
            if star is not None and len(value) < len(patterns) - 1:
                return False
            after = len(patterns) - star - 1 if star is not None else 0
            pairs = list(zip(patterns[:star], value, strict=False))
            if star is not None:
                rest = patterns[star]
                if isinstance(rest, ast.MatchStar) and rest.name is not None:
                    run.bind(rest.name, ListValue(list(value[star : len(value) - after]), region=run.region))
                pairs += zip(patterns[star + 1 :], value[len(value) - after :], strict=False)
            found = [matches(run, one, item) for one, item in pairs]
            return False if False in found else None if None in found else True
    return None


def _same(one: Value, two: Value) -> Value:
    plain = (str, *_NUMBERS, tuple, type(None))
    return one == two if isinstance(one, plain) and isinstance(two, plain) else Unknown("a comparison")


def _yielded(run: Interpreter, given: Iterable[Value]) -> None:
    sink = run.frame.yielded
    if sink is not None:
        sink.items += given
        sink.open = sink.open or run.region is not sink.region


def _formatted(run: Interpreter, part: ast.expr) -> str | None:
    if isinstance(part, ast.Constant):
        return str(part.value)
    if isinstance(part, ast.FormattedValue):
        value = run.value(part.value)
        if isinstance(value, str | int) and part.format_spec is None and part.conversion == -1:
            return str(value)
        if part.format_spec is not None and part.conversion == -1:
            library(run, "shardlint.scalar", (value,), Place(run.frame.file, part.value))
    return None


def _elements(run: Interpreter, nodes: list[ast.expr]) -> list[Value] | None:
    found: list[Value] | None = []
    for node in nodes:
        if isinstance(node, ast.Starred):
            more = items(run, run.value(node.value))
            if more is None or found is None:
                found = None
            else:
                found += more
        else:
            value = run.value(node)
            if found is not None:
                found.append(value)
    return found


def _dict(run: Interpreter, keys: list[ast.expr | None], values: list[ast.expr], place: Place) -> Value:
    made = DictValue(region=run.region, written=place)
    for key, node in zip(keys, values, strict=True):
        value = run.value(node)
        if key is None:
            if isinstance(value, DictValue):
                made.entries.update(value.entries)
                made.open = made.open or value.open
            else:
                made.open = True
        else:
            _enter(made, run.value(key), value)
    return made


def _enter(table: DictValue, key: Value, value: Value) -> None:
    if isinstance(key, str | int | float | bool | tuple | Plain | None):
        try:
            table.entries[key] = value
            return
        except TypeError:
            pass
    table.open = True


def _comprehend(
    run: Interpreter,
    generators: list[ast.comprehension],
    add: Callable[[], None],
    made: ListValue | DictValue,
) -> None:
    """Run the body of a comprehension for each item that is known; else once, and what it makes is open."""
    frame, before = run.frame, dict(run.frame.names)
    first, *rest = generators

    def turn(item: Value) -> None:
        run.assign(first.target, item)
        for test in first.ifs:
            known = truth(run, test)
            if known is False:
                return
            if known is None:
                made.open = True
        if rest:
            _comprehend(run, rest, add, made)
        else:
            add()

    source = evaluate_iterable(run, first.iter)
    known = items(run, source)
    if known is None or len(known) > _ITEMS:
        made.open = True
        turn(element(run, source))
    else:
        for item in known:
            turn(item)
    walrus = {name: value for name, value in frame.names.items() if name not in before}
    frame.names = {**before, **walrus} if walrus else before


def items(run: Interpreter, value: Value) -> list[Value] | None:
    """The items of something that is iterated over; None where they are not all known."""
    match value := operand(value):
        case tuple():
            return list(value)
        case str():
            return list(value)
        case ListValue(items=found, open=False):
            return list(found)
        case DictValue(entries=entries, open=False):
            return list(entries)
        case range() if len(value) <= _ITEMS:
            return list(value)
        case Layout(shape=(int() as size, *_)) if size <= 8 and not value.literal:
            return [element(run, value)] * size
    return None


def evaluate_iterable(run: Interpreter, node: ast.expr) -> Value:
    """What an expression that is iterated over gives, of an object what its `__iter__` gives."""
    return open_iterable(run, run.value(node), Place(run.frame.file, node))


def open_iterable(run: Interpreter, value: Value, place: Place) -> Value:
    """The same of a value."""
    if isinstance(value, Instance) and value.of is not None:
        method = value.of.find("__iter__")
        found = run.call(method, (value,), {}, place) if method is not MISSING else value
        following = value.of.find("__next__") if found is value else MISSING
        if following is not MISSING:
            return ListValue([run.call(following, (value,), {}, place)], True)
        return found
    return value


def element(run: Interpreter, value: Value) -> Value:
    """What one item of something is, of which not all items are known."""
    match value:
        case ListValue(items=found) if found:
            joined = found[0]
            for one in found[1:]:
                joined = join(joined, one)
            return joined
        case range():
            return Unknown("a count")
        case Layout(shape=None):
            return value.shaped(None)
        case Layout(shape=(_, *rest)) if not value.literal:
            spec = value.spec[1:] if value.spec else None
            return value.shaped(tuple(rest), spec)
        case DictValue(entries=entries) if entries and not value.open:
            return Unknown("a key")
        case AnyTree():
            return _part_of_tree(value)
    return Unknown("an item of something that is not known")


def _part_of_tree(tree: AnyTree) -> AnyTree:
    """An item of a tuple or list, or of an array, which has not the dimension of the whole any more."""
    return replace(tree, leaf=replace(tree.leaf, rows=None)) if isinstance(tree.leaf, Layout) else tree


def truth(run: Interpreter, node: ast.expr) -> bool | None:
    """Whether a condition holds; None where that is not known."""
    return _decide(run, run.value(node), node)


def _decide(run: Interpreter, value: Value, node: ast.expr) -> bool | None:
    """The truth of the value of an expression, which Python asks for."""
    if isinstance(value, Layout) and value.has_rows:
        library(run, "shardlint.scalar", (value,), Place(run.frame.file, node), use="condition")
    return truth_of(value)


def truth_of(value: Value) -> bool | None:
    """Whether a value counts as true; None where that is not known."""
    match value:
        case bool() | int() | float() | str() | tuple() | None:
            return bool(value)
        case ListValue(items=found, open=more):
            return True if found and not more else None if more else bool(found)
        case DictValue(entries=entries, open=more):
            return None if more else bool(entries)
        case FunctionValue() | ClassValue() | Mesh() | Sharding() | PartitionSpec():
            return True
        case Library(name=name):
            return {"typing.TYPE_CHECKING": False}.get(name)
    return None


def _unary(run: Interpreter, op: ast.unaryop, node_: ast.expr, node: ast.expr) -> Value:
    value = operand(run.value(node_))
    if isinstance(op, ast.Not):
        known = _decide(run, value, node_)
        return Unknown("a condition") if known is None else not known
    if isinstance(value, _NUMBERS):
        return -value if isinstance(op, ast.USub) else +value if isinstance(op, ast.UAdd) else ~value  # type: ignore[operator]
    if isinstance(value, AnyTree):
        value = value.leaf
    if isinstance(value, Layout) or operators_of(value):
        module = operators_of(value) or "jax.numpy"
        return library(run, f"{module}.negative", (value,), Place(run.frame.file, node))
    return Unknown("arithmetic")


def _compared(run: Interpreter, values: list[Value], ops: list[ast.cmpop], node: ast.expr) -> Value:
    if len(values) > 2:
        for place in range(len(ops)):
            holds = truth_of(_compared(run, values[place : place + 2], [ops[place]], node))
            if not holds:
                return Unknown("a chain of comparisons") if holds is None else False
        return True
    (left, right), (op,) = values, ops
    if isinstance(op, ast.Is | ast.IsNot):
        if left is None or right is None:
            other = right if left is None else left
            if isinstance(other, Unknown):
                return Unknown("a test for None")
            same = other is None
            return same if isinstance(op, ast.Is) else not same
        return Unknown("a test of identity")
    if isinstance(op, ast.In | ast.NotIn) and isinstance(right, Layout | AnyTree):
        return Unknown("a test of membership")
    left, right = (one.leaf if isinstance(one, AnyTree) else one for one in (operand(left), operand(right)))
    if operators_of(left, right):
        name = _COMPARED.get(type(op), "equal")
        return library(run, f"{operators_of(left, right)}.{name}", (left, right), Place(run.frame.file, node))
    if isinstance(left, Layout) or isinstance(right, Layout):
        return library(run, "jax.numpy.equal", (left, right), Place(run.frame.file, node))
    plain = (str, *_NUMBERS, tuple, type(None))
    if isinstance(op, ast.In | ast.NotIn):
        keys = items(run, right) if not isinstance(right, str) else None
        if isinstance(right, str) and isinstance(left, str):
            found = left in right
        elif keys is not None and isinstance(left, plain) and all(isinstance(one, plain) for one in keys):
            found = left in keys
        else:
            return Unknown("a test of membership")
        return found if isinstance(op, ast.In) else not found
    if isinstance(left, plain) and isinstance(right, plain):
        try:
            return _COMPARISONS[type(op)](left, right)
        except TypeError:
            return Unknown("a comparison")
    if isinstance(left, Symbol) and left == right and isinstance(op, ast.Eq | ast.NotEq):
        return isinstance(op, ast.Eq)
    return Unknown("a comparison")


def _boolean(run: Interpreter, op: ast.boolop, nodes: list[ast.expr]) -> Value:
    stop = isinstance(op, ast.Or)
    unknown = False
    found: Value = None
    for node in nodes:
        run.branches += unknown
        try:
            found = run.value(node)
        finally:
            run.branches -= unknown
        known = _decide(run, found, node)
        if known is stop:
            return Unknown("a condition") if unknown and not stop else found
        unknown = unknown or known is None
    return Unknown("a condition") if unknown else found


def operators_of(*values: Value) -> str:
    """The module whose functions the operators of some values call, if one of them has its own."""
    return next((one.operators for one in values if isinstance(one, Instance) and one.operators), "")


def binary(run: Interpreter, op: ast.operator, left: Value, right: Value, place: Place) -> Value:
    """An operator applied to two values."""
    compute, name = _OPERATORS[type(op)]
    left, right = operand(left), operand(right)
    if isinstance(left, _NUMBERS) and isinstance(right, _NUMBERS):
        return _number(compute, left, right)
    if operators_of(left, right):
        return library(run, f"{operators_of(left, right)}.{name}", (left, right), place)
    if isinstance(left, str) and isinstance(right, str | int) and isinstance(op, ast.Add | ast.Mult):
        try:
            return compute(left, right)
        except TypeError:
            return Unknown("text")
    if any(isinstance(one, AnyTree) for one in (left, right)) and all(
        isinstance(one, (Layout, AnyTree, Unknown, Symbol, *_NUMBERS)) for one in (left, right)
    ):  # what is added to an array is one; two of which nothing is known may be tuples
        trees = isinstance(op, ast.Add) and all(isinstance(one, AnyTree | Unknown) for one in (left, right))
        left, right = (one.leaf if isinstance(one, AnyTree) else one for one in (left, right))
        left, right = (Layout() if isinstance(one, Unknown) else one for one in (left, right))
        if trees:
            return AnyTree(library(run, "jax.numpy.add", (left, right), place))
    if isinstance(left, Layout) or isinstance(right, Layout):
        on_host = all(
            isinstance(one, int | float) or (isinstance(one, Layout) and one.host) for one in (left, right)
        )
        return library(run, f"{'numpy' if on_host else 'jax.numpy'}.{name}", (left, right), place)
    if isinstance(op, ast.Add):
        if isinstance(left, tuple) and isinstance(right, tuple):
            return left + right
        if isinstance(left, ListValue) and isinstance(right, ListValue):
            return ListValue(left.items + right.items, left.open or right.open, region=run.region)
        if isinstance(left, PartitionSpec) and isinstance(right, PartitionSpec | tuple):
            more = right.entries if isinstance(right, PartitionSpec) else right
            return PartitionSpec(left.entries + more, left.open or getattr(right, "open", False))
    if isinstance(op, ast.Mult):
        many, count = (left, right) if isinstance(right, int | Symbol) else (right, left)
        if isinstance(count, int) and 0 <= count <= _ITEMS:
            if isinstance(many, tuple) and len(many) * count <= _ITEMS:
                return many * count
            if isinstance(many, ListValue) and len(many.items) * count <= _ITEMS:
                return ListValue(many.items * count, many.open, region=run.region)
        if isinstance(count, int | Symbol) and isinstance(many, ListValue) and not many.open:
            return ListValue(many.items, True, multiply_size(len(many.items), count), region=run.region)
    if isinstance(op, ast.BitOr) and isinstance(left, DictValue) and isinstance(right, DictValue):
        return DictValue({**left.entries, **right.entries}, left.open or right.open, region=run.region)
    if isinstance(left, Symbol | int) and isinstance(right, Symbol | int):
        found = _compute_size(op, left, right)
        return Unknown("arithmetic with a size that is not known") if found is None else found
    return Unknown("arithmetic with something that is not known")


def _compute_size(op: ast.operator, left: Size, right: Size) -> Size:
    if isinstance(op, ast.Mult):
        return multiply_size(left, right)
    if isinstance(op, ast.FloorDiv):
        return divide_size(left, right)
    return 0 if isinstance(op, ast.Mod) and divide_size(left, right) is not None else None


def _number(compute: Callable[[Any, Any], Any], left: Value, right: Value) -> Value:
    if compute is operator.pow and (abs(right) > 64 or abs(left) > _LARGEST):
        return Unknown("a large number")
    if compute in (operator.lshift,) and right > 64:
        return Unknown("a large number")
    try:
        found = compute(left, right)
    except (ArithmeticError, TypeError, ValueError):
        return Unknown("arithmetic that raises")
    return Unknown("a large number") if isinstance(found, int) and abs(found) > _LARGEST else found


def library(run: Interpreter, name: str, args: tuple[Value, ...], place: Place, **keywords: Value) -> Value:
    """Call a function of a library by its canonical name."""
    return run.call(Library(name), args, keywords, place)


def _call(run: Interpreter, node: ast.Call) -> Value:
    function = run.value(node.func)
    if function == Library("builtins.next") and node.args and isinstance(node.args[0], ast.GeneratorExp):
        return Unknown("the first of what a generator gives")
    args: list[Value] = []
    keywords: dict[str, Value] = {}
    opened = False
    for one in node.args:
        if isinstance(one, ast.Starred):
            given = run.value(one.value)
            if isinstance(given, AnyTree):
                more: list[Value] | None = [given] * _count_missing(function, args, keywords)
            else:
                more = items(run, given)
            if more is None:
                opened = True
            elif not opened:
                args += more
        else:
            value = run.value(one)
            if not opened:
                args.append(value)
    for keyword in node.keywords:
        value = run.value(keyword.value)
        if keyword.arg is not None:
            keywords[keyword.arg] = value
        elif isinstance(value, AnyTree):
            args += [value] * _count_missing(function, args, keywords)
        elif isinstance(value, DictValue) and not value.open:
            keywords.update({key: one for key, one in value.entries.items() if isinstance(key, str)})
        else:
            opened = True
    found = run.call(function, tuple(args), keywords, Place(run.frame.file, node), opened)
    if getattr(node.func, "attr", "") in ("enter_context", "__enter__"):
        run.mesh, run.mesh_known = None, False
    return found


def _count_missing(function: Value, args: list[Value], keywords: dict[str, Value]) -> int:
    """How many arguments a function requires beside some."""
    found = function_of(function)
    if found is None or (function is not found and not isinstance(function, Transformed)):
        return 0
    names = found.positional
    required = names[: len(names) - len(found.node.args.defaults)][len(args) :]
    return sum(name not in keywords for name in required)


def as_load(target: ast.expr) -> ast.expr:
    """The target of an augmented assignment as what is read."""
    match target:
        case ast.Name(id=name):
            return ast.copy_location(ast.Name(name, ast.Load()), target)
        case ast.Attribute(value=value, attr=name):
            return ast.copy_location(ast.Attribute(value, name, ast.Load()), target)
        case ast.Subscript(value=value, slice=index):
            return ast.copy_location(ast.Subscript(value, index, ast.Load()), target)
    return target


# attributes


def read_member(module: ModuleValue, name: str) -> Value:
    """What a name is in a module of the project."""
    if name not in module.frame.names:
        module.frame.file.looked.note(WORD, name)  # it may come to bind it
        return Unknown(f"`{name}` is not there")
    found = module.frame.names[name]
    return found.value() if isinstance(found, Lazy) else found


def attribute(run: Interpreter, value: Value, name: str, place: Place) -> Value:
    """An attribute of a value."""
    match value:
        case Library(name=module):
            return _of_library(run, module, name)
        case ModuleValue():
            return read_member(value, name)
        case Layout():
            return _of_array(run, value, name, place)
        case Mesh():
            return _of_mesh(value, name)
        case Instance():
            return _of_instance(run, value, name, place)
        case ClassValue():
            found = value.find(name)
            if found is MISSING:
                hook = find_hook(run, value, name)
                return Unknown(f"the class has no `{name}`") if hook is None else Method(hook, value)
            if isinstance(found, Native) and found.name == "classmethod":
                return Method(found.run(Call(run, (), {}, place)), value)
            return getattr(found, "inner", found)
        case Sharding(mesh=mesh, spec=spec, memory=memory):
            if name == "with_memory_kind":
                return Native(name, lambda call: replace(value, memory=_text(call.get(0, "kind"))))
            return {"mesh": mesh, "spec": spec, "memory_kind": memory}.get(name, Unknown("of a sharding"))
        case Devices(shape=shape):
            return _of_devices(value, shape, name)
        case str():
            return Native(name, lambda call: _text_method(value, name, call))
        case State(entries=entries) if name in entries:
            return entries[name]
        case DictValue() | ListValue() | tuple():
            found_method = _METHODS.get((DictValue if isinstance(value, State) else type(value), name))
            return (
                Native(name, lambda call: found_method(value, call)) if found_method else Unknown("a method")
            )
        case AnyTree(leaf=leaf):
            if isinstance(leaf, Layout) and name in _OF_ARRAYS:
                return _of_array(run, leaf, name, place)
            return Field(leaf, name)
        case FunctionValue() if name == "__name__":
            return value.name
    if isinstance(value, slice) and name in ("start", "stop", "step"):
        return getattr(value, name)
    attributes = getattr(value, "attributes", None)
    if isinstance(attributes, dict) and name in attributes:
        return attributes[name]
    return Unknown("an attribute of something that is not known")


def _text(value: Value) -> str | None:
    return value if isinstance(value, str) else None


def _of_library(run: Interpreter, module: str, name: str) -> Value:
    dotted = api.canonical(f"{module}.{name}")
    if module == "jax.sharding.AxisType":
        kind = name.lower()
        return AxisTypeValue(kind) if kind in ("auto", "explicit", "manual") else Unknown("an axis type")  # type: ignore[arg-type]
    if dotted in run.flags:
        return run.flags[dotted]
    return _CONSTANTS[dotted] if dotted in _CONSTANTS else Library(dotted)


# Of a tree of which nothing is known but its leaves, what only an array has.
_OF_ARRAYS = ("shape", "dtype", "T", "astype", "at", "ndim", "size", "addressable_shards")
# What arrays are asked that the library answers.
_ASKED = {"item": "shardlint.scalar", "addressable_data": "shardlint.shard"}
_SAME_SHAPE = ("astype", "block_until_ready", "copy", "view")
_BY_NAME = frozenset(
    "sum mean max min prod any all std var argmax argmin cumsum sort reshape transpose squeeze ravel swapaxes dot "
    "take repeat flatten conj clip round".split()
)


def is_array_method(name: str) -> bool:
    """Whether arrays have a method of a name, whose result is followed."""
    return name in _BY_NAME or name in _SAME_SHAPE or name in _ASKED


def _of_array(run: Interpreter, value: Layout, name: str, place: Place) -> Value:
    shape = value.shape
    match name:
        case "shape":
            return shape_of(value)
        case "ndim":
            return Unknown("a rank") if shape is None else len(shape)
        case "size":
            return own_size(count_entries(shape), sorted(all_axes(value.pieces)))
        case "dtype":
            return Library(f"jax.numpy.{value.dtype}") if value.dtype else Unknown("a type")
        case "mT" if shape is not None:
            return library(run, "jax.numpy.swapaxes", (value, -2, -1), place) if len(shape) > 1 else Unknown("mT")
        case "T":
            return library(run, "jax.numpy.transpose", (value,), place)
        case "sharding":
            if value.mesh is not None and value.spec is not None and not run.traced:
                entries = tuple(axes if axes is None or len(axes) != 1 else axes[0] for axes in value.spec)
                known = all(axes is not None for axes in value.spec)
                spec = PartitionSpec(tuple(one or None for one in entries)) if known else Unknown("a spec")
                return Sharding(value.mesh, spec, value.memory)
            return Unknown("a sharding")
        case "at":
            return _At(value)
        case "real" | "imag":
            return value
        case "addressable_shards":
            return library(run, "shardlint.shard", (value,), place)
    if name in _SAME_SHAPE:

        def keep(call: Call) -> Value:
            kind = call.get(0, "dtype", None) if name == "astype" else None
            dtype = (
                kind.name.rpartition(".")[2].rstrip("_")
                if isinstance(kind, Library)
                else value.dtype
                if name != "astype"
                else None
            )
            return replace(value, dtype=dtype)

        return Native(name, keep)
    if name in _BY_NAME:
        target = "ravel" if name == "flatten" else name
        return Method(Library(f"jax.numpy.{target}"), value)
    if name in _ASKED:
        return Method(Library(_ASKED[name]), value)
    if name == "tolist":
        return Native(name, lambda call: Unknown("a number"))
    return Unknown("an attribute of an array")


# Before, the compiler decides where the result of an update in host memory is.
_SCATTER_KEEPS_MEMORY = (0, 10, 2)


class _At:
    """`x.at`, and `x.at[...]`."""

    def __init__(self, array: Layout, index: Value = MISSING) -> None:
        self.array, self.index = array, index

    @property
    def attributes(self) -> dict[str, Value]:
        """The methods that change the array at an index give one of the same layout."""
        names = ("set", "add", "multiply", "mul", "divide", "min", "max", "power", "apply")
        same = {name: Native(name, self._updated) for name in names}
        return {**same, "get": Native("get", lambda call: Unknown("what is gathered"))}

    def _updated(self, call: Call) -> Value:
        array = self.array
        run = call.interpreter
        axes = self._split_axes(array, run.traced > 0 or run.mesh is not None or not run.mesh_known)
        if axes and "out_sharding" not in call.keywords:
            call.interpreter.violate("scatter.split", call.place, array=str(array), axes="/".join(axes))
        if not run.axes:
            early = array.memory != "device" and run.releases.get("jax", (99,)) < _SCATTER_KEEPS_MEMORY
            return replace(array, memory=None) if early else array
        keys = self.index if isinstance(self.index, tuple) else (self.index,)
        parts = [one for one in (*keys, *call.args) if isinstance(one, Layout | AnyTree | Unknown)]
        varying = library(call.interpreter, "jax.numpy.add", (array, *parts[:1]), call.place) if parts else array
        for one in parts[1:]:
            varying = library(call.interpreter, "jax.numpy.add", (varying, one), call.place)
        return array.varying_like(varying)

    def _split_axes(self, array: Layout, traced: bool) -> list[str]:
        """The Explicit axes that an update cannot keep: of all dimensions; under jit or set_mesh of those indexed."""
        spec = array.typed_spec or ()
        keys = self.index if isinstance(self.index, tuple) else (self.index,)
        if traced and (... in keys or None in keys or any(isinstance(one, Unknown) for one in keys)):
            return []
        indexed = [place for place, one in enumerate(keys) if one != slice(None)] if traced else range(len(spec))
        return [axis for place in indexed if place < len(spec) for axis in spec[place] or ()]


def _of_mesh(value: Mesh, name: str) -> Value:
    match name:
        case "axis_names":
            return value.names
        case "shape":
            sizes = [
                Symbol(f"size of {axis}") if size is None else size
                for axis, size in zip(value.names, value.sizes, strict=True)
            ]
            return DictValue(dict(zip(value.names, sizes, strict=True)))
        case "size":
            return Unknown("a size") if value.count is None else value.count
        case "axis_sizes":
            return tuple(Unknown("a size") if one is None else one for one in value.sizes)
        case "devices":
            return Devices(value.sizes, value.devices)
        case "empty":
            return False
        case "abstract_mesh":
            return value
    return Unknown("an attribute of a mesh")


def _of_devices(value: Devices, shape: Shape, name: str) -> Value:
    match name:
        case "shape":
            return tuple(Unknown("a size") if one is None else one for one in shape)
        case "size":
            total = count_entries(shape)
            return Unknown("a size") if total is None else total
        case "reshape":
            return Native(name, lambda call: _devices_reshaped(value, call))
        case "flatten" | "ravel" | "tolist":
            return Native(name, lambda call: Devices((count_entries(shape),), value.order))
        case "T":
            return _devices_transposed(value, ())
        case "transpose":
            return Native(name, lambda call: _devices_transposed(value, call.args))
    return Unknown("an attribute of devices")


def _devices_reshaped(value: Devices, call: Call) -> Value:
    sizes = call.args[0] if len(call.args) == 1 and isinstance(call.args[0], tuple) else call.args
    if isinstance(call.args[0] if call.args else None, ListValue):
        sizes = tuple(call.args[0].items)
    if call.open or not sizes:
        return Unknown("devices in a shape that is not known")
    shape = tuple(
        one if isinstance(one, Symbol) or (isinstance(one, int) and one > 0) else None for one in sizes
    )
    total, rest = count_entries(value.shape), count_entries(tuple(one for one in shape if one is not None))
    if shape.count(None) == 1 and -1 in sizes:
        shape = tuple(divide_size(total, rest) if one is None else one for one in shape)
    return Devices(shape, value.order)


def _of_instance(run: Interpreter, value: Instance, name: str, place: Place) -> Value:
    if name in value.attributes:
        return value.attributes[name]
    found = value.of.find(name) if value.of is not None else MISSING
    if found is MISSING:
        hook = find_hook(run, value, name)
        if hook is not None:
            return Method(hook, value)
        other = value.named(name)
        if other is not MISSING:
            return other
        if value.operand is not value:
            return attribute(run, value.operand, name, place)
        if name == "replace" or name == "_replace":
            return Native(name, lambda call: _replaced(value, call))
        return Unknown(f"the object has no `{name}` that is known")
    if isinstance(found, FunctionValue):
        wrapper = find_hook(run, value, "__method__")
        return Method(found, value) if wrapper is None else Partial(wrapper, (found, value), {})
    inner = getattr(found, "inner", None)
    if inner is not None:
        return inner
    if isinstance(found, Native) and found.name == "property":
        return found.run(Call(run, (value,), {}, Place(run.frame.file, run.frame.file.tree)))
    if isinstance(found, Native) and found.name == "classmethod":
        return Method(found.run(Call(run, (), {}, Place(run.frame.file, run.frame.file.tree))), value.of)
    if isinstance(found, Native | Partial):
        return Method(found, value)
    return found


def find_hook(run: Interpreter, value: Instance | ClassValue, name: str) -> Library | None:
    """What a library does in place of a method that the classes of an object inherit from it.

    `__method__` runs each method of the project: it gets the function, the object and the arguments.
    """
    for base in value.libraries():
        if f"{base}.{name}" in run.libraries:
            return Library(f"{base}.{name}")
    return None


def _replaced(value: Instance, call: Call) -> Value:
    made = value.with_parts({**value.attributes, **call.keywords})
    made.open = value.open or call.open
    return made


# subscripts


def subscript(run: Interpreter, value: Value, index: Value, place: Place) -> Value:
    """`value[index]`."""
    if index is ... and operand(value) is not value:
        return operand(value)  # of a Variable, its array
    match value := operand(value):
        case tuple() | str() if isinstance(index, int):
            return value[index] if -len(value) <= index < len(value) else Unknown("an index out of range")
        case tuple() | str() if isinstance(index, slice) and _plain_slice(index):
            return value[index]
        case ListValue(items=found, open=False) if isinstance(index, int):
            return found[index] if -len(found) <= index < len(found) else Unknown("an index out of range")
        case ListValue(items=found, open=False) if isinstance(index, slice) and _plain_slice(index):
            return ListValue(found[index], region=run.region)
        case DictValue(entries=entries, open=more):
            if isinstance(index, str | int | float | bool | tuple | Plain | None):
                try:
                    if index in entries:
                        return entries[index]
                except TypeError:
                    pass
            if value.declared is not None and not more and isinstance(index, str):
                said = {"key": repr(index), "where": f"{place.file.path.name}:{place.line}"}
                run.violate("specs.key", value.declared, read=place.text(), **said)
            return Unknown("a key") if more or isinstance(index, Unknown) else Unknown("no such key")
        case ListValue() | tuple():
            return element(run, value if isinstance(value, ListValue) else ListValue(list(value)))
        case Layout():
            return library(run, "shardlint.index", (value, index), place)
        case Devices():
            return _some_devices(value, index)
        case AnyTree(leaf=Layout() as leaf) if run.axes and _is_array_index(index):
            return library(run, "shardlint.index", (leaf, index), place)
        case AnyTree():
            return value if isinstance(index, str) else _part_of_tree(value)
        case UnknownShape() if isinstance(index, int):
            return value.size_at(index)
        case _At():
            return _At(value.array, index)
        case Instance(of=ClassValue() as owner):
            method = owner.find("__getitem__")
            if method is not MISSING:
                return run.call(method, (value, index), {}, place)
        case Instance(of=None) if (hook := find_hook(run, value, "__getitem__")) is not None:
            return run.call(hook, (value, index), {}, place)
        case PartitionSpec(entries=found, open=False) if isinstance(index, int) and -len(
            found
        ) <= index < len(found):
            return found[index]
        case FunctionValue() | ClassValue() | Library():
            return value  # a type with its arguments
    return Unknown("an item of something that is not known")


def _is_array_index(index: Value) -> bool:
    """Whether only an array takes an index: one with slices, new dimensions or numbers of several dimensions."""
    if isinstance(index, tuple):
        return all(isinstance(one, slice | int | Layout | None) or one is ... for one in index) and index != ()
    return isinstance(index, slice | Layout)


def _some_devices(value: Devices, index: Value) -> Value:
    """One device of a list, or some of them; of an array of more dimensions they are not followed."""
    known = _order_of(value)
    match index:
        case int() if len(value.shape) == 1:
            if known is not None:
                return (
                    Device(f"device {known[index]}") if -len(known) <= index < len(known) else Unknown("none")
                )
            return Device(f"device {index}") if value.order == "all" and index >= 0 else Unknown("a device")
        case slice() if len(value.shape) == 1 and _plain_slice(index):
            if known is not None:
                return Devices((len(known[index]),), known[index])
            first, last = index.start or 0, index.stop
            if value.order == "all" and isinstance(last, int) and 0 <= first < last:
                chosen = tuple(range(last)[first : last : index.step or 1])
                return Devices((len(chosen),), chosen)
        case tuple() | ListValue() if len(value.shape) == 1:
            numbers = known_items(index) or ()
            if known is not None and all(isinstance(one, int) and 0 <= one < len(known) for one in numbers):
                numbers = tuple(known[one] for one in numbers)
            elif value.order != "all" or not all(isinstance(one, int) and one >= 0 for one in numbers):
                return Unknown("some devices")
            return Devices((len(numbers),), numbers) if numbers else Unknown("some devices")
    return Unknown("some devices")


def _order_of(value: Devices) -> tuple[int, ...] | None:
    """The devices by their numbers; None where it is not known how many there are."""
    count = count_entries(value.shape)
    if value.order == "all" and isinstance(count, int):
        return tuple(range(count))
    return value.order if isinstance(value.order, tuple) else None


def _devices_transposed(value: Devices, args: tuple[Value, ...]) -> Value:
    """The devices in the order of a transposed array. `args` are those of `transpose`."""
    sizes, order = value.shape, _order_of(value)
    given = args[0] if len(args) == 1 and isinstance(args[0], tuple) else args
    axes = given or tuple(reversed(range(len(sizes))))
    if sorted(one for one in axes if isinstance(one, int)) != list(range(len(sizes))):
        return Unknown("transposed devices")
    shape = tuple(sizes[one] for one in axes)
    if order is None or not all(isinstance(one, int) for one in sizes):
        return Devices(shape, value.order if axes == tuple(range(len(sizes))) else None)
    steps = [prod(one for one in sizes[place + 1 :] if isinstance(one, int)) for place in axes]
    ranges = [range(one) for one in shape if isinstance(one, int)]
    found = tuple(
        order[sum(step * at for step, at in zip(steps, where, strict=True))] for where in product(*ranges)
    )
    return Devices(shape, value.order if found == order else found)


def _plain_slice(index: slice) -> bool:
    return all(
        part is None or (isinstance(part, int) and not isinstance(part, bool))
        for part in (index.start, index.stop, index.step)
    )


# methods of containers and text


def _append(value: ListValue, call: Call) -> Value:
    value = call.interpreter.thaw(value)
    value.length = None
    if call.args:
        value.items.append(call.args[0])
        value.open = value.open or call.interpreter.region is not value.region
    return None


def _extend(value: ListValue, call: Call) -> Value:
    value = call.interpreter.thaw(value)
    value.length = None
    more = items(call.interpreter, call.get(0, "iterable"))
    value.items += more or []
    value.open = value.open or more is None or call.interpreter.region is not value.region
    return None


def _changed(value: ListValue, call: Call) -> Value:
    value = call.interpreter.thaw(value)
    value.open, value.length = True, None
    return element(call.interpreter, value)


def _pairs(value: DictValue, call: Call) -> Value:
    return ListValue([(key, one) for key, one in value.entries.items()], value.open)


def _got(value: DictValue, call: Call) -> Value:
    key, default = call.get(0, "key"), call.get(1, "default", None)
    if isinstance(key, str | int | bool | None) and key in value.entries:
        return value.entries[key]
    return Unknown("a key") if value.open or not isinstance(key, str | int) else default


def _updated(value: DictValue, call: Call) -> Value:
    value = call.interpreter.thaw(value)
    other = call.get(0, "other", DictValue())
    certain = call.interpreter.region is value.region
    if isinstance(other, DictValue) and certain:
        value.entries.update(other.entries)
        value.entries.update(call.keywords)
        value.open = value.open or other.open
    else:
        value.open = True
        value.entries.clear()
    return None


def _popped(value: DictValue, call: Call) -> Value:
    value = call.interpreter.thaw(value)
    found = _got(value, call)
    key = call.get(0, "key")
    if call.interpreter.region is value.region and isinstance(key, str | int):
        value.entries.pop(key, None)
    else:
        value.open = True
    return found


def _set_default(value: DictValue, call: Call) -> Value:
    value = call.interpreter.thaw(value)
    key = call.get(0, "key")
    if isinstance(key, str | int) and not value.open:
        return value.entries.setdefault(key, call.get(1, "default", None))
    return Unknown("a key")


_METHODS: dict[tuple[type, str], Callable[[Any, Call], Value]] = {
    (ListValue, "append"): _append,
    (ListValue, "add"): _append,
    (ListValue, "extend"): _extend,
    (ListValue, "copy"): lambda value, call: ListValue(
        list(value.items), value.open, region=call.interpreter.region
    ),
    **{
        (ListValue, name): _changed
        for name in ("pop", "insert", "remove", "clear", "sort", "reverse", "discard")
    },
    (DictValue, "items"): _pairs,
    (DictValue, "keys"): lambda value, call: ListValue(list(value.entries), value.open),
    (DictValue, "values"): lambda value, call: ListValue(list(value.entries.values()), value.open),
    (DictValue, "get"): _got,
    (DictValue, "update"): _updated,
    (DictValue, "pop"): _popped,
    (DictValue, "setdefault"): _set_default,
    (DictValue, "copy"): lambda value, call: DictValue(
        dict(value.entries), value.open, region=call.interpreter.region
    ),
    (tuple, "index"): lambda value, call: (
        value.index(call.args[0]) if call.args and call.args[0] in value else Unknown("an index")
    ),
}
_TEXT = frozenset(
    "split join startswith endswith replace strip lower upper lstrip rstrip rsplit removeprefix removesuffix".split()
)


def _text_method(value: str, name: str, call: Call) -> Value:
    args = [tuple(one.items) if isinstance(one, ListValue) and not one.open else one for one in call.args]
    plain = all(
        isinstance(one, str | int | None)
        or (isinstance(one, tuple) and all(isinstance(each, str) for each in one))
        for one in args
    )
    if name not in _TEXT or not plain or call.open or call.keywords:
        return Unknown("text")
    try:
        found = getattr(value, name)(*args)
    except (TypeError, ValueError):
        return Unknown("text")
    return ListValue(list(found)) if isinstance(found, list) else found


# built-in functions


class _Static:
    """A static method."""

    def __init__(self, inner: Value) -> None:
        self.inner = self.function = inner


def _static(call: Call) -> Value:
    return _Static(call.get(0, "function"))


def _class_method(call: Call) -> Value:
    function = call.get(0, "function")
    return _Wrapping("classmethod", lambda again: function, function)


def _property(call: Call) -> Value:
    function = call.get(0, "fget")
    return _Wrapping(
        "property", lambda again: again.interpreter.call(function, again.args, {}, again.place), function
    )


class _Wrapping(Native):
    """A native function around one of the project."""

    def __init__(self, name: str, run: Callable[[Call], Value], function: Value) -> None:
        super().__init__(name, run)
        object.__setattr__(self, "function", function)


def _length(call: Call) -> Value:
    value = operand(call.get(0, "obj"))
    match value:
        case tuple() | str() | range():
            return len(value)
        case ListValue(items=found, open=False):
            return len(found)
        case ListValue(length=int() | Symbol() as length):
            return length
        case DictValue(entries=entries, open=False):
            return len(entries)
        case Layout(shape=sizes, pieces=(axes, *_)) | AnyTree(leaf=Layout(shape=sizes, pieces=(axes, *_))):
            return own_size(sizes[0] if sizes else None, axes)
        case Layout(shape=(int() | Symbol() as size, *_)) | Devices(shape=(int() | Symbol() as size, *_)):
            return size
        case Devices(shape=(None, *_), order="all"):
            return Symbol("jax.device_count()")
    return Unknown("a length")


def _range(call: Call) -> Value:
    if call.args and all(isinstance(one, int) for one in call.args) and not call.open:
        try:
            return range(*call.args)
        except (TypeError, ValueError):
            pass
    return Unknown("a range")


def _sequence(call: Call) -> Value:
    given = open_iterable(call.interpreter, call.args[0], call.place) if call.args else ()
    found = items(call.interpreter, given)
    if found is None and isinstance(given, Devices):
        return given
    made = found if found is not None else [element(call.interpreter, given)]
    if call.name == "builtins.tuple":
        return tuple(made) if found is not None else Unknown("a tuple")
    return ListValue(made, found is None, region=call.interpreter.region)


def _reversed(made: Value) -> Value:
    return ListValue(made.items[::-1], made.open) if isinstance(made, ListValue) else made


def _dict_made(call: Call) -> Value:
    made = DictValue(dict(call.keywords), call.open, region=call.interpreter.region)
    first = call.args[0] if call.args else None
    if isinstance(first, DictValue):
        made.entries = {**first.entries, **made.entries}
        made.open = made.open or first.open
    elif first is not None:
        pairs = items(call.interpreter, first)
        if pairs is None:
            made.open = True
        for pair in pairs or ():
            if isinstance(pair, tuple) and len(pair) == 2:
                _enter(made, *pair)
            else:
                made.open = True
    return made


def _zipped(call: Call) -> Value:
    columns = [items(call.interpreter, one) for one in call.args]
    known = [column for column in columns if column is not None]
    if len(known) < len(columns) or not columns:
        each = tuple(element(call.interpreter, one) for one in call.args)
        return ListValue([each], True)
    return ListValue([tuple(row) for row in zip(*known, strict=False)])


def _enumerated(call: Call) -> Value:
    found = items(call.interpreter, call.get(0, "iterable"))
    start = call.get(1, "start", 0)
    if found is None:
        return ListValue([(Unknown("a count"), element(call.interpreter, call.get(0, "iterable")))], True)
    return ListValue(
        [
            (start + place if isinstance(start, int) else Unknown("a count"), one)
            for place, one in enumerate(found)
        ]
    )


def _mapped(call: Call) -> Value:
    found = items(call.interpreter, call.args[1]) if len(call.args) == 2 else None
    if found is None:
        return ListValue([], True)
    return ListValue([call.interpreter.call(call.args[0], (one,), {}, call.place) for one in found])


def _plain(function: Callable[..., Any]) -> Callable[[Call], Value]:
    def run(call: Call) -> Value:
        if len(call.args) == 1 and not isinstance(call.args[0], str):
            args: Any = items(call.interpreter, call.args[0])
            args = call.args if args is None else [args]
        else:
            args = call.args
        flat = args[0] if len(args) == 1 and isinstance(args[0], list) else args
        if not all(isinstance(one, int | float | str) for one in flat) or call.keywords or call.open:
            return Unknown("a number")
        try:
            return function(*args)
        except (TypeError, ValueError, ArithmeticError):
            return Unknown("a number")

    return run


def _make_conversion(function: Callable[..., Any]) -> Callable[[Call], Value]:
    """A function that makes a number of Python, also of an array."""
    plain = _plain(function)

    def run(call: Call) -> Value:
        if len(call.args) == 1 and isinstance(call.args[0], Layout | AnyTree):
            where = Place(call.place.file, next(iter(call.argument_nodes), call.place.node))
            return library(call.interpreter, "shardlint.scalar", call.args, where)
        return plain(call)

    return run


def _add_values(call: Call) -> Value:
    """The sum of numbers, or of arrays one after the other."""
    if len(call.args) == 1 and isinstance(call.args[0], Layout) and call.args[0].has_rows:
        return library(call.interpreter, "jax.numpy.sum", (call.args[0], 0), call.place)
    found = items(call.interpreter, call.args[0]) if len(call.args) == 1 else None
    if found is None or not any(isinstance(one, Layout) for one in found):
        return _plain(sum)(call)
    total: Value = 0
    for one in found:
        total = binary(call.interpreter, ast.Add(), total, one, call.place)
    return total


def _next(call: Call) -> Value:
    return element(call.interpreter, open_iterable(call.interpreter, call.get(0, "iterator"), call.place))


def _attribute_by_name(call: Call) -> Value:
    name = call.get(1, "name")
    return (
        attribute(call.interpreter, call.args[0], name, call.place)
        if isinstance(name, str) and call.args
        else Unknown("getattr")
    )


def _is_instance(call: Call) -> Value:
    value, kind = call.get(0, "obj"), call.get(1, "cls")
    plain = {
        "builtins.int": int,
        "builtins.str": str,
        "builtins.float": float,
        "builtins.tuple": tuple,
        "builtins.dict": DictValue,
        "builtins.list": ListValue,
    }
    if isinstance(kind, Library) and kind.name in plain and not isinstance(value, Unknown | Symbol | AnyTree):
        return isinstance(value, plain[kind.name])
    if isinstance(kind, Library) and isinstance(value, Instance | Plain) and kind.name in value.libraries():
        return True
    if isinstance(kind, Library) and isinstance(value, Layout | str) and kind.name.startswith(("flax.", "haliax.")):
        return False
    if isinstance(kind, ClassValue) and isinstance(value, Instance) and value.of is not None:
        return any(one is kind for one in value.of.order) or Unknown("isinstance")
    return Unknown("isinstance")


def field_default(call: Call) -> Value:
    """The default of a field of a dataclass."""
    made_by = call.keywords.get("default_factory")
    if made_by is not None:
        return call.interpreter.call(made_by, (), {}, call.place)
    return call.keywords.get("default", Unknown("a field without a default"))


def _super(call: Call) -> Value:
    return Unknown("super()")


BUILTINS: dict[str, Callable[[Call], Value]] = {
    "builtins.len": _length,
    "builtins.range": _range,
    **dict.fromkeys(
        ("builtins.list", "builtins.tuple", "builtins.set", "builtins.iter", "builtins.frozenset"), _sequence
    ),
    "builtins.reversed": lambda call: _reversed(_sequence(call)),
    "builtins.dict": _dict_made,
    "builtins.zip": _zipped,
    "builtins.enumerate": _enumerated,
    "builtins.map": _mapped,
    "builtins.next": _next,
    "builtins.getattr": _attribute_by_name,
    "builtins.isinstance": _is_instance,
    "builtins.staticmethod": _static,
    "builtins.classmethod": _class_method,
    "builtins.property": _property,
    "functools.cached_property": _property,
    "builtins.super": _super,
    **dict.fromkeys(("dataclasses.field", "equinox.field", "flax.struct.field"), field_default),
    **{f"builtins.{one.__name__}": _plain(one) for one in (str, abs, min, max, round)},
    **{f"builtins.{one.__name__}": _make_conversion(one) for one in (int, float, bool)},
    "builtins.sum": _add_values,
    **{
        f"math.{name}": _plain(getattr(__import__("math"), name))
        for name in ("prod", "sqrt", "ceil", "floor", "gcd", "log2")
    },
    "builtins.print": lambda call: None,
}
_BUILTIN_NAMES = frozenset(dir(builtins))


def builtin(name: str) -> Value:
    """What a name is that nothing binds."""
    if name in _BUILTIN_NAMES:
        return Library(f"builtins.{name}")
    return Unknown(f"`{name}` is not bound here")
