"""SL220."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from shardlint.facts import FileFacts
from shardlint.program.buffers import Use
from shardlint.program.donation import DONATING
from shardlint.program.guards import expected_to_fail
from shardlint.program.reads import Reading, read_object
from shardlint.rule import Calls, Certainty, Finding, Harm, Rule
from shardlint.site import Site
from shardlint_rules.jit.donated import (
    asked,
    handed_over,
    ignored,
    is_array,
    name_of,
    place,
    stories,
    taken,
    written,
)


class UseAfterDonate(Rule):
    """An array is read after it was donated.

    ## What it does
    Reports reads of a name (or attribute, or alias) whose buffer was given as a donated argument to a function of
    `jax.jit`, `pjit`, `pmap` or `eqx.filter_jit` before, and was not bound anew since; also the donating call itself
    where a loop runs it again with the same arrays.

    ## Why it hurts
    A donated buffer becomes the memory of an output, and the array that held it is deleted by the call. Reading it
    raises `RuntimeError: Array has been deleted`.

    ## Example
    ```python
    step = jax.jit(lambda state: state * 0.9, donate_argnums=0)
    new_state = step(state)
    change = jnp.abs(new_state - state).sum()
    ```

    ## Use instead
    ```python
    step = jax.jit(lambda state: state * 0.9, donate_argnums=0)
    before = jnp.copy(state)
    state = step(state)
    change = jnp.abs(state - before).sum()
    ```
    `before = state` and `jnp.asarray(state)` are the same buffer; `jnp.copy` and `state.copy()` are others. Or do not
    donate the argument.

    ## Evidence
    Rows A6a, A6b, A6c2 and D7 of the experiments, on jax 0.4.38 to 0.12, CPU too. The array is deleted only if an
    output can take its buffer (same shape, type and sharding), so a finding is certain only where the text shows one:
    the function returns an update of the argument (`params - rate * grads`, `state.replace(...)`, `jax.tree.map` over
    it), or the result is bound to a name that says so (`new_state = step(state)`). Everything else is likely. Left
    alone: `.shape`, `.dtype`, `.sharding`, `len`, `is_deleted`, `zeros_like`, which a deleted array still answers;
    numpy arrays; arguments given to pmap by keyword, which it does not donate; `nnx.jit`, which updates its modules in
    place; a donation inside traced code, which does nothing. Where an argument is copied first because the function
    wants another sharding, or other arguments lie on other devices, the copy is donated: likely too.
    """

    code = "SL220"
    name = "use-after-donate"
    harm = Harm.CRASH
    wakes = (Calls(*DONATING, near=("donate",)),)

    def check(self, site: Site) -> Iterator[Finding]:
        """Findings at the reads in this file; at the wrapper for those in other files."""
        for file, story in stories(site):
            for use in story.uses:
                if use.death.call.by.node is site.call:
                    yield from (
                        self._here(site, use) if file is site.file else self._elsewhere(site, file, use)
                    )

    def _here(self, site: Site, use: Use) -> Iterator[Finding]:
        certainty = certainty_of(site, site.file, use)
        if certainty is None:
            return
        call = use.death.call
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
            label,
            _message(site, use),
            help=_advice(name, use),
            certainty=certainty,
        )

    def _elsewhere(self, site: Site, file: FileFacts, use: Use) -> Iterator[Finding]:
        certainty = certainty_of(site, file, use)
        if certainty is None:
            return
        name = written(file, read_object(use.node))
        yield site.finding(
            asked(site),
            f"`{name}` is read at {place(site, file, use.node)}, after the call at line "
            f"{use.death.call.call.lineno} donated it",
            _message(site, use),
            help=_advice(name, use),
            certainty=certainty,
        )


def _message(site: Site, use: Use) -> str:
    api = name_of(use.death.call.api)
    return f"On {site.on('jax')} this raises: {api} gave its memory to an output, and the array is deleted."


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
    if certainty is None:
        return None
    array = use.death.argument.array or is_array(program, file, use.death.held)
    sure = (use.reading is Reading.DATA or (use.reading is Reading.IF_ARRAY and array)) and taken(
        file, call, use.death.argument, use.below, array
    )
    if not sure or region.traced == "sometimes" or _tests_it(file, use.node):
        return Certainty.LIKELY
    return certainty


def _tests_it(file: FileFacts, node: ast.AST) -> bool:
    """Code that asks whether arrays are deleted knows what it does."""
    function = file.home(node).function()
    text = file.text(function.node) if function is not None else file.source.text
    return "is_deleted" in text or "Deleted" in text
