"""SL210."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from typing import ClassVar

from shardlint.model.evaluator.assume import Assuming
from shardlint.model.reach import lookup
from shardlint.model.signatures import JITS, SHARDING_SETTINGS, Jitted, wrappings
from shardlint.model.values import Function, Items, Place, Table, Transformed, Value
from shardlint.rules_api.rule import Calls, Certainty, Edit, Finding, Fix, Harm, Rule, Safety, Violates
from shardlint.rules_api.site import Site
from shardlint_rules.jit._handed_specs import Handed, handed
from shardlint_rules.jit._keys_read import KeyRead, keys_read
from shardlint_rules.jit._structure import KEEPING, differ, is_tree, kind_of, returned_by
from shardlint_rules.jit.sharded import Counts, calls, count_of, counts, named, several, tree_of, value_of
from shardlint_rules.jit.trees import Display, container, display

_INPUTS = "give one entry per argument, or one sharding for all"
_OUTPUTS = "give one entry per result, or one sharding for all"


class InShardingsArity(Rule):
    """`in_shardings` or `out_shardings` has another structure than the arguments or results of the function.

    The call raises ValueError. A tuple has one entry per positional argument, without static ones, and with
    defaults only if they are passed; `out_shardings` has the structure of the results. A single sharding is
    for all of them.

    ## Reports
    - proven: a tuple or list for `in_shardings` of `jax.jit` or `pjit` whose length no call can have, or that
      one of its calls does not have.
    - proven: a tuple or list for `out_shardings` whose length or kind differs from every `return` of the
      function.
    - proven: what `nnx.get_named_sharding` gives, as `in_shardings` or `out_shardings` of `nnx.jit`.
    - proven: the same, if the specs are passed to a function of the project that makes the jit.
    - proven: a dict for `in_shardings`, and a dict of shardings for one argument without a key that the
      function reads.
    - `tree` (likely): a tree of shardings from `jax.tree.map` or flax, passed for a function of one argument.

    ## Write instead
    Shardings of one argument that is itself a tuple or a dict go in a tuple of one: `in_shardings=((a, b),)`,
    `in_shardings=({"tokens": a},)`.

    ## Fix
    Puts a dict for a function of one argument in a tuple of one. It is safe, because every call raised; for
    the form `tree` it is unsafe: a tuple that already has one entry would no longer fit.

    ## Limits
    Keys that only some branches read, or that unseen code may add, are not reported. Arguments that
    `functools.partial` or a bound method fills do not count. Functions with `*args` and unseen functions are
    judged by their calls alone. Keys that the function tests (`if "mask" in batch`, `batch.get`) or may add,
    and dicts that change after they are written, are not reported.
    """

    code = "SL210"
    name = "in-shardings-arity"
    bound = True
    assumes = True
    harm = Harm.CRASH
    likely = ("tree",)
    assumptions: ClassVar[Mapping[str, str]] = {"tree": "The tree holds more than one sharding."}
    triggers = (
        Calls(*JITS, file_says=SHARDING_SETTINGS),
        Calls("jax.sharding.PartitionSpec"),
        Violates("shardings.variables"),
    )
    in_version_checks = False
    fixes = "both"
    by_hand = "the code does not show which sharding belongs to which argument"

    def check(self, site: Site) -> Iterator[Finding]:
        """Findings at the keywords, or at calls that they do not fit."""
        if site.form == "violation":
            yield self._report_variables(site)
            return
        if site.api == "jax.sharding.PartitionSpec":
            for one in handed(site) if site.form == "call" else ():
                yield from self._handed(site, one)
            return
        functions = list(wrappings(site.program, site.file, site.call, site.form))
        if functions and self._written_here(site, "in_shardings"):
            yield from self._inputs(site, functions)
            yield from self._container(site, functions)
            yield from self._keys(site, functions)
        if functions and self._written_here(site, "out_shardings"):
            yield from self._outputs(site, functions)

    def _written_here(self, site: Site, setting: str) -> bool:
        """True if the shardings are written here: if callers pass them, the finding is at the call."""
        keyword, view = site.keyword(setting), site.program.evaluator
        if keyword is None or not isinstance(view, Assuming):
            return keyword is not None
        written = view.strict.value(Place(site.file, keyword.value))
        return isinstance(written, Items) and not written.open

    def _report_variables(self, site: Site) -> Finding:
        parameter = site.violation.said["parameter"]
        return site.finding(
            site.syntax,
            f"This call of `nnx.jit` raises ValueError: its `{parameter}` contain Variables.",
            help="use jax.jit on a function that returns the state, or nnx.StateSharding",
            certainty=Certainty.PROVEN,
            why="`nnx.get_named_sharding` gives the shardings inside of Variables, which `nnx.jit` does not take",
        )

    def _handed(self, site: Site, one: Handed) -> Iterator[Finding]:
        """A tree of specs that does not fit the function which a helper compiles with it."""
        function, value = one.function, tree_of(site, one.function, one.setting)
        given = count_of(site, function, one.setting)
        if one.setting == "in_shardings":
            counted = counts(site, function)
            if given is None or counted is None or counted.fits(given) or counted.with_static(given):
                return
            takes, has = f"takes {_takes(counted)}", several(given, "entry")
        else:
            returned = returned_by(site, function.inner)
            if not is_tree(value) or not returned or not all(differ(value, each) for each in returned):
                return
            takes, has = f"returns {kind_of(returned[0])}", kind_of(value)
        yield site.finding(
            one.node,
            f"Every call of the jit in `{one.helper}` raises ValueError: {has}, and {named(function)} {takes}.",
            why=f"{one.setting} has one entry per {'argument' if one.setting == 'in_shardings' else 'result'}",
            help=_INPUTS if one.setting == "in_shardings" else _OUTPUTS,
        )

    def _inputs(self, site: Site, functions: list[Jitted]) -> Iterator[Finding]:
        keyword = site.keyword("in_shardings")
        given = count_of(site, functions[0], "in_shardings")
        if keyword is None or given is None:
            return
        found = [counts(site, function) for function in functions]
        wrong = [
            one for one in found if one is not None and not one.fits(given) and not one.with_static(given)
        ]
        if wrong and len(wrong) == len(found):
            yield site.finding(
                keyword,
                f"Every call raises ValueError: {several(given, 'entry')}, and {named(functions[0])} takes "
                f"{_takes(wrong[0])}.",
                why="in_shardings has one entry per positional argument",
                help=f"{_INPUTS}; for one argument that is a tuple write in_shardings=((...),)",
            )
            return
        if any(one is not None and one.with_static(given) for one in found):
            return  # SL212 reports these
        for seen in calls(site):
            if seen.file is not site.file or seen.arguments.keywords or seen.arguments.open_keywords:
                continue
            count = seen.count
            static = counts(site, seen.function)
            if count is None or static is None:
                continue
            dynamic = sum(1 for position in range(count) if position not in static.static)
            if dynamic != given:
                yield site.finding(
                    seen.call,
                    f"This call raises ValueError: {several(dynamic, 'argument')}, and in_shardings has "
                    f"{several(given, 'entry')}.",
                    why=f"in_shardings at line {keyword.value.lineno} has one entry per positional argument, "
                    "and a default counts only if it is passed",
                    help=_INPUTS,
                )

    def _container(self, site: Site, functions: list[Jitted]) -> Iterator[Finding]:
        """A container that is not a tuple of arguments."""
        keyword = site.keyword("in_shardings")
        given = value_of(site, functions[0], "in_shardings")
        found = container(site.program, given) if given is not None else None
        if keyword is None or found is None:
            return
        counted = [counts(site, function) for function in functions]
        one = all(c is not None and c.most == 1 for c in counted)
        if not one and not found.surely:
            return
        called = named(functions[0])
        yield site.finding(
            keyword,
            f"Every call raises ValueError{'' if found.surely else ' if this is a container'}: in_shardings is no "
            "tuple with one entry per argument.",
            label=f"{found.what}, no tuple",
            help="put it in a tuple: in_shardings=(...,)",
            fix=self._wrapped(site, keyword, found.surely) if one else None,
            certainty=Certainty.PROVEN if found.surely else Certainty.POSSIBLE,
            form="" if found.surely else "tree",
            why=f"{called} takes one argument"
            if one
            else "jax matches the entries with positional arguments",
        )

    def _wrapped(self, site: Site, keyword: ast.keyword, surely: bool) -> Fix:
        start, end = site.file.span(keyword.value)
        text = site.text(keyword.value)
        short = text if "\n" not in text and len(text) < 40 else "..."
        return site.fix(
            Safety.SAFE if surely else Safety.UNSAFE,
            f"write in_shardings=({short},)",
            [Edit(start, start, "("), Edit(end, end, ",)")],
            "" if surely else "a tree that already is a tuple of one would no longer fit",
        )

    def _keys(self, site: Site, functions: list[Jitted]) -> Iterator[Finding]:
        """Dicts of shardings that lack a key the function reads."""
        keyword = site.keyword("in_shardings")
        if keyword is None or len(functions) != 1:
            return
        function, definition = functions[0], _definition(functions[0].inner)
        counted = counts(site, function)
        if definition is None or counted is None or function.parameters is None:
            return
        names = [n for i, n in enumerate(function.parameters.positional) if i not in counted.static]
        for name, entry in zip(names, _entries(site, keyword.value), strict=False):
            shown = display(site.program, entry)
            if shown is None:
                continue
            reads = keys_read(site.program, definition, name)
            missing = [read for read in reads if _lacks(shown.table, read.keys)]
            if missing:
                yield self._lacking(site, entry, shown, missing, name, named(function))

    def _lacking(
        self, site: Site, entry: Place, shown: Display, missing: list[KeyRead], name: str, called: str
    ) -> Finding:
        first = missing[0]
        read = name + "".join(f'["{key}"]' for key in first.keys)
        others = sorted({one.keys[-1] for one in missing} - {first.keys[-1]})
        more = f" (and {', '.join(others)})" if others else ""
        where = f"line {first.place.line}"
        if first.place.file is not site.file:
            where = f"{first.place.file.path.name}:{first.place.line}"
        return site.finding(
            shown.place.node if shown.place.file is site.file else entry.node,
            f"Every call raises ValueError: shardings of `{name}` lack key {first.keys[-1]!r}, which {called} reads.",
            why=f"{where} reads {read}{more}; a dict of shardings has the keys of its argument",
            help="give every key its sharding, or one sharding for the argument",
        )

    def _outputs(self, site: Site, functions: list[Jitted]) -> Iterator[Finding]:
        keyword = site.keyword("out_shardings")
        given = tree_of(site, functions[0], "out_shardings")
        if keyword is None or not is_tree(given):
            return
        returned = [returned_by(site, function.inner) for function in functions]
        if not all(found and all(differ(given, value) for value in found) for found in returned):
            return
        first = returned[0][0]
        yield site.finding(
            keyword,
            f"Every call raises ValueError: out_shardings is {kind_of(given)}, and {named(functions[0])} returns "
            f"{kind_of(first)}.",
            why="out_shardings has the structure of the results",
            help=_OUTPUTS,
        )


def _takes(found: Counts) -> str:
    if found.most is None:
        return f"at least {several(found.least, 'argument')}"
    count = several(found.most, "argument")
    count = count if found.least == found.most else f"{found.least} to {count}"
    return f"{count} that {'is' if found.most == 1 else 'are'} not static" if found.static else count


def _entries(site: Site, node: ast.expr) -> list[Place]:
    """The expressions for the arguments, in order, as far as they are written out."""
    while isinstance(node, ast.Name):
        bindings, _ = lookup(site.file, node, node.id)
        if len(bindings) != 1 or bindings[0].kind != "assign" or bindings[0].value is None:
            return []
        node = bindings[0].value
    if not isinstance(node, ast.Tuple | ast.List) or any(isinstance(one, ast.Starred) for one in node.elts):
        return []
    return [Place(site.file, one) for one in node.elts]


def _definition(function: Value) -> Function | None:
    """The definition a jit runs, through partial and transforms that keep the arguments."""
    while isinstance(function, Transformed) and function.api.name in KEEPING:
        function = function.inner
    return function if isinstance(function, Function) else None


def _lacks(table: Table, keys: tuple[str, ...]) -> bool:
    inside = table.get(keys[0])
    if inside is None:
        return True
    return isinstance(inside, Table) and not inside.open and len(keys) > 1 and _lacks(inside, keys[1:])
