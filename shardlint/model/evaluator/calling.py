"""Calls: their arguments, and what they give back."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from shardlint.model import api
from shardlint.model.evaluator import sequence_parts
from shardlint.model.evaluator.loaded_configuration import LOADERS, loaded_value
from shardlint.model.evaluator.trees import evaluate_table_method
from shardlint.model.needs import Memo
from shardlint.model.values import (
    Api,
    Assumed,
    CallArguments,
    CallResult,
    Choice,
    ClassValue,
    Computed,
    Constant,
    Environment,
    Function,
    Items,
    Leaves,
    Parameter,
    Place,
    Table,
    TableMethod,
    Transformed,
    Unknown,
    Value,
    accept_assumed,
    choose_value,
    mark_assumed,
    options,
)
from shardlint.source.lazy import dataclass

if TYPE_CHECKING:
    from shardlint.model.evaluator.evaluate import Evaluator



@dataclass(frozen=True)
class _Rest:
    """Value of `*args`: the remaining arguments, and the elements of starred arguments at the end of the call."""

    places: tuple[Place, ...]
    environment: Environment | None
    more: tuple[Value, ...]
    open: bool


_Given = Value | tuple[Place, Environment | None] | _Rest
"""A value, or where it stands."""


class _Parameters(Mapping[str, Value]):
    """Values of the parameters of a function in a call, each evaluated on first use.

    That comes to the same as if it were done before the function is looked into: what is open there counts for nothing.
    """

    def __init__(self, evaluator: Evaluator, given: Mapping[str, _Given]) -> None:
        self.evaluator = evaluator
        self._given = given
        self._opened = evaluator.active_queries()
        self._known: Memo[str, Value] = Memo(evaluator.project.needs)
        self._asking: set[str] = set()

    def __getitem__(self, name: str) -> Value:
        one = self._given[name]
        if isinstance(one, Value):
            return one
        if name not in self._known and name in self._asking:
            return self.evaluator.circular_value()
        self._asking.add(name)
        try:
            return self._known.get_or_make(name, lambda: self._evaluate_parameter(one))
        finally:
            self._asking.discard(name)

    def _evaluate_parameter(self, one: tuple[Place, Environment | None] | _Rest) -> Value:
        if isinstance(one, _Rest):
            parts = [(place, one.environment) for place in one.places]
            known = [self.evaluator.value_outside(self._opened, *part) for part in parts]
            return Items("tuple", (*known, *one.more), one.open)
        return self.evaluator.value_outside(self._opened, *one)

    def __iter__(self) -> Iterator[str]:
        return iter(self._given)

    def __len__(self) -> int:
        return len(self._given)


# What makes a dict of what it is given, and what gives a dict back as it is.
_DICTS = ("builtins.dict", "collections.OrderedDict")
_SAME = (
    *("copy.copy", "copy.deepcopy", "flax.core.freeze", "flax.core.unfreeze", "flax.core.FrozenDict"),
    *("flax.core.frozen_dict.freeze", "flax.core.frozen_dict.unfreeze", "flax.core.frozen_dict.FrozenDict"),
)


class Calling:
    """Applies values to arguments, for an evaluator."""

    def __init__(self, evaluator: Evaluator) -> None:
        self.evaluator = evaluator
        self._written: dict[ast.AST, CallArguments] = {}

    def read_arguments(self, place: Place, env: Environment | None = None) -> CallArguments:
        """The arguments of a call as written."""
        written = self._written.get(place.node)
        if written is None:
            written = self._written[place.node] = self._read_arguments(place)
        if env is None:
            return written
        if written.positional or written.keywords or written.open_positional or written.open_keywords:
            env.asked += 1  # whoever reads the arguments will ask
        return CallArguments(
            place,
            written.positional,
            written.keywords,
            written.open_positional,
            written.open_keywords,
            env,
            written.starred,
        )

    def _read_arguments(self, place: Place) -> CallArguments:
        call = place.node
        assert isinstance(call, ast.Call)
        positional: list[Place] = []
        open_positional = False
        for argument in call.args:
            if isinstance(argument, ast.Starred):
                open_positional = True
                break
            positional.append(Place(place.file, argument))
        keywords: dict[str, Place] = {}
        open_keywords = False
        for keyword in call.keywords:
            if keyword.arg is not None:
                keywords[keyword.arg] = Place(place.file, keyword.value)
            elif isinstance(keyword.value, ast.Dict) and all(
                isinstance(k, ast.Constant) for k in keyword.value.keys
            ):
                for key, value in zip(keyword.value.keys, keyword.value.values, strict=True):
                    assert isinstance(key, ast.Constant)
                    keywords[str(key.value)] = Place(place.file, value)
            else:
                open_keywords = True
        return CallArguments(
            place, tuple(positional), keywords, open_positional, open_keywords, starred=open_positional
        )

    def evaluate_call(self, place: Place, env: Environment | None = None) -> Value:
        """The result of a call."""
        assert isinstance(place.node, ast.Call)
        callee = self.evaluator.value(Place(place.file, place.node.func), env)
        arguments = self.read_arguments(place, env)
        return choose_value([self.apply_callee(option, arguments) for option in options(callee)])

    def apply_callee(self, callee: Value, arguments: CallArguments) -> Value:
        """The result of calling a value."""
        match callee:
            case Assumed(value=inner):
                return mark_assumed(self.apply_callee(inner, arguments), callee)
            case Api():
                return self._apply_api(callee, arguments)
            case ClassValue():
                return CallResult(callee, arguments)
            case TableMethod(table=table, name="get") if arguments.positional:
                return self.evaluator.trees.evaluate_dict_get(table, arguments)
            case TableMethod(table=table, name="copy"):
                return table
            case TableMethod(table=table, name=name):
                return evaluate_table_method(table, name)
            case Function():
                found = self._returned_value(callee, arguments)
                return (self._promised_instance(callee) or found) if type(found) is Unknown else found
            case Transformed(api=Api(name="functools.partial"), inner=inner, call=CallArguments() as earlier):
                return self.apply_callee(inner, _join_arguments(earlier, arguments))
            case Transformed(api=Api(name=name), inner=inner) if name in (
                "functools.lru_cache",
                "functools.cache",
            ):
                return self.apply_callee(inner, arguments)
            case Transformed():
                return CallResult(callee, arguments)
            case CallResult(by=ClassValue()):
                method = self.evaluator.evaluate_attribute(callee, "__call__")
                return self.apply_callee(method, arguments) if isinstance(method, Function | Transformed) else method
            case CallResult(by=Api() as factory, call=CallArguments() as settings) if (
                factory.name in api.TRANSFORMS
            ):
                # `eqx.filter_jit(donate="all")(f)`: the factory was called with settings only.
                inner_place = arguments.positional[0] if arguments.positional else None
                if inner_place is not None and factory.name not in api.DECORATOR_FACTORIES:
                    return Transformed(
                        factory, self.evaluator.value(inner_place, arguments.environment), settings
                    )
        return Computed("the result of an unknown call", arguments.place, arguments.environment)

    def _apply_api(self, callee: Api, arguments: CallArguments) -> Value:
        transform = api.TRANSFORMS.get(callee.name)
        if transform is not None and not transform.now and callee.name not in api.DECORATOR_FACTORIES:
            for where in transform.functions:
                place = None
                if isinstance(where, int):
                    place = arguments.positional[where] if where < len(arguments.positional) else None
                else:
                    place = arguments.keywords.get(where)
                if place is not None:
                    inner = self.evaluator.value(place, arguments.environment)
                    if callee.name == "functools.partial" and _is_partial(inner):
                        return _merge_partials(inner, arguments)
                    return Transformed(callee, inner, arguments)
        if callee.name in ("builtins.tuple", "builtins.list") and len(arguments.positional) == 1:
            inner = self.evaluator.value(arguments.positional[0], arguments.environment)
            evaluator = self.evaluator
            kind = callee.name.rpartition(".")[2]
            found: list[Value] = []
            for option in options(inner):
                one = accept_assumed(option)
                held = sequence_parts.spec_entries(evaluator, one) or evaluator.trees.list_elements(one)
                made: Value = Items(kind, (), True, (), one) if isinstance(one, Parameter) else Unknown()
                if held is not None:
                    made = Items(kind, held.items, held.open, held.repeated, held.names_of)
                found.append(mark_assumed(made, option))
            return choose_value(found)
        if callee.name in _DICTS or callee.name in _SAME:
            known = self._make_dict(callee.name, arguments)
            return CallResult(callee, arguments) if known is None else known
        if callee.name in LOADERS:
            return loaded_value(self.evaluator, callee.name, arguments) or CallResult(callee, arguments)
        return CallResult(callee, arguments)

    def _make_dict(self, name: str, arguments: CallArguments) -> Value | None:
        """Return the dict that a call of `dict` makes: of nothing, another dict, pairs or keywords; None if it is not
        known.
        """
        if arguments.open_positional or len(arguments.positional) > 1:
            return None
        hidden = (
            sequence_parts.evaluate_star_keywords(self.evaluator, arguments) if arguments.open_keywords else Table(())
        )
        if hidden is None:
            return None
        more = tuple((k, self.evaluator.value(v, arguments.environment)) for k, v in arguments.keywords.items())
        if not arguments.positional:
            return Table((*more, *hidden.entries)) if name in _DICTS else None
        first = arguments.positional[0]
        given = self.evaluator.trees.expand_tree_map(self.evaluator.value(first, arguments.environment))
        known = accept_assumed(given)
        if isinstance(known, Leaves) and not more and not hidden.entries:
            return given
        if not isinstance(known, Table) and name in _DICTS:
            rows = self.evaluator.trees.evaluate_elements(first, arguments.environment)
            known = (_table_of_pairs(rows) if rows is not None else None) or known
        if not isinstance(known, Table):
            return None
        return mark_assumed(Table((*known.entries, *more, *hidden.entries), known.open), given)

    def _promised_instance(self, function: Function) -> Value | None:
        """An instance of the class of the project that a function is annotated to return."""
        node = function.node
        if not isinstance(node, ast.FunctionDef) or node.returns is None:
            return None
        return self.evaluator.instance_of(Place(function.place.file, node.returns))

    def _returned_value(self, function: Function, arguments: CallArguments) -> Value:
        """Return the result of a simple function for these arguments."""
        return self.evaluate_result(function, lambda: self.bind_parameters(function, arguments))

    def evaluate_result(self, function: Function, parameters: Callable[[], Environment]) -> Value:
        """Return the result of a simple function for these parameters, which are evaluated when they are needed."""
        file, node = function.place.file, function.node
        if isinstance(node, ast.AsyncFunctionDef):
            return Unknown("the result of a coroutine")
        if isinstance(node, ast.Lambda):
            return self.evaluator.value(Place(file, node.body), parameters())
        scope = file.walk_scope(file.scope(node))
        if (
            not scope.returns
            or len(scope.returns) > 4
            or any(not isinstance(r, ast.Return) for r in scope.returns)
        ):
            return Unknown(f"the result of {node.name}")
        env = parameters()
        results = []
        for statement in scope.returns:
            expression = statement.value
            results.append(
                self.evaluator.value(Place(file, expression), env)
                if expression is not None
                else Constant(None)
            )
        result = choose_value(results)
        # A value that leans on a parameter we could not fill in is not known.
        return Choice(tuple(options(result))) if isinstance(result, Choice) else result

    def evaluate_decoration(self, function: Function, inner: Value, decorator: Place) -> Value:
        """Return the result of a decorator of the project for a function."""
        given = self._bind_arguments(function, CallArguments(decorator, (), {}))
        args = function.node.args
        names = [one.arg for one in (*args.posonlyargs, *args.args)][int(function.bound) :]
        if not names:
            return Unknown("a decorator that takes no function")
        given[names[0]] = inner
        return self.evaluate_result(function, lambda: Environment(_Parameters(self.evaluator, given)))

    def evaluate_yield(self, function: Function, arguments: CallArguments) -> Value:
        """Return the value of the one `yield` of a context manager for these arguments."""
        file, node = function.place.file, function.node
        if isinstance(node, ast.FunctionDef):
            given = [one for one in file.walk_scope(file.scope(node)).returns if not isinstance(one, ast.Return)]
            only = given[0] if len(given) == 1 else None
            if isinstance(only, ast.Yield) and only.value is not None:
                return self.evaluator.value(Place(file, only.value), self.bind_parameters(function, arguments))
        return Unknown("what a generator yields")

    def bind_parameters(self, function: Function, arguments: CallArguments) -> Environment:
        """Values of a function's parameters for a call: arguments, then defaults, else unknown."""
        return Environment(_Parameters(self.evaluator, self._bind_arguments(function, arguments)))

    def bind_parameter(self, function: Function, arguments: CallArguments, name: str) -> Value | None:
        """The same of one parameter; None where the function has no such."""
        one = self._bind_arguments(function, arguments).get(name)
        return self._argument_value(one) if one is not None else None

    def _argument_value(self, given: _Given) -> Value:
        if isinstance(given, _Rest):
            known = [self.evaluator.value(place, given.environment) for place in given.places]
            return Items("tuple", (*known, *given.more), given.open)
        return given if isinstance(given, Value) else self.evaluator.value(*given)

    def _bind_arguments(self, function: Function, arguments: CallArguments) -> dict[str, _Given]:
        """Where the values of a function's parameters stand."""
        file, args = function.place.file, function.node.args
        positional = [*args.posonlyargs, *args.args]
        names = [arg.arg for arg in positional]
        values: dict[str, _Given] = {}
        if function.bound and names:
            owner = function.owner
            some = CallResult(owner, None) if owner is not None else Unknown("self")
            values[names[0]] = function.receiver or some
            names = names[1:]
        environment = arguments.environment
        for name, place in zip(names, arguments.positional, strict=False):
            values[name] = place, environment
        more = sequence_parts.evaluate_star_arguments(self.evaluator, arguments) if arguments.open_positional else ()
        left = names[len(arguments.positional) :]
        values.update(zip(left, more or (), strict=False))
        if args.vararg is not None:
            given = arguments.positional[len(names) :]
            values[args.vararg.arg] = _Rest(given, environment, (more or ())[len(left) :], more is None)
        for name, place in arguments.keywords.items():
            values.setdefault(name, (place, environment))
        hidden = (
            sequence_parts.evaluate_star_keywords(self.evaluator, arguments) if arguments.open_keywords else Table(())
        )
        every = (*names, *(arg.arg for arg in args.kwonlyargs))
        for key, value in hidden.entries if hidden is not None else ():
            if key in every:
                values.setdefault(str(key), value)
        defaults: dict[str, ast.expr] = {}
        if more is not None and hidden is not None:
            count = len(args.defaults)
            defaults.update(zip((arg.arg for arg in positional[-count:]), args.defaults, strict=False))
            for arg, default in zip(args.kwonlyargs, args.kw_defaults, strict=True):
                if default is not None:
                    defaults[arg.arg] = default
        for name in every:
            if name not in values:
                known = name in defaults
                values[name] = (Place(file, defaults[name]), None) if known else Unknown(f"argument {name}")
        return values


