"""SL405."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from shardlint.model.manual.mapped import Mapped, mapped
from shardlint.model.manual.varying import Local, Record, Tree
from shardlint.model.reach import lookup
from shardlint.model.signatures import Parameters, parameters_of
from shardlint.model.values import Function, Items, Table, Transformed, Value
from shardlint.rules_api.mapping import BY_JAX
from shardlint.rules_api.rule import Certainty, Finding, Harm, Rule
from shardlint.rules_api.site import Site
from shardlint_rules.shard_map._keys import keys_not_told
from shardlint_rules.shard_map._named import named_for, plain
from shardlint_rules.shard_map._seen import Seen, returns_one_array, seen_calls
from shardlint_rules.shard_map.runs import mapping_call, runs


class ShardMapArity(Rule):
    """The specs of a `shard_map` do not fit what the function takes or returns.

    ## What it does
    Reports a tuple of `in_specs` with more or fewer entries than the function takes arguments (bound self, `partial`
    and defaults counted), a dict of specs without a key that the function reads of that argument, and
    `out_specs` of another length, or with other keys, than what the function returns. So does it where a call of the
    mapped function gives another number of arguments, or unpacks another number of results.
    Possible: out specs whose names or comments tell that they stand in another order than the results
    (`out_specs=(out_spec, cache_spec)` for `return cache, out`), and one spec that is named for one of several results.

    ## Why it hurts
    The wrong length raises ValueError when the function is called, after everything else was set up. The wrong order
    raises nothing where the ranks allow it: each result is put together along the dimension of the other.

    ## Evidence
    Run on jax 0.12. One spec for all arguments or results is legal, and so are functions with `*args`.
    """

    code = "SL405"
    name = "shard-map-arity"
    harm = Harm.CRASH
    likely = ("one-for-all", "order")
    assumes = True
    blames_calls = True
    triggers = BY_JAX
    fixes = "none"
    by_hand = "which spec is meant for what is for the author to decide"

    def check(self, site: Site) -> Iterator[Finding]:
        """One finding for in_specs, one for out_specs."""
        found = mapping_call(site)
        if found is None:
            return
        done = False
        for one in mapped(site.program, site.file, *found):
            if one.api == "jax.shard_map":
                wrong = [*self._inputs(site, one)]
                done = done or bool(wrong)
                yield from wrong
        for ran in runs(site):
            if ran.mapped.api == "jax.shard_map":
                wrong = [*self._outputs(site, ran.mapped, ran.result)]
                done = done or bool(wrong)
                yield from wrong
        if not done and site.api == "jax.shard_map":
            yield from self._calls(site)

    def _calls(self, site: Site) -> Iterator[Finding]:
        """The calls of what was mapped, whether its definition is in sight or not."""
        settings = {one.arg: one.value for one in site.call.keywords}
        if None in settings or not {"in_specs", "out_specs"} & settings.keys():
            return
        specs = {name: site.value(settings[name]) for name in ("in_specs", "out_specs") if name in settings}
        for seen in seen_calls(site, site.call):
            # What another call of the function around the site made has specs of its own.
            told = {name: seen.setting(site.program, name) for name in specs}
            mine = {
                name: given
                for name, given in specs.items()
                if told[name] == given or (told[name] is None and not site.assuming)
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
            where = "" if here else f" (at {seen.file.path.name}:{seen.call.lineno})"
            yield site.finding(
                seen.call if here else site.call,
                f"On {site.release('jax')} this call raises ValueError: in_specs has one entry for each argument.",
                label=f"{_several(seen.count, 'argument')}{where}, and in_specs has {_several(len(specs.items), 'spec')}",
                help="give one spec for each argument, or one for all of them",
            )

    def _taken(self, site: Site, seen: Seen, specs: Value | None, node: ast.expr | None) -> Iterator[Finding]:
        target = seen.unpacked
        if target is None or node is None:
            return
        count = len(target.elts)
        if isinstance(specs, Items) and not specs.open and specs.kind in ("tuple", "list"):
            if len(specs.items) != count:
                yield site.finding(
                    node,
                    f"On {site.release('jax')} a call raises ValueError: out_specs has one entry for each result.",
                    label=(
                        f"{_several(len(specs.items), 'spec')}, and {count} results are unpacked at line "
                        f"{seen.call.lineno}"
                    ),
                    help="give one spec for each result, or one for all of them",
                )
            return
        if isinstance(specs, Items | Table) or count < 2:
            return
        shown = _written(site, node)
        names = [seen.file.text(one).lower() for one in target.elts]
        mine = named_for(plain(site.text(shown)), names)
        if mine is not None:
            others = ", ".join(f"`{name}`" for at, name in enumerate(names) if at != mine and name != "_")
            if others:
                yield site.finding(
                    shown,
                    f"On {site.release('jax')} one spec goes for all {count} results: {others} is put together by the "
                    f"spec of `{names[mine]}`, and a result of a lower rank than the spec raises ValueError.",
                    label=f"named for `{names[mine]}`, and is the spec of {others} too",
                    help=f"give a tuple of {count} specs, one for each result",
                    certainty=Certainty.POSSIBLE,
                    form="one-for-all",
                    why="what the spec and the results are called",
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
                    f"On {site.release('jax')} a call raises: with this key the argument is another tree than its "
                    "specs (ValueError), and without it there is nothing to read (KeyError).",
                    label=f"no spec for `{name}[{key!r}]`, which is read at {_written_in(site, one.inner)}{line}",
                    help=f"give {key!r} a spec, or one spec for the whole of `{name}`",
                )
                return  # one is enough
            return
        yield site.finding(
            _node(site, one, "in_specs"),
            f"On {site.release('jax')} a call raises: in_specs has one entry for each argument.",
            label=f"{_several(count, 'spec')} for a function of {_takes(takes)}",
            help="give one spec for each argument, or one for all of them",
        )

    def _outputs(self, site: Site, one: Mapped, result: Local) -> Iterator[Finding]:
        specs = one.out_specs
        node = _node(site, one, "out_specs")
        if isinstance(specs, Items) and not specs.open and specs.kind in ("tuple", "list"):
            if isinstance(result, Tree | Record):
                count = len(result.items) if isinstance(result, Tree) else None
                if count != len(specs.items):
                    returned = f"a tuple of {count}" if count is not None else "a dict"
                    yield self._wrong(
                        site, node, f"{_several(len(specs.items), 'spec')}, for {returned} returned"
                    )
                    return
                yield from self._order(site, one, node)
            elif specs.items and returns_one_array(site.program, one.inner):
                yield self._wrong(
                    site, node, f"{_several(len(specs.items), 'spec')}, for a single array returned"
                )
        elif isinstance(specs, Table) and not specs.open and isinstance(result, Record):
            missing = {key for key, _ in specs.entries} ^ {key for key, _ in result.entries}
            if missing:
                names = ", ".join(sorted(repr(key) for key in missing))
                yield self._wrong(site, node, f"its keys are not those of the returned dict ({names})")

    def _wrong(self, site: Site, node: ast.AST, label: str) -> Finding:
        return site.finding(
            node,
            f"On {site.release('jax')} a call raises ValueError: out_specs is a prefix of what the function returns.",
            label=label,
            help="give one spec for each result, or one for all of them",
        )

    def _order(self, site: Site, one: Mapped, node: ast.AST) -> Iterator[Finding]:
        """Specs named for results that are returned at another place."""
        specs = _displayed(site, node)
        names = _returned(one.inner)
        if specs is None or names is None or len(specs) != len(names) or len(set(names)) != len(names):
            return
        said = [named_for(spec, names) for spec in specs]
        if any(place is not None and place != at for at, place in enumerate(said)):
            at_fault = _display(site, node) or node
            known = [place for place in said if place is not None]
            if len(known) < 2 or len(set(known)) != len(known):
                return
            listed = ", ".join(names)
            yield site.finding(
                at_fault,
                f"On {site.release('jax')} each result is put together by the spec of another; it raises only where "
                "the ranks do not allow it.",
                label=f"in another order than the results: {listed}",
                help=f"give the specs in the order of the results: {listed}",
                harm=Harm.SILENT,
                certainty=Certainty.POSSIBLE,
                form="order",
                why="what the specs and the results are called",
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


def _display(site: Site, node: ast.AST) -> ast.Tuple | ast.List | None:
    """The tuple of specs, where it is written in sight."""
    if isinstance(node, ast.Name):
        bindings, _ = lookup(site.file, node, node.id)
        if len(bindings) == 1 and bindings[0].value is not None:
            node = bindings[0].value
    return node if isinstance(node, ast.Tuple | ast.List) else None


def _displayed(site: Site, node: ast.AST) -> list[str] | None:
    """The specs as they are written, each with the comment behind it."""
    shown = _display(site, node)
    if shown is None:
        return None
    lines = site.file.source.text.splitlines()
    found = []
    for element in shown.elts:
        last = element.end_lineno or element.lineno
        _, _, comment = lines[last - 1][element.end_col_offset or 0 :].partition("#")
        alone = not any(other is not element and other.lineno == last for other in shown.elts)
        found.append(f"{site.text(element)} {comment if alone else ''}".lower())
    return found


def _returned(value: Value) -> list[str] | None:
    """The names of the results, where each `return` gives the same."""
    while isinstance(value, Transformed):
        value = value.inner
    if not isinstance(value, Function) or not isinstance(value.node, ast.FunctionDef):
        return None
    scope = value.place.file.walked(value.place.file.scope(value.node))
    found: set[tuple[str, ...]] = set()
    for one in scope.returns:
        shown = one.value if isinstance(one, ast.Return) else None
        if not isinstance(shown, ast.Tuple) or not all(isinstance(part, ast.Name) for part in shown.elts):
            return None
        found.add(tuple(part.id.lower() for part in shown.elts if isinstance(part, ast.Name)))
    return list(found.pop()) if len(found) == 1 else None


def _written(site: Site, node: ast.expr) -> ast.expr:
    """What a name stands for, where it is bound once."""
    if isinstance(node, ast.Name):
        bindings, _ = lookup(site.file, node, node.id)
        if len(bindings) == 1 and bindings[0].kind == "assign" and bindings[0].value is not None:
            return bindings[0].value
    return node
