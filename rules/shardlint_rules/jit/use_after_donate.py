"""SL220."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import ClassVar

from shardlint.facts.lifetime.buffers import Use, access_path
from shardlint.facts.lifetime.donation import DONATING
from shardlint.facts.lifetime.reads import Reading, array_of_read
from shardlint.model.signatures import jitted_value
from shardlint.model.values import options
from shardlint.rules_api.rule import Calls, Certainty, Finding, Harm, Rule, detector
from shardlint.rules_api.site import Site
from shardlint.syntax import Binding, FileFacts
from shardlint.syntax.guards import expected_to_fail
from shardlint.syntax.nodes import walk_nodes
from shardlint_rules.jit._donated_alias import Alias, find_donated_aliases
from shardlint_rules.jit.donations import (
    certainty_of_handover,
    describe_place,
    donation_keyword,
    donation_node,
    is_array,
    is_buffer_taken,
    is_donation_ignored,
    is_next_value_of_argument,
    stories_of_donations,
    text_of_expression,
    wrapper_name,
)
from shardlint_rules.jit.no_output import reason_no_output_fits, unwrap_function


class UseAfterDonate(Rule):
    """An array is read after it was donated.

    The read raises `RuntimeError: Array has been deleted`. (On jax 0.7 a jitted function that gets the array raises
    `ValueError: ... buffer has been deleted or donated`.) The call reuses the donated buffer for an output and deletes
    the array.

    ## Reports
    - proven: a read of a name, attribute or alias after `jax.jit`, `pjit`, `pmap` or `eqx.filter_jit` donated its
      buffer. Reported only if an output can reuse the buffer: the function returns an updated argument
      (`params - rate * grads`, `state.replace(...)`), or the name of the result suggests an updated argument
      (`new_state = step(state)`).
    - proven: a read of an attribute that shares a buffer with a donated attribute. After `self.best = self.params` both
      attributes share one buffer. The next `self.params = self._step(self.params)` deletes the buffer.
    - `donated-in-loop` (likely): a donating call in a loop that passes the same array in the next iteration.
    - `warm-up-call` (likely): a warm-up call `step(state)` discards its result, and the next call reads the deleted
      `state`.
    - `alias-in-loop` (likely): `best = state` in a loop whose next iteration donates `state`.

    ## Write instead
    Copy the array before the call with `jnp.copy(state)`, or do not donate the argument. `before = state` and
    `jnp.asarray(state)` do not copy.

    ## Limits
    Not reported:

    - `.shape`, `.dtype`, `.sharding`, `len`, `is_deleted` and `zeros_like`: they work on a deleted array
    - numpy arrays, and `nnx.jit`, because it updates modules in place
    - donations in traced code, because they have no effect.

    If no output can reuse the buffer, nothing is deleted. SL223 reports such donations.
    """

    code = "SL220"
    name = "use-after-donate"
    bound = True
    harm = Harm.CRASH
    likely = ("donated-in-loop", "warm-up-call", "alias-in-loop")
    assumptions: ClassVar[Mapping[str, str]] = {
        "warm-up-call": "An output of the first call reuses the buffer too.",
        "alias-in-loop": "The last iteration of the loop does not assign the alias.",
    }
    triggers = (Calls(*DONATING, file_says=("donate",)),)

    @detector("call", "partial")
    def find_reads(self, site: Site) -> Iterator[Finding]:
        """The reads in this file; at the wrapper those in other files."""
        for file, story in stories_of_donations(site):
            uses = [use for use in story.uses if use.death.call.by.node is site.call]
            for use, certainty in _most_certain_uses(site, file, uses):
                form = _find_form(file, use, certainty)
                if form is not None and file is site.file:
                    yield self._report_read_here(site, use, certainty, form)
                elif form is not None:
                    yield self._report_read_elsewhere(site, file, use, certainty, form)

        if site.scope.kind == "class" or site.scope.enclosing_function() is not None:
            for one in find_donated_aliases(site):
                yield self._report_alias_read(site, one)

    def _report_alias_read(self, site: Site, alias: Alias) -> Finding:
        text, line = site.text(alias.node), alias.call.call.lineno
        return site.finding(
            alias.node,
            f"Reading `{alias.name}` at line {alias.read.lineno} raises: the next call at line {line} donates its "
            "buffer.",
            why=f"`{alias.name}` has the same buffer as `{text}`, and {wrapper_name(alias.call.api)} donates `{text}`",
            help=f"copy `{text}` first: `jax.tree.map(jnp.copy, {text})`",
            certainty=Certainty.PROVEN,
        )

    def _report_read_here(self, site: Site, use: Use, certainty: Certainty, form: str) -> Finding:
        name, donated = (
            text_of_expression(site.file, array_of_read(use.node)),
            text_of_expression(site.file, use.death.argument.node),
        )
        node: ast.AST = use.node
        help, why = _write_advice(name, use), _explain_why(form, name)
        if use.is_repeated_call and _others_are_rebound(site.file, use):
            # A loop that rebinds all its other donated arguments: the donation of this one is unintended.
            node = donation_node(donation_keyword(site), use.death.argument.name, use.death.argument.position)
            help = f"do not donate `{name}`: the call at line {use.death.call.call.lineno} returns no new value for it"
        elif name != donated and not use.is_repeated_call:
            why = why or f"`{name}` is part of `{donated}` or an alias of it"
        return site.finding(
            node,
            _write_message(site.file, use, certainty, f"line {use.death.call.call.lineno}"),
            why=why,
            help=help,
            form=form,
        )

    def _report_read_elsewhere(
        self, site: Site, file: FileFacts, use: Use, certainty: Certainty, form: str
    ) -> Finding:
        name = text_of_expression(file, array_of_read(use.node))
        read = describe_place(site, file, use.node)
        return site.finding(
            donation_keyword(site),
            _write_message(file, use, certainty, describe_place(site, file, use.death.call.call)),
            why=_explain_why(form, name) if use.is_repeated_call else f"{read} reads `{name}`",
            help=_write_advice(name, use),
            form=form,
        )


def _most_certain_uses(site: Site, file: FileFacts, uses: list[Use]) -> Iterator[tuple[Use, Certainty]]:
    """One use for each read that raises, of several turns of a loop the surest."""
    found: dict[ast.expr, tuple[Use, Certainty]] = {}
    for use in uses:
        certainty = certainty_of(site, file, use)
        if certainty is None or (use.is_repeated_call and _is_refilled_in_loop(file, use)):
            continue
        known = found.get(use.node)
        if known is None or (certainty is Certainty.PROVEN and known[1] is not Certainty.PROVEN):
            found[use.node] = use, certainty
    yield from found.values()


def _others_are_rebound(file: FileFacts, use: Use) -> bool:
    """Return whether the call's result is bound to other arguments that it donates, and to nothing like this one."""
    call, argument = use.death.call, use.death.argument
    others = [one for one in call.donated_arguments if one is not argument]
    if is_next_value_of_argument(file, call, argument):
        return False
    return any(is_next_value_of_argument(file, call, one) for one in others)


