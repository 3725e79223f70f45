"""Settings of jit: the positions and names that they give, and the functions that a `jax.jit(...)` or decorator wraps.

All answer None (or nothing) where the text does not tell.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from shardlint.model import Program
from shardlint.model.evaluator.evaluate import Evaluator
from shardlint.model.signatures import JITS, Jitted, jitted_value
from shardlint.model.values import CallArguments, Constant, Items, Place, Value, options
from shardlint.syntax import FileFacts

DONATE_SETTINGS = ("donate_argnums", "donate_argnames")
STATIC_SETTINGS = ("static_argnums", "static_argnames")


def argnum_positions(
    place: Place | None, settings: CallArguments, evaluator: Evaluator
) -> tuple[int, ...] | None:
    """The positions given to `donate_argnums` and the like: none where there is no argument, None where not told."""
    found = _constants_of_setting(place, settings, evaluator)
    if found is None or any(not isinstance(one, int) or isinstance(one, bool) for one in found):
        return None
    return tuple(one for one in found if isinstance(one, int))


def setting_names(place: Place | None, settings: CallArguments, evaluator: Evaluator) -> tuple[str, ...] | None:
    """The names given to `donate_argnames` and the like: none where there is no argument, None where not told."""
    found = _constants_of_setting(place, settings, evaluator)
    if found is None or any(not isinstance(one, str) for one in found):
        return None
    return tuple(one for one in found if isinstance(one, str))


def _constants_of_setting(
    place: Place | None, settings: CallArguments, evaluator: Evaluator
) -> tuple[object, ...] | None:
    if place is None:
        return ()
    value = evaluator.value(place, settings.environment)
    value = evaluator.trees.list_elements(value) or value
    if isinstance(value, Constant):
        return () if value.value is None else (value.value,)
    if (
        isinstance(value, Items)
        and not value.open
        and all(isinstance(item, Constant) for item in value.items)
    ):
        return tuple(item.value for item in value.items if isinstance(item, Constant))
    return None


def setting_positions(function: Jitted, kind: str, evaluator: Evaluator) -> frozenset[int] | None:
    """The positions that `static_` or `donate_` settings mean, names too, as jax works them out; None where not told.

    What names mean is known only with the parameters; numbers out of range are left out.
    """
    if function.settings.open_keywords:
        return None
    given = function.setting_expression(f"{kind}_argnums")
    by_number = argnum_positions(given, function.settings, evaluator)
    by_name = setting_names(function.setting_expression(f"{kind}_argnames"), function.settings, evaluator)
    if by_number is None or by_name is None:
        return None
    parameters = function.parameters
    if parameters is None:
        return None if by_name or any(number < 0 for number in by_number) else frozenset(by_number)
    found = {index for number in by_number if (index := parameters.nonnegative_position(number)) is not None}
    if parameters.star:
        found |= {number for number in by_number if number >= 0}
    if kind != "static" or given is None:  # with both given, jax takes static numbers as they stand
        found |= {parameters.positional.index(name) for name in by_name if name in parameters.positional}
    return frozenset(found)


def jit_wrappings(
    program: Program, file: FileFacts, call: ast.expr, form: str, apis: tuple[str, ...] = JITS
) -> Iterator[Jitted]:
    """The functions wrapped by a `jax.jit` call, decorator or `partial(jax.jit, ...)` written at `call`.

    A decorator may be the bare name (`@jax.jit`).
    """
    evaluator = program.evaluator
    parent = file.parent(call)
    if isinstance(parent, ast.FunctionDef | ast.AsyncFunctionDef) and call in parent.decorator_list:
        yield from _jits_by_decorator(program, file, parent, call, apis)
        return
    owners: list[ast.expr] = [] if form == "partial" else [call]
    if form == "partial" and isinstance(parent, ast.Assign) and len(parent.targets) == 1:
        yield from _jits_by_partial(program, file, parent.targets[0], apis)
    if isinstance(parent, ast.Call) and parent.func is call:
        owners.append(parent)  # `jax.jit(donate_argnums=0)(f)`
    for owner in owners:
        found = [
            jitted_value(option, evaluator, apis) for option in options(evaluator.value(Place(file, owner)))
        ]
        if any(one is not None for one in found):
            yield from (one for one in found if one is not None)
            return


def _jits_by_partial(
    program: Program, file: FileFacts, name: ast.expr, apis: tuple[str, ...]
) -> Iterator[Jitted]:
    """Yield the jits made by the name of a partial in this file: `jit = partial(jax.jit, ...)`, `@jit`, `jit(f)`."""
    if not isinstance(name, ast.Name):
        return
    evaluator = program.evaluator
    for use in file.find_mentions(name.id):
        if not isinstance(use, ast.Name):  # `jax.jit` is not the partial `jit`
            continue
        parent = file.parent(use)
        if isinstance(parent, ast.Call) and parent.func is use:
            made = options(evaluator.value(Place(file, parent)))
            yield from (one for option in made if (one := jitted_value(option, evaluator, apis)) is not None)
        elif isinstance(parent, ast.FunctionDef | ast.AsyncFunctionDef) and use in parent.decorator_list:
            outer = evaluator.apply_decorator(Place(file, use), evaluator.definition_value(file, parent))
            found = jitted_value(outer, evaluator, apis)
            if found is not None:
                yield found


def _jits_by_decorator(
    program: Program,
    file: FileFacts,
    node: ast.FunctionDef | ast.AsyncFunctionDef,
    call: ast.expr,
    apis: tuple[str, ...],
) -> Iterator[Jitted]:
    evaluator = program.evaluator
    inner: Value = evaluator.definition_value(file, node)
    for decorator in reversed(node.decorator_list):
        outer = evaluator.apply_decorator(Place(file, decorator), inner)
        if decorator is call:
            found = jitted_value(outer, evaluator, apis)
            if found is not None:
                yield found
            return
        inner = outer
