"""SL405."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from shardlint.program.mapped import Mapped, mapped
from shardlint.program.reach import lookup
from shardlint.program.signatures import Parameters, parameters_of
from shardlint.program.values import Function, Items, Table, Value, Wrapped
from shardlint.program.varying import Local, Record, Tree
from shardlint.rule import Certainty, Finding, Harm, Rule
from shardlint.site import Site
from shardlint_rules.shard_map.runs import MAPPING, mapping_call, runs


class ShardMapArity(Rule):
    """The specs of a `shard_map` do not fit what the function takes or returns.

    ## What it does
    Reports a tuple of `in_specs` with more or fewer entries than the function takes arguments (bound self, `partial`
    and defaults counted), and `out_specs` of another length, or with other keys, than what the function returns.
    Possible: out specs whose names or comments tell that they stand in another order than the results
    (`out_specs=(out_spec, cache_spec)` for `return cache, out`).

    ## Why it hurts
    The wrong length raises ValueError when the function is called, after everything else was set up. The wrong order
    raises nothing where the ranks allow it: each result is put together along the dimension of the other.

    ## Evidence
    Run on jax 0.12. One spec for all arguments or results is legal, and so are functions with `*args`.
    """

    code = "SL405"
    name = "shard-map-arity"
    harm = Harm.CRASH
    likely = ("order",)
    assumes = True
    wakes = MAPPING
    fixes = "none"
    by_hand = "which spec is meant for what is for its author to say"

    def check(self, site: Site) -> Iterator[Finding]:
        """One finding for in_specs, one for out_specs."""
        found = mapping_call(site)
        if found is None:
            return
        for one in mapped(site.program, site.file, *found):
            if one.api == "jax.shard_map":
                yield from self._inputs(site, one)
        for ran in runs(site):
            if ran.mapped.api == "jax.shard_map":
                yield from self._outputs(site, ran.mapped, ran.result)

    def _inputs(self, site: Site, one: Mapped) -> Iterator[Finding]:
        specs, takes = one.in_specs, parameters_of(one.inner, site.program.evaluator)
        if takes is None or not isinstance(specs, Items) or specs.open or specs.kind not in ("tuple", "list"):
            return
        count = len(specs.items)
        most = None if takes.star else len(takes.positional)
        if takes.required <= count and (most is None or count <= most):
            return
        yield site.finding(
            _node(site, one, "in_specs"),
            f"{_several(count, 'spec')} for a function of {_takes(takes)}",
            f"On {site.on('jax')} a call raises: in_specs has one entry for each argument.",
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
        elif isinstance(specs, Table) and not specs.open and isinstance(result, Record):
            missing = {key for key, _ in specs.entries} ^ {key for key, _ in result.entries}
            if missing:
                names = ", ".join(sorted(repr(key) for key in missing))
                yield self._wrong(site, node, f"its keys are not those of the returned dict ({names})")

    def _wrong(self, site: Site, node: ast.AST, label: str) -> Finding:
        return site.finding(
            node,
            label,
            f"On {site.on('jax')} a call raises ValueError: out_specs is a prefix of what the function returns.",
            help="give one spec for each result, or one for all of them",
        )

    def _order(self, site: Site, one: Mapped, node: ast.AST) -> Iterator[Finding]:
        """Specs named for results that are returned at another place."""
        specs = _displayed(site, node)
        names = _returned(one.inner)
        if specs is None or names is None or len(specs) != len(names) or len(set(names)) != len(names):
            return
        said = [_named_for(spec, names) for spec in specs]
        if any(place is not None and place != at for at, place in enumerate(said)):
            at_fault = _display(site, node) or node
            known = [place for place in said if place is not None]
            if len(known) < 2 or len(set(known)) != len(known):
                return
            listed = ", ".join(names)
            yield site.finding(
                at_fault,
                f"in another order than the results: {listed}",
                f"On {site.on('jax')} each result is put together by the spec of another; it raises only where the "
                "ranks do not allow it.",
                help=f"give the specs in the order of the results: {listed}",
                harm=Harm.SILENT,
                certainty=Certainty.POSSIBLE,
                form="order",
                why="what the specs and the results are called",
            )


def _node(site: Site, one: Mapped, name: str) -> ast.AST:
    place = one.settings.keywords.get(name)
    return place.node if place is not None and place.file is site.file else site.call


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
    while isinstance(value, Wrapped):
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


# What people call the same thing: a result may be told by any of these words.
_WORDS = (
    ("cache", "kv", "kvcache"),
    ("out", "output", "attn", "o", "query", "q"),
    ("state", "states"),
    ("logits", "scores"),
    ("loss",),
    ("params", "weights"),
    ("grads", "gradients"),
    ("metrics",),
    ("weight",),
)


def _named_for(spec: str, names: list[str]) -> int | None:
    """Which of the results a spec names; None where it names none or several."""
    words = set("".join(c if c.isalnum() else " " for c in spec).split()) - {
        "p",
        "spec",
        "none",
        "self",
        "partitionspec",
    }
    found = [at for at, name in enumerate(names) if words & _alike(name)]
    return found[0] if len(found) == 1 else None


def _alike(name: str) -> set[str]:
    parts = set(name.replace("_", " ").split())
    return parts.union(*(group for group in _WORDS if parts & set(group)))