def _is_refilled_in_loop(file: FileFacts, use: Use) -> bool:
    """Return whether a dictionary that is passed again gets new arrays in the loop: `cache.update(outputs)`."""
    loop = next((one for one in file.ancestors(use.node) if isinstance(one, ast.For | ast.While)), None)
    given = text_of_expression(file, array_of_read(use.node))
    return loop is not None and any(
        isinstance(one, ast.Call)
        and isinstance(one.func, ast.Attribute)
        and one.func.attr == "update"
        and text_of_expression(file, one.func.value) == given
        for one in walk_nodes(loop)
    )


def _find_form(file: FileFacts, use: Use, certainty: Certainty) -> str | None:
    """The form of a finding; None for a read that no text shows to raise."""
    if certainty is Certainty.PROVEN:
        return ""
    if use.is_repeated_call:
        return "donated-in-loop"
    if _is_passed_twice(file, use):
        return "warm-up-call"
    return "alias-in-loop" if _is_stored_back_in_loop(file, use) else None


def _explain_why(form: str, name: str) -> str:
    if form == "warm-up-call":
        return f"the call here passes `{name}` again and returns its next value: an output can reuse the buffer"
    if form == "alias-in-loop":
        return f"the loop stores `{name}`, and its next iteration donates that buffer"
    return ""


