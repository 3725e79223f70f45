"""SL221."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from shardlint.facts.lifetime.buffers import Twice
from shardlint.facts.lifetime.donation import DONATING
from shardlint.rules_api.rule import (
    Calls,
    Certainty,
    Finding,
    Fix,
    Harm,
    Rule,
    Safety,
    Violates,
    detector,
)
from shardlint.rules_api.site import Site
from shardlint.syntax import FileFacts
from shardlint.syntax.guards import expected_to_fail
from shardlint_rules.jit._arrays_kept_by_init import INITS, find_arrays_shared_by_init
from shardlint_rules.jit._duplicated_values import (
    DUPLICATES,
    call_donating_duplicate,
    duplicated_keywords,
)
from shardlint_rules.jit.donations import (
    certainty_of_handover,
    describe_place,
    donation_keyword,
    is_array,
    is_buffer_taken,
    is_donation_ignored,
    stories_of_donations,
    text_of_expression,
    wrapper_name,
)


class DonatedTwice(Rule):
    """A donated buffer is passed twice to the same call.

    XLA raises INVALID_ARGUMENT: `Attempt to donate the same buffer twice`, or
    `Attempt to use a buffer that was previously donated in the same call`. On jax 0.10.2 the process crashes if the
    array is sharded. One buffer cannot become two outputs. It also cannot become an output while another argument still
    reads it.

    ## Reports
    - proven: a call of a `jax.jit`, `pjit`, `pmap` or `eqx.filter_jit` function that passes one buffer twice and
      donates it at least once: `step(x, x)`. Aliases count: `step(params, ema)` after `ema = params`,
      `step(x, jnp.asarray(x))`, tied leaves (`{"embed": w, "head": w}`).
    - proven: a donated object with one value in two fields (`State(params=params, average=params)`), also if a helper
      creates it.
    - possible: a call that passes one buffer twice, if jax may copy an argument first, or if it is not known that an
      output fits the buffer.
    - `aliased-in-init` (likely): an optimizer `init` whose state holds the parameters without a copy, or the random key
      of the enclosing function. A step that donates the parameters and this state raises. A step that donates a state
      with the key deletes the key.

    ## Write instead
    Write `jnp.copy(x)`, or `jax.tree.map(jnp.copy, params)` for a tree. `jnp.asarray` and `device_put` may return the
    same buffer.

    ## Fix
    Writes `jnp.copy(x)` for the second argument, if that argument is certainly an array. Unsafe: the copy needs memory.

    ## Limits
    Not reported: numpy arrays, buffers that no output can reuse, and unused arguments.
    """

    code = "SL221"
    name = "donated-twice"
    bound = True
    harm = Harm.CRASH
    likely = ("aliased-in-init",)
    triggers = (
        Calls(*DONATING, file_says=("donate",)),
        *DUPLICATES,
        Violates("donation.twice"),
        INITS,
    )
    fixes = "unsafe"

    @detector("violation")
    def report_twice(self, site: Site) -> Finding:
        """A call that donates one array in two arguments."""
        return site.report_violation(
            "The call raises: it donates {first} and {second}, and both contain the same arrays.",
            help="copy one of them when you create the object: `jax.tree.map(jnp.copy, tree)`",
            words=site.violation.quoted_details,
        )

    @detector("call", "partial")
    def find_twice(self, site: Site) -> Iterator[Finding]:
        """Findings at the second place of a buffer in a call; at the wrapper for calls in other files."""
        for file, story in stories_of_donations(site):
            for twice in story.twice:
                certainty = _find_certainty(site, file, twice) if twice.call.by.node is site.call else None
                if certainty is None:
                    continue
                here = file is site.file
                first, second = (text_of_expression(file, node) for node in twice.nodes)
                same = f"`{second}` is passed twice" if first == second else f"`{second}` is the buffer of `{first}`"
                if twice.nodes[0] is twice.nodes[1]:
                    same = f"`{second}` contains one buffer twice"
                where = "" if here else f"; the call is at {describe_place(site, file, twice.nodes[1])}"
                yield site.finding(
                    twice.nodes[1] if here else donation_keyword(site),
                    f"The call raises: {same}, and {_explain_reason(twice)}.",
                    why=f"no other argument of the same call may contain a donated buffer{where}",
                    help=f"copy one of them: `jnp.copy({second})`, or `jax.tree.map(jnp.copy, {second})` for a tree",
                    fix=_write_fix(site, twice) if here and certainty is Certainty.PROVEN else None,
                    certainty=certainty,
                )

    @detector("line", finds="aliased-in-init")
    def find_kept_by_init(self, site: Site) -> Iterator[Finding]:
        """The state of an optimizer that holds an array of somebody else."""
        for kept in find_arrays_shared_by_init(site):
            params = kept.of == "the caller"
            raises = (
                f"A step that donates the parameters and this state raises: both contain `{kept.name}`."
                if params
                else f"A step that donates this state deletes `{kept.name}`: the next state has a deleted array."
            )
            yield site.finding(
                kept.node,
                raises,
                help=f"copy the array: `jax.tree.map(jnp.copy, {kept.name})`"
                if params
                else f"copy the array: `jnp.copy({kept.name})`",
                why=f"the state contains `{kept.name}` of {kept.of}, not a copy; training steps donate the state",
            )

    @detector("keyword")
    def compare_fields(self, site: Site) -> Iterator[Finding]:
        """One value for two fields of an object that is donated."""
        for own, other in duplicated_keywords(site):
            found = call_donating_duplicate(site, own.arg or "")
            if found is None:
                continue
            file, call = found
            value = text_of_expression(site.file, own.value)
            yield site.finding(
                own,
                f"The call at {describe_place(site, file, call.call)} raises: `{own.arg}` and `{other.arg}` "
                f"share one buffer.",
                why=f"{wrapper_name(call.api)} donates the object, and a buffer can become only one output",
                help=f"copy the array: `{own.arg}=jax.tree.map(jnp.copy, {value})`",
            )


def _explain_reason(twice: Twice) -> str:
    api = wrapper_name(twice.call.api)
    if twice.other.donated:
        return f"`{api}` donates both"
    return f"`{api}` donates one and reads the other"


def _find_certainty(site: Site, file: FileFacts, twice: Twice) -> Certainty | None:
    program, call = site.program, twice.call
    if expected_to_fail(file, call.call) or twice.other.used is False or twice.donor.used is False:
        return None
    if is_donation_ignored(site, twice.donor, twice.other):
        return None
    region = program.region(file, call.call)
    if region.is_proven:
        return None
    certainty = certainty_of_handover(program, file, call, twice.held, twice.donor, twice.other)
    array = is_array(program, file, twice.held)
    below = () if array else twice.held[1]
    donors = [twice.donor, twice.other] if twice.other.donated else [twice.donor]
    sure = any(is_buffer_taken(file, call, donor, below, array) and donor.used for donor in donors)
    if certainty is not None and (not sure or not twice.other.used or region.traced == "sometimes"):
        return Certainty.POSSIBLE
    return certainty


def _write_fix(site: Site, twice: Twice) -> Fix | None:
    node = twice.nodes[1]
    whole = any(argument.node is node for argument in (twice.donor, twice.other))
    if twice.nodes[0] is node or not whole or not isinstance(node, ast.Name | ast.Attribute):
        return None
    if not is_array(site.program, site.file, twice.held):
        return None
    spelling, imports = site.spell("jax.numpy.copy")
    text = f"{spelling}({site.text(node)})"
    return site.fix(
        Safety.UNSAFE,
        f"write: {text}",
        [site.replace(node, text), *imports],
        "the copy needs memory",
    )
