"""SL220."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import replace

from shardlint.model.guards import expected_to_fail
from shardlint.model.lifetime.buffers import Use, path_of
from shardlint.model.lifetime.donation import DONATING
from shardlint.model.lifetime.reads import Reading, read_object
from shardlint.model.signatures import jitted
from shardlint.model.values import options
from shardlint.rules_api.rule import Calls, Certainty, Finding, Harm, Rule
from shardlint.rules_api.site import Site
from shardlint.syntax import Binding, FileFacts
from shardlint.syntax.nodes import walk
from shardlint_rules.jit._kept import Kept, kept
from shardlint_rules.jit._spare import fills_another
from shardlint_rules.jit.donated import (
    asked,
    donation_of,
    handed_over,
    ignored,
    is_array,
    looks_alike,
    name_of,
    place,
    stories,
    taken,
    written,
)
from shardlint_rules.jit.no_output import unwrapped, why_none


class UseAfterDonate(Rule):
    """An array is read after it was donated.

    ## What it does
    Reports reads of a name (or attribute, or alias) whose buffer was given as a donated argument to a function of
    `jax.jit`, `pjit`, `pmap` or `eqx.filter_jit` before, and was not bound anew since; also the donating call itself
    where a loop runs it again with the same arrays. Also attributes that keep what another method donates: after
    `self.best = self.params`, the next `self.params = self._step(self.params)` deletes the array under both names.

    ## Why it hurts
    A donated buffer becomes the memory of an output, and the array that held it is deleted by the call. Reading it
    raises `RuntimeError: Array has been deleted`.

    ## Use instead
    `before = state` and `jnp.asarray(state)` are the same buffer; `jnp.copy` and `state.copy()` are others. Or do not
    donate the argument.

    ## Evidence
    Run on jax 0.4.38 to 0.12, CPU too. The array is deleted only if an
    output can take its buffer (same shape, type and sharding), so a finding is certain only where the text shows one:
    the function returns an update of the argument (`params - rate * grads`, `state.replace(...)`, `jax.tree.map` over
    it), or of another one that is like it (`step(params, reference)` with `reference` a copy of `params`), or the
    result is bound to a name that says so (`new_state = step(state)`). What a loop donates and gives again without
    binding it anew is likely, and so is what a call to warm up donates before `state = step(state)` gives it again;
    everything else possible. Left alone: `.shape`, `.dtype`, `.sharding`, `len`, `is_deleted`, `zeros_like`, which a
    deleted array still answers; numpy arrays and functions; arguments given to pmap by keyword, which it does not
    donate; `nnx.jit`, which updates its modules in place; a donation inside traced code, which does nothing. Where an
    argument is copied first because the function wants another sharding, or other arguments lie on other devices, the
    copy is donated: possible too. Where no output can take the buffer nothing is deleted: SL223.
    """

    code = "SL220"
    name = "use-after-donate"
    bound = True
    harm = Harm.CRASH
    likely = ("given-again", "given-twice", "kept-in-loop")
    triggers = (Calls(*DONATING, file_says=("donate",)),)

    def check(self, site: Site) -> Iterator[Finding]:
        """Findings at the reads in this file; at the wrapper for those in other files."""
        for file, story in stories(site):
            uses = [use for use in story.uses if use.death.call.by.node is site.call]
            for use, certainty in _most_certain(site, file, uses):
                yield from (
                    self._here(site, use, certainty)
                    if file is site.file
                    else self._elsewhere(site, file, use, certainty)
                )

        if site.scope.kind == "class" or site.scope.function() is not None:
            for one in kept(site):
                yield self._kept(site, one)

    def _kept(self, site: Site, one: Kept) -> Finding:
        text, line = site.text(one.node), one.call.call.lineno
        return site.finding(
            one.node,
            f"On {site.release('jax')} reading `{one.name}` (line {one.read.lineno}) raises after that: "
            f"{name_of(one.call.api)} gave its memory to an output, and the array is deleted.",
            label=f"`{one.name}` is the same buffer, which the call at line {line} donates the next time",
            help=f"keep a copy: jax.tree.map(jnp.copy, {text})",
            certainty=Certainty.PROVEN if one.surely else Certainty.POSSIBLE,
            form="" if one.surely else "kept",
        )

    def _here(self, site: Site, use: Use, certainty: Certainty) -> Iterator[Finding]:
        call = use.death.call
        if use.again and _others_are_rebound(site.file, use):
            yield self._meant_another(site, use, certainty)
            return
        name = written(site.file, read_object(use.node))
        donated = written(site.file, use.death.argument.node)
        line = f"line {call.call.lineno}"
        if use.again:
            label = f"donated by this call, and given to it again in the next turn of the loop: `{name}` is not rebound"
        else:
            same = f"`{name}`" if name == donated else f"`{name}` is (part of) `{donated}`, which"
            label = f"{same} was donated to `{written(site.file, call.call.func)}` at {line}"
        yield site.finding(
            use.node,
            _message(site, use, certainty),
            label=label,
            help=_advice(name, use),
            certainty=certainty,
            form=_form(site.file, use, certainty),
            why=_why(site.file, use, certainty),
        )

    def _meant_another(self, site: Site, use: Use, certainty: Certainty) -> Finding:
        """Where a loop binds anew all else that it donates, it is the donation of this one that is not meant."""
        name, line = written(site.file, read_object(use.node)), use.death.call.call.lineno
        return site.finding(
            donation_of(asked(site), use.death.argument.name, use.death.argument.position),
            _message(site, use, certainty),
            label=f"donates `{name}`, which the loop gives again and does not bind anew (line {line})",
            help=f"do not donate it: the call at line {line} returns no new `{name}`",
            certainty=certainty,
            form=_form(site.file, use, certainty),
            why=_why(site.file, use, certainty),
        )

    def _elsewhere(self, site: Site, file: FileFacts, use: Use, certainty: Certainty) -> Iterator[Finding]:
        name = written(file, read_object(use.node))
        yield site.finding(
            asked(site),
            _message(site, use, certainty),
            label=(
                f"`{name}` is donated at {place(site, file, use.node)}, and given again in the next turn of the loop"
                if use.again
                else f"`{name}` is read at {place(site, file, use.node)}, after the call at line "
                f"{use.death.call.call.lineno} donated it"
            ),
            help=_advice(name, use),
            certainty=certainty,
            form=_form(file, use, certainty),
            why=_why(file, use, certainty),
        )


def _most_certain(site: Site, file: FileFacts, uses: list[Use]) -> Iterator[tuple[Use, Certainty]]:
    """One use for each read that raises, of several turns of a loop the surest."""
    found: dict[ast.expr, tuple[Use, Certainty]] = {}
    for use in uses:
        certainty = certainty_of(site, file, use)
        if certainty is None or (use.again and _refilled(file, use)):
            continue
        known = found.get(use.node)
        if known is None or (certainty is Certainty.PROVEN and known[1] is not Certainty.PROVEN):
            found[use.node] = use, certainty
    yield from found.values()


def _others_are_rebound(file: FileFacts, use: Use) -> bool:
    """Whether the call's result is bound to other arguments that it donates, and to nothing like this one."""
    call, argument = use.death.call, use.death.argument
    others = [one for one in call.donated if one is not argument]
    if looks_alike(file, call, argument):
        return False
    return any(looks_alike(file, call, one) for one in others)