def _is_passed_twice(file: FileFacts, use: Use) -> bool:
    """Return whether the read passes the array to the function that took it before, whose result is its next value.

    A call to warm up, or for the first step: `step(state, batch)` and then `state = step(state, batch)` in the loop.
    """
    call = file.parent(use.node)
    call = file.parent(call) if isinstance(call, ast.keyword) else call
    if not isinstance(call, ast.Call) or call.func is use.node:
        return False
    first = use.death.call
    if call is first.call or file.source_text(call.func) != file.source_text(first.call.func):
        return False
    return is_next_value_of_argument(file, replace(first, call=call), replace(use.death.argument, node=use.node))


def _is_stored_back_in_loop(file: FileFacts, use: Use) -> bool:
    """Return whether the loop that donates the array stores it under the name that is read, for the next iteration:
    `best = state`.
    """
    name, donated = access_path(use.node), access_path(use.death.argument.node)
    if name is None or donated is None or name[0] == donated[0]:
        return False
    loops = {one for one in file.ancestors(use.death.call.call) if isinstance(one, ast.For | ast.While)}
    for binding in file.bindings(file.evaluation_scope(use.node), name[0]):
        given = _value_of_target(binding) if loops.intersection(file.ancestors(binding.node)) else None
        if given is not None and access_path(given) == donated:
            return True
    return False


def _value_of_target(binding: Binding) -> ast.expr | None:
    """The expression that an assignment gives a name, also one of several: `best, bad = state, 0`."""
    if binding.kind == "unpack" and isinstance(binding.value, ast.Tuple) and binding.index is not None:
        return binding.value.elts[binding.index] if binding.index < len(binding.value.elts) else None
    return binding.value if binding.kind == "assign" else None


def _write_message(file: FileFacts, use: Use, certainty: Certainty, where: str) -> str:
    name, function = (
        text_of_expression(file, array_of_read(use.node)),
        text_of_expression(file, use.death.call.call.func),
    )
    if use.is_repeated_call:
        raises = "raises" if certainty is Certainty.PROVEN else "may raise"
        return f"`{function}` {raises} in the next iteration: it donates `{name}`, and the loop does not reassign it."
    when = "" if certainty is Certainty.PROVEN else " if an output reuses the buffer"
    return f"Reading `{name}` raises{when}: `{function}` donated it at {where}."


def _write_advice(name: str, use: Use) -> str:
    if use.is_repeated_call:
        return f"assign the result to `{name}` in the loop, or do not donate `{name}`"
    return f"use the result of the call, copy the array before the call (`jnp.copy({name})`), or do not donate it"


def certainty_of(site: Site, file: FileFacts, use: Use) -> Certainty | None:
    """How sure it is that the read raises; None where it does not."""
    program, call = site.program, use.death.call
    if expected_to_fail(file, use.node) or expected_to_fail(file, call.call):
        return None
    if is_donation_ignored(site, use.death.argument):
        return None
    region = program.region(file, call.call)
    if region.is_proven:
        return None  # inside a trace a donation does nothing
    certainty = certainty_of_handover(program, file, call, use.death.held, use.death.argument)
    if certainty is None or _finds_no_output(site, file, use):
        return None
    array = use.death.argument.array or is_array(program, file, use.death.held)
    sure = (use.reading is Reading.DATA or (use.reading is Reading.IF_ARRAY and array)) and is_buffer_taken(
        file, call, use.death.argument, use.path_below_donated, array
    )
    if not sure or region.traced == "sometimes" or _checks_deletion(file, use.node):
        return Certainty.POSSIBLE
    return certainty


def _finds_no_output(site: Site, file: FileFacts, use: Use) -> bool:
    """Return whether no output can take the buffer. Then the array stays alive, and SL223 reports the donation."""
    name = use.death.argument.name
    if name is None or use.death.argument.taken:
        return False
    found = [
        jitted_value(unwrap_function(option), site.program.evaluator, DONATING)
        for option in options(site.program.value(file, use.death.call.call.func))
    ]
    return all(one is not None and reason_no_output_fits(site, one, name) is not None for one in found)


def _checks_deletion(file: FileFacts, node: ast.AST) -> bool:
    """Code that asks whether arrays are deleted knows what it does."""
    function = file.evaluation_scope(node).enclosing_function()
    text = file.source_text(function.node) if function is not None else file.source.text
    return "is_deleted" in text or "Deleted" in text