def _table_of_pairs(rows: list[Value]) -> Table | None:
    """The dict of pairs of a constant key and a value."""
    entries: list[tuple[object, Value]] = []
    for row in rows:
        key = (
            accept_assumed(row.items[0])
            if isinstance(row, Items) and len(row.items) == 2 and not row.open
            else None
        )
        if not isinstance(row, Items) or not isinstance(key, Constant):
            return None
        entries.append((key.value, row.items[1]))
    return Table(tuple(entries))


def _is_partial(value: Value) -> bool:
    return (
        isinstance(value, Transformed)
        and value.api.name == "functools.partial"
        and isinstance(value.inner, Api)
        and value.call is not None
    )


def _merge_partials(inner: Value, call_arguments: CallArguments) -> Value:
    """A partial of a partial of a library function: one that is given the arguments of both."""
    assert isinstance(inner, Transformed) and inner.call is not None
    both = _join_arguments(inner.call, replace(call_arguments, positional=call_arguments.positional[1:]))
    return replace(inner, call=replace(both, positional=(*inner.call.positional[:1], *both.positional)))


def _join_arguments(earlier: CallArguments, call_arguments: CallArguments) -> CallArguments:
    """Arguments of a partial (without the function itself) followed by those of the call."""
    return CallArguments(
        call_arguments.place,
        (*earlier.positional[1:], *call_arguments.positional),
        {**earlier.keywords, **call_arguments.keywords},
        earlier.open_positional or call_arguments.open_positional,
        earlier.open_keywords or call_arguments.open_keywords,
        call_arguments.environment or earlier.environment,
        call_arguments.starred and not earlier.open_positional,
    )