def _refilled(file: FileFacts, use: Use) -> bool:
    """Whether a dictionary that is given again takes new arrays in the loop: `cache.update(outputs)`."""
    loop = next((one for one in file.ancestors(use.node) if isinstance(one, ast.For | ast.While)), None)
    given = written(file, read_object(use.node))
    return loop is not None and any(
        isinstance(one, ast.Call)
        and isinstance(one.func, ast.Attribute)
        and one.func.attr == "update"
        and written(file, one.func.value) == given
        for one in walk(loop)
    )


def _form(file: FileFacts, use: Use, certainty: Certainty) -> str:
    if certainty is Certainty.PROVEN:
        return ""
    if use.again:
        return "given-again"
    if _given_twice(file, use):
        return "given-twice"
    return "kept-in-loop" if _kept_in_loop(file, use) else "maybe-read"


def _why(file: FileFacts, use: Use, certainty: Certainty) -> str:
    form = _form(file, use, certainty)
    name = written(file, read_object(use.node))
    if form == "given-twice":
        return (
            f"the same function gets it again here, and its result is bound to `{name}`: an output is like it"
        )
    if form != "kept-in-loop":
        return ""
    return (
        f"the loop keeps `{name}`, and its next turn donates that buffer; it lives if the last turn kept it"
    )


