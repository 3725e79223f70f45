"""Donated arguments of a call, and the evidence that the compiled program reuses them.

`jax.jit`, `pjit`, `pmap` and `eqx.filter_jit` take the buffers of donated arguments for their outputs: the arrays are
deleted by the call. That happens only where an output can use the buffer (`updates` looks for one).
What becomes of a donated name afterwards is told by `buffers`.
"""

from __future__ import annotations

import ast
from dataclasses import replace

from shardlint.facts.jit_settings import argnum_positions, setting_names, setting_positions
from shardlint.facts.lifetime.donating_calls import Argument, DonatingCall
from shardlint.facts.lifetime.inner_donations import donations_in_body, is_result_rebound
from shardlint.facts.lifetime.updates import Updates
from shardlint.model.evaluator.evaluate import Evaluator
from shardlint.model.needs import Memo
from shardlint.model.signatures import JITS, SHARDING_SETTINGS, Jitted, jitted_value
from shardlint.model.values import (
    Api,
    CallArguments,
    Constant,
    Function,
    Place,
    Transformed,
    Value,
    options,
)
from shardlint.source.lazy import dataclass
from shardlint.syntax import FileFacts

PMAP = "jax.pmap"
FILTER_JIT = "equinox.filter_jit"
DONATING = (*JITS, PMAP, FILTER_JIT)

# Optimizers: pairs of functions, whose state is another value.
_TRANSFORMATIONS = frozenset(
    f"optax.{name}"
    for name in (
        "adabelief adadelta adafactor adagrad adam adamax adamaxw adamw adan amsgrad fromage lamb lars lion nadam "
        "nadamw noisy_sgd novograd optimistic_gradient_descent radam rmsprop rprop sgd sm3 yogi chain named_chain "
        "apply_if_finite masked partition multi_transform clip clip_by_global_norm scale MultiSteps"
    ).split()
)


class Donations:
    """Answers about the calls of a program; remembered a file at a time."""

    def __init__(self, evaluator: Evaluator) -> None:
        self.evaluator = evaluator
        self.updates = Updates(evaluator)
        self._calls: Memo[ast.AST, DonatingCall | None] = Memo(evaluator.project.needs)

    def find_donations(self, file: FileFacts, call: ast.Call) -> DonatingCall | None:
        """Return the donations of a call; None if it donates nothing, not on every path, or if the text does not
        tell.
        """
        if call not in self._calls:
            self._calls.begin_answer(call, None)  # a call inside its own answer tells nothing
            self._calls.make_answer(call, lambda: self._donations_of_call(file, call))
        return self._calls[call]

    def _donations_of_call(self, file: FileFacts, call: ast.Call) -> DonatingCall | None:
        if isinstance(call.func, ast.Lambda):
            return None
        callee = self.evaluator.value(Place(file, call.func))
        arguments = self.evaluator.read_arguments(Place(file, call))
        if arguments.open_positional or arguments.open_keywords:
            return None
        found: DonatingCall | None = None
        for option in options(callee):
            one = self._donations_of_option(file, call, option, arguments)
            if one is None:
                return None
            found = one if found is None else _common_donations(found, one)
        return found if found is not None and found.donated_arguments else None

    def _donations_of_option(
        self, file: FileFacts, call: ast.Call, value: Value, arguments: CallArguments
    ) -> DonatingCall | None:
        if isinstance(value, Function):
            return self._donations_of_helper(file, call, value, arguments)
        shift, value = self._unwrap_partials(value)
        if not isinstance(value, Transformed) or value.call is None:
            return None
        function = jitted_value(value, self.evaluator, DONATING)
        if function is None or _is_abstract_call(file, call):
            return None
        function_given = self._donated_call_arguments(function, call, arguments, shift)
        if function_given is None:
            return None
        placed = any(function.setting_expression(name) is not None for name in SHARDING_SETTINGS)
        by = _call_asking_donation(function)
        return DonatingCall(call, by, function.api, function_given, placed)

    def _donations_of_helper(
        self, file: FileFacts, call: ast.Call, function: Function, arguments: CallArguments
    ) -> DonatingCall | None:
        """Return the donations that a function of the project makes of its own arguments."""
        found = list(donations_in_body(self.find_donations, file, function, arguments))
        if not found:
            return None
        first = found[0][0]
        own = tuple(
            replace(
                argument,
                node=node,
                taken=argument.taken
                or is_result_rebound(function.place.file, inner.call, ast.unparse(argument.node)),
            )
            for inner, argument, node in found
            if inner.by == first.by
        )
        return DonatingCall(call, first.by, first.api, own, first.placed)

    def _unwrap_partials(self, value: Value) -> tuple[int, Value]:
        """How many positions partials have filled around a jitted function."""
        shift = 0
        while isinstance(value, Transformed) and value.api.name == "functools.partial" and value.call is not None:
            if value.call.open_positional or value.call.open_keywords:
                return 0, value.inner if isinstance(value.inner, Api) else Constant(None)
            shift += len(value.call.positional) - 1
            value = value.inner
        return shift, value

    def _donated_call_arguments(
        self, function: Jitted, call: ast.Call, arguments: CallArguments, shift: int
    ) -> tuple[Argument, ...] | None:
        donated = self._donated_parameters(function)
        static = setting_positions(function, "static", self.evaluator)
        if function.api == PMAP:
            broadcast = function.setting_expression("static_broadcasted_argnums")
            found = argnum_positions(broadcast, function.settings, self.evaluator)
            static = frozenset(found) if found is not None else None
        if donated is None or static is None:
            return None
        parameters = function.parameters
        slots: list[tuple[ast.expr, int | None, str | None]] = []
        offset = shift
        if function.late:
            if not isinstance(call.func, ast.Attribute):
                return None
            slots.append((call.func.value, 0, None))
            offset += 1
        for index, place in enumerate(arguments.positional):
            assert isinstance(place.node, ast.expr)
            slots.append((place.node, index + offset, None))
        for name, place in arguments.keywords.items():
            assert isinstance(place.node, ast.expr)
            index_of = None
            if parameters is not None and name in parameters.positional and function.api != PMAP:
                index_of = parameters.positional.index(name)
            slots.append((place.node, index_of, name))
        result = []
        for node, position, keyword in slots:
            known = keyword
            if parameters is not None and position is not None and position < len(parameters.positional):
                known = parameters.positional[position]
            is_static = position in static
            given = donated.is_donated(position, known) and not is_static
            given = given and not self._holds_no_arrays(Place(arguments.place.file, node), arguments)
            update = self.updates.find_update(function.inner, known) if not is_static else None
            result.append(
                Argument(
                    node,
                    position,
                    known,
                    given,
                    is_static,
                    update is not None and update.whole,
                    update.parts if update is not None else (),
                    update is not None and update.array,
                    update.used if update is not None else None,
                    given and position in donated.behind,
                )
            )
        return tuple(result)

    def _holds_no_arrays(self, place: Place, arguments: CallArguments) -> bool:
        """Return whether an argument surely holds no array that could be donated: a function, an optimizer of optax."""
        values = options(self.evaluator.value(place, arguments.environment))
        return all(isinstance(one, Function) or getattr(one, "api", "") in _TRANSFORMATIONS for one in values)

    def _donated_parameters(self, function: Jitted) -> _Donated | None:
        """Which arguments a jitted function donates."""
        settings = function.settings
        if settings.open_keywords:
            return None
        if function.api == FILTER_JIT:
            place = function.setting_expression("donate")
            mode = (
                self.evaluator.value(place, settings.environment) if place is not None else Constant("none")
            )
            if not isinstance(mode, Constant) or function.settings.open_positional:
                return None
            if mode.value in ("all", "warn"):
                return _Donated(every=True)
            if mode.value in ("all-except-first", "warn-except-first"):
                return _Donated(every=True, but_first=True) if function.parameters is not None else None
            return None
        by_position = setting_positions(function, "donate", self.evaluator)
        by_number = argnum_positions(function.setting_expression("donate_argnums"), settings, self.evaluator)
        by_name = setting_names(function.setting_expression("donate_argnames"), settings, self.evaluator)
        if by_position is None and function.parameters is None and by_name and not by_number:
            by_position = frozenset()  # of a function that is not known, what is given by these names
        if by_position is None or by_name is None or by_number is None:
            return None
        behind = by_position - frozenset(number for number in by_number if number >= 0)
        if function.parameters is not None:
            behind -= {index for index, one in enumerate(function.parameters.positional) if one in by_name}
        if function.api == PMAP:
            by_position -= behind  # pmap takes negative positions for none
        return _Donated(by_position, frozenset(by_name), behind=behind)


