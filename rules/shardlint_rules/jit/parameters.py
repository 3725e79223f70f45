"""Settings of `jax.jit` that name arguments of its function by position or name. Shared by rules."""

from __future__ import annotations

from collections.abc import Sequence
from difflib import get_close_matches

from shardlint.facts.jit_settings import argnum_positions, setting_names
from shardlint.model.evaluator.evaluate import Evaluator
from shardlint.model.signatures import Jitted, Parameters
from shardlint.model.values import Function
from shardlint_rules.jit.in_shardings_entries import describe_function


def given_entries(function: Jitted, setting: str, evaluator: Evaluator) -> list[int | str]:
    """The positions or names that a setting (`donate_argnums`, `static_argnames`) gives; none where it is not told."""
    place = function.setting_expression(setting)
    if setting.endswith("argnums"):
        return list(argnum_positions(place, function.settings, evaluator) or ())
    return list(setting_names(place, function.settings, evaluator) or ())


def explain_lost_entries(
    function: Jitted, parameters: Parameters, entries: Sequence[int | str]
) -> tuple[str, str] | None:
    """Return the mistake in entries that name no argument, and the advice; None if all name one."""
    wrong = [one for one in entries if not _has_parameter(parameters, one)]
    if not wrong:
        return None
    shown = ", ".join(repr(one) for one in wrong)
    if isinstance(wrong[0], str):
        near = get_close_matches(wrong[0], [*parameters.positional, *parameters.keyword_only], 1)
        advice = f"did you mean {near[0]!r}?" if near else "write the name of an argument of the function"
        return f"{describe_function(function)} takes no argument {shown}", advice
    count = len(parameters.positional)
    takes = f"{count} positional argument{'s' if count != 1 else ''}"
    advice = "count from 0, without keyword-only arguments and arguments bound by a partial"
    if isinstance(function.inner, Function) and function.inner.bound:
        advice = "do not count self: the method is bound"
    return f"no position {shown}: {describe_function(function)} takes {takes}", advice


def _has_parameter(parameters: Parameters, one: int | str) -> bool:
    if isinstance(one, int):
        return parameters.star or parameters.nonnegative_position(one) is not None
    return parameters.double_star or one in parameters.positional or one in parameters.keyword_only
