"""SL210."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from typing import ClassVar

from shardlint.model.evaluator.assumed_values import Assuming
from shardlint.model.signatures import JITS, SHARDING_SETTINGS, Jitted
from shardlint.model.values import Items, Place
from shardlint.rules_api.rule import (
    Calls,
    Certainty,
    Edit,
    Finding,
    Fix,
    Harm,
    Rule,
    Safety,
    Violates,
    detector,
)
from shardlint.rules_api.site import Site
from shardlint_rules.jit._handed_specs import HelperSpecs, jits_made_from_specs
from shardlint_rules.jit._structure import container_name, do_trees_differ, is_tree, returned_values
from shardlint_rules.jit._trees import container_kind
from shardlint_rules.jit.in_shardings_entries import (
    Counts,
    calls_of_wrapped,
    count_of,
    counts_of_parameters,
    describe_function,
    format_count,
    keyword_tree,
    keyword_value,
)

_INPUTS = "pass one entry per argument, or one sharding for all arguments"
_OUTPUTS = "pass one entry per result, or one sharding for all results"


class InShardingsArity(Rule):
    """The structure of `in_shardings` or `out_shardings` differs from the arguments or results of the function.

    The call raises ValueError. A tuple as `in_shardings` has one entry per positional argument of the call. Static
    arguments have no entry. `out_shardings` has the structure of the results. A single sharding applies to all
    arguments, or to all results.

    ## Reports
    - proven: a tuple or list as `in_shardings` of `jax.jit` or `pjit`, if its length is wrong for every call, or for
      one call in the project.
    - proven: a dict as `in_shardings`.
    - proven: a tuple or list as `out_shardings`, if its length or type differs from every `return` of the function.
    - proven: specs of the wrong structure, passed to a project function that creates the jit.
    - proven: the result of `nnx.get_named_sharding` as `in_shardings` or `out_shardings` of `nnx.jit`.
    - `tree` (likely): a tree of shardings from `jax.tree.map` or flax as `in_shardings` of a function with one
      argument.

    ## Write instead
    If the only argument is a tuple or a dict, put its shardings in a tuple with one entry: `in_shardings=((a, b),)`,
    `in_shardings=({"tokens": a},)`.

    ## Fix
    Puts a dict for a function of one argument in a tuple with one entry. Safe, because every call raises. Unsafe for
    the form `tree`: a tuple that already has one entry would no longer fit.

    ## Limits
    Arguments bound by `functools.partial` or a bound method have no entry. For a function with `*args`, or defined
    outside the project, only the calls are checked. The keys of a dict of shardings are not checked.
    """

    code = "SL210"
    name = "in-shardings-arity"
    bound = True
    assumes = True
    harm = Harm.CRASH
    likely = ("tree",)
    assumptions: ClassVar[Mapping[str, str]] = {"tree": "The tree contains more than one sharding."}
    triggers = (
        Calls(*JITS, file_says=SHARDING_SETTINGS),
        Calls("jax.sharding.PartitionSpec"),
        Violates("shardings.variables", is_conditional=False),
    )
    in_version_checks = False
    fixes = "both"
    by_hand = "the code does not show which sharding belongs to which argument"

    @detector("call", of="jax.sharding.PartitionSpec")
    def find_specs_for_helper(self, site: Site) -> Iterator[Finding]:
        """Trees of specs that do not fit the function which a helper compiles with them."""
        found = (self._compare_with_helper(site, one) for one in jits_made_from_specs(site))
        yield from (one for one in found if one is not None)

    @detector("call", "partial", of=JITS)
    def compare_structures(self, site: Site) -> Iterator[Finding]:
        """The keywords, or calls that they do not fit."""
        functions = site.find_wrapped()
        if functions and self._is_written_here(site, "in_shardings"):
            yield from self._check_in_shardings(site, functions)
            yield from self._check_container(site, functions)
        if functions and self._is_written_here(site, "out_shardings"):
            yield from self._check_out_shardings(site, functions)

    def _is_written_here(self, site: Site, setting: str) -> bool:
        """True if the shardings are written here: if callers pass them, the finding is at the call."""
        keyword, view = site.keyword(setting), site.program.evaluator
        if keyword is None or not isinstance(view, Assuming):
            return keyword is not None
        written = view.strict.value(Place(site.file, keyword.value))
        return isinstance(written, Items) and not written.open

    @detector("violation")
    def report_variables(self, site: Site) -> Finding:
        """Shardings inside of Variables for `nnx.jit`."""
        parameter = site.violation.said["parameter"]
        return site.finding(
            site.syntax,
            f"This call of `nnx.jit` raises ValueError: its `{parameter}` contain Variables.",
            help="write `jax.jit` for a function that returns the state, or pass `nnx.StateSharding`",
            certainty=Certainty.PROVEN,
            why="`nnx.get_named_sharding` returns shardings in Variables, and `nnx.jit` accepts none there",
        )

    def _compare_with_helper(self, site: Site, helper_specs: HelperSpecs) -> Finding | None:
        """A tree of specs that does not fit the function which a helper compiles with it."""
        function, value = helper_specs.function, keyword_tree(site, helper_specs.function, helper_specs.setting)
        given = count_of(site, function, helper_specs.setting)
        if helper_specs.setting == "in_shardings":
            counted = counts_of_parameters(site, function)
            if (
                given is None
                or counted is None
                or counted.is_count_accepted(given)
                or counted.is_accepted_with_static(given)
            ):
                return None
            takes, has = f"takes {_describe_accepted_count(counted)}", f"has {format_count(given, 'entry')}"
        else:
            returned = returned_values(site, function.inner)
            if not is_tree(value) or not returned or not all(do_trees_differ(value, each) for each in returned):
                return None
            takes, has = f"returns {container_name(returned[0])}", f"is {container_name(value)}"
        return site.finding(
            helper_specs.node,
            f"The jit in `{helper_specs.helper}` raises ValueError: {helper_specs.setting} {has}, and "
            f"{describe_function(function)} {takes}.",
            why=f"{helper_specs.setting} has one entry per "
            f"{'argument' if helper_specs.setting == 'in_shardings' else 'result'}",
            help=_INPUTS if helper_specs.setting == "in_shardings" else _OUTPUTS,
        )

    def _check_in_shardings(self, site: Site, functions: list[Jitted]) -> Iterator[Finding]:
        keyword = site.keyword("in_shardings")
        given = count_of(site, functions[0], "in_shardings")
        if keyword is None or given is None:
            return
        found = [counts_of_parameters(site, function) for function in functions]
        wrong = [
            one
            for one in found
            if one is not None and not one.is_count_accepted(given) and not one.is_accepted_with_static(given)
        ]
        if wrong and len(wrong) == len(found):
            yield site.finding(
                keyword,
                f"Every call raises ValueError: in_shardings has {format_count(given, 'entry')}, and "
                f"{describe_function(functions[0])} takes {_describe_accepted_count(wrong[0])}.",
                why="in_shardings has one entry per positional argument",
                help=f"{_INPUTS}; if the only argument is a tuple, write `in_shardings=((...),)`",
            )
            return
        if any(one is not None and one.is_accepted_with_static(given) for one in found):
            return  # SL212 reports these
        for seen in calls_of_wrapped(site):
            if seen.file is not site.file or seen.arguments.keywords or seen.arguments.open_keywords:
                continue
            count = seen.count_positional
            static = counts_of_parameters(site, seen.function)
            if count is None or static is None:
                continue
            dynamic = sum(1 for position in range(count) if position not in static.static)
            if dynamic != given:
                yield site.finding(
                    seen.call,
                    f"This call raises ValueError: it passes {format_count(dynamic, 'argument')}, and in_shardings has "
                    f"{format_count(given, 'entry')}.",
                    why=f"in_shardings at line {keyword.value.lineno} has one entry per positional argument, "
                    "and an argument with a default counts only if the call passes it",
                    help=_INPUTS,
                )

    def _check_container(self, site: Site, functions: list[Jitted]) -> Iterator[Finding]:
        """A container that is not a tuple of arguments."""
        keyword = site.keyword("in_shardings")
        given = keyword_value(site, functions[0], "in_shardings")
        found = container_kind(site.program, given) if given is not None else None
        if keyword is None or found is None:
            return
        counted = [counts_of_parameters(site, function) for function in functions]
        one = all(c is not None and c.most == 1 for c in counted)
        if not one and not found.surely:
            return
        called = describe_function(functions[0])
        yield site.finding(
            keyword,
            f"Every call raises ValueError{'' if found.surely else ' if this is a container'}: in_shardings is not a "
            "tuple with one entry per argument.",
            label=f"{found.what}, not a tuple",
            help="put the sharding in a tuple: `in_shardings=(...,)`",
            fix=self._write_tuple(site, keyword, found.surely) if one else None,
            form="" if found.surely else "tree",
            why=f"{called} takes one argument"
            if one
            else "jax matches each entry with a positional argument",
        )

    def _write_tuple(self, site: Site, keyword: ast.keyword, surely: bool) -> Fix:
        start, end = site.file.character_span(keyword.value)
        text = site.text(keyword.value)
        short = text if "\n" not in text and len(text) < 40 else "..."
        return site.fix(
            Safety.SAFE if surely else Safety.UNSAFE,
            f"write in_shardings=({short},)",
            [Edit(start, start, "("), Edit(end, end, ",)")],
            "" if surely else "a tuple that already has one entry would no longer fit",
        )

    def _check_out_shardings(self, site: Site, functions: list[Jitted]) -> Iterator[Finding]:
        keyword = site.keyword("out_shardings")
        given = keyword_tree(site, functions[0], "out_shardings")
        if keyword is None or not is_tree(given):
            return
        returned = [returned_values(site, function.inner) for function in functions]
        if not all(found and all(do_trees_differ(given, value) for value in found) for found in returned):
            return
        first = returned[0][0]
        yield site.finding(
            keyword,
            f"Every call raises ValueError: out_shardings is {container_name(given)}, "
            f"and {describe_function(functions[0])} returns "
            f"{container_name(first)}.",
            why="out_shardings must have the structure of the results",
            help=f"pass {container_name(first)} with one sharding per result, or one sharding for all results",
            kept="the code does not show which sharding belongs to which result",
        )


def _describe_accepted_count(counts: Counts) -> str:
    if counts.most is None:
        return f"at least {format_count(counts.least, 'argument')}"
    count = format_count(counts.most, "argument")
    count = count if counts.least == counts.most else f"{counts.least} to {count}"
    return f"{count} that {'is' if counts.most == 1 else 'are'} not static" if counts.static else count
