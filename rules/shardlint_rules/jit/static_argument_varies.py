"""SL244."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from shardlint.model.signatures import JITS, STATIC_SETTINGS, Jitted, Parameters, names, positions, wrappings
from shardlint.model.values import Place
from shardlint.rules_api.rule import Calls, Certainty, Finding, Harm, Rule, Uses
from shardlint.rules_api.site import Site
from shardlint.source.lazy import dataclass
from shardlint.syntax import FileFacts, last_name
from shardlint.syntax.nodes import walk
from shardlint_rules.jit._by_identity import made_anew
from shardlint_rules.jit._counters import Counters
from shardlint_rules.jit.repeated import is_test, once_only

_FILTER = "equinox.filter_jit"
_MOST = 40
_NO_CLASS = ("a lambda", "a partial")
# What takes sizes, or runs at trace time.
_SHAPING = frozenset(
    ("range", "zeros", "ones", "full", "empty", "arange", "linspace", "eye", "reshape", "broadcast_to", "tile",
     "repeat", "split", "array_split", "pad", "top_k", "iota", "getattr", "print", "str")
)  # fmt: skip


@dataclass(frozen=True)
class _Varying:
    """A call in a loop, and the argument of it that is another number in each turn."""

    place: Place
    argument: ast.expr
    parameter: str
    made: str = ""
    """What is made anew in each turn, and is equal to nothing else; nothing of a number."""


class StaticArgumentVaries(Rule):
    """A static argument is another number, or another object, in each turn of a loop.

    ## What it does
    Reports jitted functions with `static_argnums` or `static_argnames` that are called in a loop with its counter, or
    with what arithmetic makes of it, for a static argument: `decode(params, cache, token, pos)`. And functions of
    `eqx.filter_jit`, of which every Python number is static, that are given such a number: `step(model, batch, i)`.
    So too static arguments that the loop makes anew and that are equal to nothing but themselves: lambdas, partials,
    and instances of a class without `__eq__` and `__hash__`.

    ## Why it hurts
    Compiled programs are kept by the values of static arguments. Each turn traces and compiles the whole function
    again: seconds where milliseconds were meant, on every device and process, and all the programs are kept.

    ## Use instead
    Leave the argument traced; make such an object once, before the loop, or its class a frozen dataclass. What needs
    it as a Python number (shapes, Python branches) is written with `lax` or `jnp.where`. For `filter_jit` give an
    array: `jnp.asarray(i)`.

    ## Evidence
    Run on jax 0.4.38 to 0.12 and Equinox 0.11 to 0.13: four turns trace four times. Left alone: loops over parts of
    a model (layers, blocks, stages), short ones (`range(8)`), tests and benchmarks, calls that are made once, calls in
    traced code, where the loop is unrolled into one program, remainders (`i % 2`), and functions that need the number
    itself: for a Python branch, a count of turns, a shape or a slice.
    """

    code = "SL244"
    name = "static-argument-varies"
    harm = Harm.COST
    certainty = Certainty.POSSIBLE
    likely = ("counter", "filter-jit", "identity")
    triggers = (
        Calls(*JITS, file_says=STATIC_SETTINGS),
        Calls(_FILTER),
        Uses(_FILTER),
    )
    forms = ("call", "partial", "keyword", "name")
    fixes = "none"
    bound = True

    def check(self, site: Site) -> Iterator[Finding]:
        """One finding for a jitted function, or for each number that is given to one of filter_jit."""
        if is_test(site.file, site.syntax):
            return
        if site.api == _FILTER:
            varying = list(self._any(site))
            here = [one for one in varying if one.place.file is site.file]
            for one in here or varying[:1]:
                yield self._filtered(site, one)
            return
        found = next(self._static(site), None)
        if found is None:
            return
        setting = next(filter(None, map(site.keyword, STATIC_SETTINGS)))
        if found.made:
            yield site.finding(
                setting,
                f"`{found.parameter}` is {found.made} that each turn of a loop makes anew",
                f"On {site.release('jax')} programs are kept by the values of static arguments, and this one is equal "
                f"to nothing but itself: each turn compiles anew (line {found.place.line}"
                f"{_elsewhere(site, found.place)}).",
                help="make it once, before the loop"
                + ("" if found.made in _NO_CLASS else ", or its class a frozen dataclass"),
                form="identity",
                why=f"it is called in a loop at {site.where(found.place)}",
            )
            return
        yield site.finding(
            setting,
            f"`{found.parameter}` is another number in each turn of a loop",
            f"On {site.release('jax')} each value of a static argument is compiled anew: line {found.place.line}"
            f"{_elsewhere(site, found.place)} gives it `{found.place.file.text(found.argument)}`.",
            help=f"leave `{found.parameter}` out of {setting.arg}, so that it is traced",
            form="counter",
            why=f"it is called in a loop at {site.where(found.place)}",
        )

    def _filtered(self, site: Site, found: _Varying) -> Finding:
        here = found.place.file is site.file
        said = found.place.file.text(found.argument)
        return site.finding(
            found.argument if here else site.syntax,
            "a Python number that is another in each turn of the loop",
            f"On {site.release('jax')} filter_jit takes Python numbers as static, and compiles anew for each"
            f"{'' if here else f': `{said}` at {site.where(found.place)}'}.",
            help=f"give it as an array: jnp.asarray({said})",
            form="filter-jit",
            why=f"it is called in a loop at {site.where(found.place)}",
        )

    def _static(self, site: Site) -> Iterator[_Varying]:
        """Static arguments that vary."""
        if all(site.keyword(name) is None for name in STATIC_SETTINGS):
            return
        for one in wrappings(site.program, site.file, site.call, site.form):
            places = positions(one, "static", site.program.evaluator)
            named = names(one.setting("static_argnames"), one.settings, site.program.evaluator)
            takes = one.parameters
            if places is None or takes is None:
                continue
            static = {takes.positional[at] for at in places if at < len(takes.positional)} | set(named or ())
            for place, call, counters in self._calls(site, sure=False):
                given = _given(site, place, call, one)
                for name in sorted(static & given.keys()):
                    varying = counters.varying(given[name])
                    made = made_anew(site.program, place.file, counters.loops[0], given[name])
                    if varying is not None and not _is_needed(takes, name):
                        yield _Varying(place, varying, name)
                    elif made:
                        yield _Varying(place, given[name], name, made)

    def _any(self, site: Site) -> Iterator[_Varying]:
        """Arguments of a filter_jit that vary, each of which is static if it is a number."""
        made = site.syntax if isinstance(site.syntax, ast.expr) else site.call
        function = next(wrappings(site.program, site.file, made, site.form, (_FILTER,)), None)
        takes = function.parameters if function is not None else None
        for place, call, counters in self._calls(site, sure=True):
            given = _given(site, place, call, function) if function is not None else {}
            taken_by = {id(one): name for name, one in given.items()}
            for argument in (*call.args, *(one.value for one in call.keywords)):
                varying = counters.varying(argument)
                if varying is not None and not (takes and _is_needed(takes, taken_by.get(id(argument), ""))):
                    yield _Varying(place, varying, "")

    def _calls(self, site: Site, sure: bool) -> Iterator[tuple[Place, ast.Call, Counters]]:
        """The calls of the jitted function that a loop of host code makes again and again."""
        flow, parent = site.program.flow, site.decorated
        ends = flow.ends(site.file, parent) if parent is not None else flow.calls(Place(site.file, site.syntax), True)
        for end in ends.found[:_MOST]:
            call, file = end.place.node, end.place.file
            if end.kind != "called" or not isinstance(call, ast.Call) or is_test(file, call):
                continue
            counters = Counters(site.program, file, call, sure)
            if not counters.loops or (sure and not counters.names):
                continue
            if once_only(file, call, counters.loops[0]) or _is_traced(site, file, call):
                continue
            if not any(isinstance(one, ast.Starred) for one in call.args):
                yield end.place, call, counters


def _given(site: Site, end: Place, call: ast.Call, function: Jitted) -> dict[str, ast.expr]:
    """The arguments of a call by parameter."""
    takes = function.parameters
    if takes is None:
        return {}
    # Of a method that was jitted before it was bound, the call does not give self.
    if takes.positional[:1] == ("self",) and isinstance(call.func, ast.Attribute):
        takes = takes.without_first()
    bound = takes.bind(site.program.evaluator.arguments(end)) or {}
    return {name: place.node for name, place in bound.items() if isinstance(place.node, ast.expr)}


def _is_needed(takes: Parameters, name: str) -> bool:
    """Whether a function needs the number itself: for a Python branch, a count of turns, a shape, a slice."""
    if takes.node is None:
        return False
    for node in walk(takes.node):
        asked: list[ast.expr | None] = []
        match node:
            case ast.If(test=test) | ast.While(test=test) | ast.IfExp(test=test) | ast.Assert(test=test):
                asked = [test]
            case ast.Slice(lower=lower, upper=upper, step=step):
                asked = [lower, upper, step]
            case ast.FormattedValue(value=value):
                asked = [value]
            case ast.Subscript(value=ast.Name() | ast.Attribute(), slice=ast.Name() as index):
                asked = [index]
            case ast.Call(args=args, keywords=keywords) if last_name(node.func) in _SHAPING:
                asked = [*args, *(one.value for one in keywords)]
        if any(isinstance(one, ast.Name) and one.id == name for part in asked if part for one in walk(part)):
            return True
    return False


def _is_traced(site: Site, file: FileFacts, call: ast.Call) -> bool:
    """Whether the loop is in traced code, where it is unrolled into one program."""
    return site.program.region(file, call).traced in ("always", "sometimes")


def _elsewhere(site: Site, place: Place) -> str:
    return "" if place.file is site.file else f" of {place.file.path.name}"
