"""SL215."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from typing import ClassVar

from shardlint.model.mesh.meshes import Spec
from shardlint.model.mesh.shardings import JITS
from shardlint.model.values import CallResult, Transformed, options
from shardlint.rules_api.rule import Calls, Certainty, Edit, Finding, Fix, Harm, Rule, Safety
from shardlint.rules_api.site import Site
from shardlint.syntax.nodes import walk
from shardlint_rules.jit._spellings import Side, comparisons, same_in_other_words, side, spec_in
from shardlint_rules.jit.reads import name_of, reads

_SPEC = "jax.sharding.PartitionSpec"
_SHARDING = "jax.sharding.NamedSharding"
_PUT = "jax.device_put"


class IdentityOfSpecs(Rule):
    """Specs that place alike are compared by how they are spelled.

    ## What it does
    Reports `==` and `!=` between specs or shardings that place alike and are written differently, as `P("data")` and
    `P("data", None)`; between a spec and a tuple; and a compiled function that is given the same arrays under both
    spellings. A comparison with an array's own sharding, whose spelling the text does not tell, is possible.

    ## Why it hurts
    `P("data") == P("data", None)` is False, and so is `P() == P(None)`, though both mean the same for a matrix. A
    program that asks "is it placed already?" so places it again, or takes the wrong branch. From jax 0.10 on a spec
    is not a tuple either: `P("data") == ("data",)` is False. And jit, which looks its programs up by sharding, keeps an
    entry for each spelling (the compiled program is shared: this costs a slow first call, and trips checks that
    count cache misses).

    ## Fix safety
    Safe: what is compared is what was meant, and a sharding written differently places alike.

    ## Evidence
    Run on jax 0.4.38, 0.6.2, 0.8.3, 0.10.2 and 0.12. `device_put`
    keeps the spelling, and a constraint in jit does not: only the first counts as told. The cache of jit was measured
    apart: two entries, one trace, one compilation. Left alone: asserted inequalities, and `is_equivalent_to`.
    """

    code = "SL215"
    name = "identity-of-specs"
    harm = Harm.SILENT
    releases: ClassVar[Mapping[str, str]] = {"jax": ">=0.4.38"}
    triggers = (Calls(_SPEC, _SHARDING, _PUT),)
    forms = ("call",)
    fixes = "safe"

    def check(self, site: Site) -> Iterator[Finding]:
        """Findings at comparisons that this call is part of, and at the argument of a jit it is."""
        if site.api == _PUT:
            yield from self._keys(site)
            return
        for compare in comparisons(site.file, site.call):
            left, right = side(site, compare.left), side(site, compare.comparators[0])
            if left is not None and right is not None and _owner(site, left, right) is site.call:
                yield from self._compared(site, compare, left, right)

    # comparisons

    def _compared(self, site: Site, compare: ast.Compare, left: Side, right: Side) -> Iterator[Finding]:
        equal = isinstance(compare.ops[0], ast.Eq)
        if not equal and isinstance(site.file.parent(compare), ast.Assert):
            return
        always = "False" if equal else "True"
        kinds = {left.kind, right.kind}
        if kinds == {"spec", "tuple"}:
            asked = (left if left.kind == "spec" else right).node
            told = isinstance(asked, ast.Attribute) and asked.attr == "spec"  # SL339 tells of these
            if site.allows("jax", ">=0.10.2") and not told:
                yield site.finding(
                    compare,
                    "a spec is compared with a tuple",
                    f"On {site.release('jax')} this is always {always}: a PartitionSpec equals no tuple.",
                    help="compare it with a PartitionSpec",
                    fix=_with_spec(site, left if left.kind == "tuple" else right),
                )
            return
        if len(kinds) != 1 or kinds == {"tuple"}:
            return
        if left.spec is not None and right.spec is not None:
            if same_in_other_words(left.spec, right.spec):
                yield site.finding(
                    compare,
                    "two ways to write one placement",
                    f"On {site.release('jax')} this is {always}: == compares how specs are written, "
                    "not where they place.",
                    help="ask for it: a.sharding.is_equivalent_to(other, a.ndim)",
                    fix=_equivalent(site, compare, left, right),
                )
        elif _decides(site, compare):
            yield site.finding(
                compare,
                "compares how specs are written",
                f"On {site.release('jax')} this is {always} too where both place alike and are written differently, "
                "as P('a') and P('a', None) are.",
                help="ask for it: a.sharding.is_equivalent_to(other, a.ndim)",
                certainty=Certainty.POSSIBLE,
                form="own-sharding",
            )

    # jit's cache

    def _keys(self, site: Site) -> Iterator[Finding]:
        """An array that goes into a compiled function placed as another one is, under a shorter spelling."""
        own = _spec_of(site, site.call)
        given = list(_jitted(site)) if own is not None else []
        if own is None or not given or site.region.traced in ("always", "sometimes"):
            return
        for call, index in given:
            for other in _other_calls(site, call):
                if index >= len(other.args):
                    continue
                spec = _spec_of(site, other.args[index])
                if spec is None or not same_in_other_words(own, spec) or len(own.entries) > len(spec.entries):
                    continue
                place = site.argument("device")
                assert place is not None
                written = f"P({', '.join(_entry(entry.axes) for entry in spec.entries)})"
                yield site.finding(
                    place,
                    f"the same placement is written {written} at line {other.lineno}",
                    f"On {site.release('jax')} a jit keeps an entry for each way to write it: the first call with "
                    f"either misses.",
                    help=f"spell it {written} everywhere",
                    harm=Harm.COST,
                    fix=_longer(site, place, len(spec.entries) - len(own.entries)),
                )
                return


def _entry(axes: tuple[str, ...]) -> str:
    names = ", ".join(repr(axis) for axis in axes)
    return "None" if not axes else names if len(axes) == 1 else f"({names})"


def _owner(site: Site, left: Side, right: Side) -> ast.AST | None:
    """The call whose site tells of a comparison, so that it is told once: that of the first spec or sharding."""
    for one in (left, right):
        for option in options(site.value(one.node)):
            made = option.call if isinstance(option, CallResult) and option.api in (_SPEC, _SHARDING) else None
            if made is not None and made.place.file is site.file:
                return made.place.node
        if one.spec is not None and one.spec.place.file is site.file:
            return one.spec.place.node
    return None


def _decides(site: Site, compare: ast.Compare) -> bool:
    """Whether something depends on it other than an assertion, which would be heard."""
    for outer in site.file.ancestors(compare):
        if isinstance(outer, ast.If | ast.IfExp | ast.While):
            return any(part is compare for part in walk(outer.test))
        if isinstance(outer, ast.stmt):
            return False
    return False


def _equivalent(site: Site, compare: ast.Compare, left: Side, right: Side) -> Fix | None:
    asked, other = (left, right) if left.array is not None else (right, left)
    parent = site.file.parent(compare)
    if asked.array is None or not isinstance(parent, ast.stmt | ast.BoolOp | ast.IfExp):
        return None
    array, text = site.text(asked.array), site.text(other.node)
    imports: tuple[Edit, ...] = ()
    if asked.kind == "spec":
        name, imports = site.spell(_SHARDING)
        text = f"{name}({array}.sharding.mesh, {text})"
    negated = "" if isinstance(compare.ops[0], ast.Eq) else "not "
    written = f"{negated}{array}.sharding.is_equivalent_to({text}, {array}.ndim)"
    return site.fix(Safety.SAFE, f"write: {written}", [site.replace(compare, written), *imports])


def _with_spec(site: Site, given: Side) -> Fix | None:
    if not isinstance(given.node, ast.Tuple) or not site.text(given.node).startswith("("):
        return None
    name, imports = site.spell(_SPEC)
    start, _ = site.file.span(given.node)
    return site.fix(Safety.SAFE, f"write {name}{site.text(given.node)}", [Edit(start, start, name), *imports])


def _longer(site: Site, place: ast.expr, count: int) -> Fix | None:
    """The spec written where it is used gets the missing None."""
    for part in walk(place):
        value = site.value(part) if isinstance(part, ast.Call) else None
        if isinstance(part, ast.Call) and isinstance(value, CallResult) and value.api == _SPEC:
            if (
                part.keywords
                or not part.args
                or any(isinstance(argument, ast.Starred) for argument in part.args)
            ):
                return None
            end = site.file.span(part.args[-1])[1]
            added = ", None" * count
            text = site.text(part)
            return site.fix(Safety.SAFE, f"write {text[:-1].rstrip(', ')}{added})", [Edit(end, end, added)])
    return None


def _spec_of(site: Site, node: ast.expr) -> Spec | None:
    found = options(site.value(node))
    if len(found) != 1 or not isinstance(found[0], CallResult) or found[0].api != _PUT:
        return None
    return spec_in(site, site.shardings.target(found[0]))


def _jitted(site: Site) -> Iterator[tuple[ast.Call, int]]:
    """Calls of compiled functions that this array goes into, and as which argument."""
    bound = name_of(site.file, site.call)
    for place in (site.call, *(reads(site.file, bound) if bound is not None else ())):
        call = site.file.parent(place)
        if not isinstance(call, ast.Call) or place not in call.args or not isinstance(call.func, ast.Name):
            continue
        if all(isinstance(one, Transformed) and one.api.name in JITS for one in options(site.value(call.func))):
            yield call, call.args.index(place)


def _other_calls(site: Site, call: ast.Call) -> Iterator[ast.Call]:
    """Other calls of the same compiled function."""
    assert isinstance(call.func, ast.Name)
    function = site.value(call.func)
    for use in site.file.mentions(call.func.id):
        other = site.file.parent(use)
        called = isinstance(other, ast.Call) and other.func is use and other is not call
        if isinstance(other, ast.Call) and called and site.value(use) == function:
            yield other
