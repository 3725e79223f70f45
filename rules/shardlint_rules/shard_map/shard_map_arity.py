"""SL405."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from typing import ClassVar

from shardlint.model.manual.mapped import Mapped, mapped
from shardlint.model.signatures import Parameters, parameters_of
from shardlint.model.values import Function, Items, Transformed, Value
from shardlint.rules_api.mapping import BY_JAX
from shardlint.rules_api.rule import Finding, Harm, Rule, Violates
from shardlint.rules_api.site import Site
from shardlint_rules.shard_map._keys import keys_not_told
from shardlint_rules.shard_map._seen import Seen, seen_calls
from shardlint_rules.shard_map.runs import mapping_call

_ONE_ENTRY = "a tuple of in_specs has one entry for each argument"
_ONE_FOR_EACH = "pass one spec for each {0}, or a single spec for all"


class ShardMapArity(Rule):
    """The specs of a `shard_map` do not match the arguments or results of the function.

    The call raises ValueError after everything else was set up.

    ## Reports
    - proven: a tuple of `in_specs` with another number of entries than the function has parameters (bound self,
      `partial` and defaults counted), or than a call passes.
    - proven: a dict of specs without a key that the function reads of that argument.
    - proven: `out_specs` with another length, or with other keys, than the function returns or a call unpacks.
    - `on-a-way` (likely): the same on a branch that may not run, or with an option at its default.

    ## Limits
    One spec for all arguments or results is legal. Functions with `*args` are not reported.
    """

    code = "SL405"
    name = "shard-map-arity"
    harm = Harm.CRASH
    likely = ("on-a-way",)
    assumptions: ClassVar[Mapping[str, str]] = {"on-a-way": "The branch runs, and options keep their defaults."}
    assumes = True
    blames_calls = True
    triggers = (*BY_JAX, Violates("specs.results"))
    fixes = "none"
    by_hand = "the code does not show which spec belongs to which value"

    def check(self, site: Site) -> Iterator[Finding]:
        """One finding for in_specs, one for out_specs."""
        if site.form == "violation":
            yield self._report_results(site)
            return
        found = mapping_call(site)
        if found is None:
            return
        done = False
        for one in mapped(site.program, site.file, *found):
            if one.api == "jax.shard_map":
                wrong = [*self._inputs(site, one)]
                done = done or bool(wrong)
                yield from wrong
        if not done and site.api == "jax.shard_map":
            yield from self._calls(site)

    def _calls(self, site: Site) -> Iterator[Finding]:
        """The calls of the mapped function, whether its definition is in sight or not."""
        settings = {one.arg: one.value for one in site.call.keywords}
        if None in settings or not {"in_specs", "out_specs"} & settings.keys():
            return
        specs = {name: site.value(settings[name]) for name in ("in_specs", "out_specs") if name in settings}
        for seen in seen_calls(site, site.call):
            # What another call of the function around the site made has specs of its own.
            passed = {name: seen.setting(site.program, name) for name in specs}
            mine = {
                name: given
                for name, given in specs.items()
                if passed[name] == given or (passed[name] is None and not site.assuming)
            }
            if "in_specs" in mine:
                yield from self._given(site, seen, mine["in_specs"])
            if "out_specs" in mine:
                yield from self._taken(site, seen, mine["out_specs"], settings["out_specs"])

    def _given(self, site: Site, seen: Seen, specs: Value) -> Iterator[Finding]:
        if not isinstance(specs, Items) or specs.open or specs.kind != "tuple" or seen.count is None:
            return
        if seen.count != len(specs.items):
            here = seen.file is site.file
            yield site.finding(
                seen.call if here else site.call,
                f"The call of the mapped function raises ValueError: {_several(seen.count, 'argument')}, but "
                f"{_several(len(specs.items), 'in spec')}.",
                help=_ONE_FOR_EACH.format("argument"),
                why=_ONE_ENTRY
                if here
                else f"{_ONE_ENTRY}; {seen.file.path.name}:{seen.call.lineno} calls it",
            )

    def _taken(self, site: Site, seen: Seen, specs: Value, node: ast.expr) -> Iterator[Finding]:
        target = seen.unpacked
        if target is None:
            return
        count = len(target.elts)
        if isinstance(specs, Items) and not specs.open and specs.kind in ("tuple", "list"):
            if len(specs.items) != count:
                yield site.finding(
                    node,
                    f"The call raises ValueError: {_several(len(specs.items), 'out spec')} for "
                    f"{_several(count, 'result')}.",
                    help=_ONE_FOR_EACH.format("result"),
                    why=f"line {seen.call.lineno} unpacks {_several(count, 'result')}",
                )

    def _inputs(self, site: Site, one: Mapped) -> Iterator[Finding]:
        specs, takes = one.in_specs, parameters_of(one.inner, site.program.evaluator)
        if takes is None or not isinstance(specs, Items) or specs.open or specs.kind not in ("tuple", "list"):
            return
        count = len(specs.items)
        most = None if takes.star else len(takes.positional)
        if takes.required <= count and (most is None or count <= most):
            for name, key, line in keys_not_told(takes, specs):
                yield site.finding(
                    _node(site, one, "in_specs"),
                    f"The call raises: `in_specs` has no spec for `{name}[{key!r}]`.",
                    help=f"add a spec for {key!r}, or pass one spec for all of `{name}`",
                    why=f"{_written_in(site, one.inner)}{line} reads the key: an argument with it does not match its "
                    "specs (ValueError), one without it fails the read (KeyError)",
                )
                return  # one is enough
            return
        yield site.finding(
            _node(site, one, "in_specs"),
            f"The call raises ValueError: {_several(count, 'in spec')} for {_takes(takes)}.",
            help=_ONE_FOR_EACH.format("argument"),
            why=_ONE_ENTRY,
        )

    def _report_results(self, site: Site) -> Finding:
        """The finding of `out_specs` that the results do not match."""
        return site.report_violation(
            f"The call raises ValueError: `out_specs` does not match the result: {site.violation.said['mismatch']}.",
            help=_ONE_FOR_EACH.format("result"),
            why="out_specs is a tree prefix of what the function returns",
        )


def _node(site: Site, one: Mapped, name: str) -> ast.AST:
    place = one.settings.keywords.get(name)
    return place.node if place is not None and place.file is site.file else site.call


def _written_in(site: Site, function: Value) -> str:
    while isinstance(function, Transformed):
        function = function.inner
    file = function.place.file if isinstance(function, Function) else site.file
    return "line " if file is site.file else f"{file.path.name}:"


def _several(count: int, what: str) -> str:
    return f"{count} {what}{'' if count == 1 else 's'}"


def _takes(takes: Parameters) -> str:
    if takes.star:
        return f"at least {_several(takes.required, 'argument')}"
    if takes.required == len(takes.positional):
        return _several(takes.required, "argument")
    return f"{takes.required} to {_several(len(takes.positional), 'argument')}"