def _given_twice(file: FileFacts, use: Use) -> bool:
    """Whether the read gives the array to the function that took it before, whose result is its next value.

    A call to warm up, or for the first step: `step(state, batch)` and then `state = step(state, batch)` in the loop.
    """
    call = file.parent(use.node)
    call = file.parent(call) if isinstance(call, ast.keyword) else call
    if not isinstance(call, ast.Call) or call.func is use.node:
        return False
    first = use.death.call
    if call is first.call or file.text(call.func) != file.text(first.call.func):
        return False
    return looks_alike(file, replace(first, call=call), replace(use.death.argument, node=use.node))


def _kept_in_loop(file: FileFacts, use: Use) -> bool:
    """Whether the loop that donates it keeps it under the name that is read: `best = state`, for the next turn."""
    name, donated = path_of(use.node), path_of(use.death.argument.node)
    if name is None or donated is None or name[0] == donated[0]:
        return False
    loops = {one for one in file.ancestors(use.death.call.call) if isinstance(one, ast.For | ast.While)}
    for binding in file.bindings(file.home(use.node), name[0]):
        given = _part(binding) if loops.intersection(file.ancestors(binding.node)) else None
        if given is not None and path_of(given) == donated:
            return True
    return False


def _part(binding: Binding) -> ast.expr | None:
    """The expression that an assignment gives a name, also one of several: `best, bad = state, 0`."""
    if binding.kind == "unpack" and isinstance(binding.value, ast.Tuple) and binding.index is not None:
        return binding.value.elts[binding.index] if binding.index < len(binding.value.elts) else None
    return binding.value if binding.kind == "assign" else None


def _message(site: Site, use: Use, certainty: Certainty) -> str:
    api = name_of(use.death.call.api)
    if certainty is not Certainty.PROVEN:
        return (
            f"On {site.release('jax')} this raises if an output of {api} took the donated buffer, which deletes the "
            "array; where none can, the donation only warns."
        )
    return (
        f"On {site.release('jax')} this raises: {api} gave its memory to an output, and the array is deleted."
    )


def _advice(name: str, use: Use) -> str:
    if use.again:
        return f"bind the result to `{name}` in the loop, or do not donate it"
    return (
        f"use what the call returned; or keep a copy from before it (jnp.copy({name})), or do not donate it"
    )


def certainty_of(site: Site, file: FileFacts, use: Use) -> Certainty | None:
    """How sure it is that the read raises; None where it does not."""
    program, call = site.program, use.death.call
    if expected_to_fail(file, use.node) or expected_to_fail(file, call.call):
        return None
    if ignored(site, use.death.argument):
        return None
    region = program.region(file, call.call)
    if region.proven:
        return None  # inside a trace a donation does nothing
    certainty = handed_over(program, file, call, use.death.held, use.death.argument)
    if certainty is None or _finds_no_output(site, file, use):
        return None
    array = use.death.argument.array or is_array(program, file, use.death.held)
    sure = (use.reading is Reading.DATA or (use.reading is Reading.IF_ARRAY and array)) and taken(
        file, call, use.death.argument, use.below, array
    )
    sure = sure or (use.again and fills_another(program, file, call, use.death.argument))
    if not sure or region.traced == "sometimes" or _tests_it(file, use.node):
        return Certainty.POSSIBLE
    return certainty


def _finds_no_output(site: Site, file: FileFacts, use: Use) -> bool:
    """Whether no output can take the buffer: then the array lives on, and SL223 speaks of the donation."""
    name = use.death.argument.name
    if name is None or use.death.argument.taken:
        return False
    found = [
        jitted(unwrapped(option), site.program.evaluator, DONATING)
        for option in options(site.program.value(file, use.death.call.call.func))
    ]
    return all(one is not None and why_none(site, one, name) is not None for one in found)


def _tests_it(file: FileFacts, node: ast.AST) -> bool:
    """Code that asks whether arrays are deleted knows what it does."""
    function = file.home(node).function()
    text = file.text(function.node) if function is not None else file.source.text
    return "is_deleted" in text or "Deleted" in text