@dataclass(frozen=True)
class _Donated:
    positions: frozenset[int] = frozenset()
    names: frozenset[str] = frozenset()
    every: bool = False
    but_first: bool = False
    behind: frozenset[int] = frozenset()

    def is_donated(self, position: int | None, name: str | None) -> bool:
        if self.every:
            return not (self.but_first and position == 0)
        return position in self.positions or name in self.names


def _common_donations(one: DonatingCall, two: DonatingCall) -> DonatingCall | None:
    """Return the donations that two branches of a call have in common."""
    if len(one.arguments) != len(two.arguments):
        return None
    both = []
    for first, second in zip(one.arguments, two.arguments, strict=True):
        if first.node is not second.node:
            return None
        both.append(
            Argument(
                first.node,
                first.position,
                first.name,
                first.donated and second.donated,
                first.static or second.static,
                first.taken and second.taken,
                tuple(part for part in first.parts if part in second.parts),
                first.array and second.array,
                first.used if first.used == second.used else None,
                first.behind or second.behind,
            )
        )
    return DonatingCall(one.call, one.by, one.api, tuple(both), one.placed or two.placed)


def _is_abstract_call(file: FileFacts, call: ast.Call) -> bool:
    """Donation does nothing while jit is disabled, and a test of it knows what it does."""
    return file.contains_text("disable_jit") or "is_deleted" in file.source_text(call)


def _call_asking_donation(function: Jitted) -> Place:
    """The call in which donation was asked for: `jax.jit(...)`, or the `partial` that is applied later."""
    for name in ("donate_argnums", "donate_argnames", "donate"):
        given = function.setting_expression(name)
        keyword = given.file.parent(given.node) if given is not None else None
        call = given.file.parent(keyword) if given is not None and isinstance(keyword, ast.keyword) else None
        if given is not None and isinstance(call, ast.Call):
            return Place(given.file, call)
    return function.settings.place
