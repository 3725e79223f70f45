"""SL412."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import ClassVar

from shardlint.model.api import JIT_WRAPPERS
from shardlint.model.ends import End
from shardlint.model.values import Api, Place, Transformed, Value, options
from shardlint.rules_api.rule import Calls, Certainty, Edit, Finding, Fix, Harm, Rule, Safety
from shardlint.rules_api.site import Site
from shardlint.source.patterns import regex
from shardlint_rules.jit.repeated import called_in_a_loop, is_test, loop_around, once_only

# Loops that jax unrolls when it traces, and what goes over data.
_JAX_LOOP = regex(r"^(?:range|zip|enumerate)?\(?\s*(?:n_|num_|self\.n|layers|params|\d)|layers|leaves|blocks")
_FEEDS = regex(r"(?i)load|batches|data|iterator|stream|queue|epoch|dataset|requests|fit$|train$|evaluate$")


class EagerShardMap(Rule):
    """A function mapped by `shard_map` is called again and again without `jit`.

    ## What it does
    Reports `jax.shard_map` whose result is called in a loop of host code, or in a function that such a loop calls, with
    no `jit` around it. Likely: in a loop over data (`for batch in loader`) of a function that nobody calls in sight.
    Tests, single calls, a body that is jitted itself, and calls that are or may be traced are left
    alone.

    ## Why it hurts
    Without `jit` each operation of the body is compiled and sent to the devices by itself, and the body runs in Python
    at every call. Four small matrix products on 8 devices took 487 ms a call on jax 0.12, and 0.6 ms under `jax.jit`.

    ## Fix safety
    Unsafe: under `jax.jit` what Python does in the body, such as printing or counting, is done once, when it is traced.

    ## Evidence
    The proof counts how often the body runs: at each call, and once under `jax.jit`.
    """

    code = "SL412"
    name = "eager-shard-map"
    harm = Harm.COST
    likely = ("host-loop",)
    triggers = (Calls("jax.shard_map"),)
    forms = ("call", "partial")
    bound = True
    fixes = "unsafe"
    releases: ClassVar[dict[str, str]] = {"jax": ">=0.4.38"}

    def check(self, site: Site) -> Iterator[Finding]:
        """One finding for a mapped function, at its first call in a loop."""
        body = site.decorated or site.argument("f")
        if body is None or is_test(site.file, site.syntax) or site.expected_to_fail or _is_jitted(site, body):
            return
        program = site.program
        ends = program.flow.ends(site.file, body) if site.decorated else program.flow.calls(Place(site.file, site.call))
        for end in ends.found:
            if _repeated(site, end):
                yield self._finding(site, end.place)
                return
        for end in ends.found if site.wants("host-loop") else ():
            if (why := _in_a_loop_of_the_host(site, end)) is not None:
                yield self._finding(site, end.place, why)
                return

    def _finding(self, site: Site, call: Place, why: str = "") -> Finding:
        once = _made_once(site)
        where = site.where(call)
        here = call.node is site.call or call.node is site.file.parent(site.call)
        return site.finding(
            site.call,
            "called in a loop without jit" if here else f"called in a loop at {where}, without jit",
            f"On {site.release('jax')} each call runs the body in Python and compiles its operations one by one.",
            help="wrap it in jax.jit" if once else "make jax.jit(jax.shard_map(...)) once, above the loop",
            fix=_jitted(site) if once else None,
            certainty=Certainty.POSSIBLE if why else Certainty.PROVEN,
            form="host-loop" if why else "",
            why=why,
        )


def _is_jitted(site: Site, body: ast.AST) -> bool:
    """Whether the body is jitted itself: each call then runs one compiled program."""
    if site.decorated is not None:
        below = site.decorated.decorator_list
        inner = [Place(site.file, one) for one in below[below.index(site.call) + 1 :]]
        apis = (one for place in inner for one in _apis(site.program.value(site.file, place.node)))
        return any(one.name in JIT_WRAPPERS for one in apis)
    return any(isinstance(one, Transformed) and one.api.name in JIT_WRAPPERS for one in options(site.value(body)))


def _apis(value: Value) -> Iterator[Api]:
    for one in options(value):
        if isinstance(one, Api):
            yield one
        elif isinstance(one, Transformed):
            yield one.api
            if isinstance(one.inner, Api):
                yield one.inner


def _repeated(site: Site, end: End) -> bool:
    """Whether an end is a call without jit that host code makes again and again."""
    file, call = end.place.file, end.place.node
    if end.kind != "called" or not isinstance(call, ast.Call) or is_test(file, call):
        return False
    if any(one.effect == "staged" and one.place.node is not site.call for one in end.wrappers):
        return False
    if site.program.region(file, call).traced != "never":
        return False
    loop = loop_around(file, call)
    if loop is not None:
        return not once_only(file, call, loop)
    around = file.home(call).function()
    return around is not None and called_in_a_loop(site.program, file, around.node) is not None


def _in_a_loop_of_the_host(site: Site, end: End) -> str | None:
    """Why the loop around a call without jit is one of the host, where nothing says that it is traced."""
    file, call = end.place.file, end.place.node
    if end.kind != "called" or not isinstance(call, ast.Call) or is_test(file, call):
        return None
    if any(one.effect == "staged" and one.place.node is not site.call for one in end.wrappers):
        return None
    loop = loop_around(file, call)
    if not isinstance(loop, ast.For) or once_only(file, call, loop):
        return None
    if site.program.region(file, call).traced != "unknown":
        return None
    around = file.home(call).function()
    if around is None or _JAX_LOOP.search(file.text(loop.iter)):
        return None
    names = [one for one in (getattr(around.node, "name", ""), file.text(loop.iter)) if _FEEDS.search(one)]
    return f"`{' '.join(names[-1].split())}` is what a program goes through on the host" if names else None


def _made_once(site: Site) -> bool:
    """Whether the mapped function is not made anew for each call."""
    around = site.file.home(site.decorated or site.call).function()
    if loop_around(site.file, site.decorated or site.call) is not None:
        return False
    return around is None or called_in_a_loop(site.program, site.file, around.node) is None


def _jitted(site: Site) -> Fix:
    """`jax.jit` around it."""
    name, imports = site.spell("jax.jit")
    start, end = site.file.span(site.call)
    why = "what Python does in the body is then done once, when it is traced"
    if site.decorated is None:
        edits = [Edit(start, start, f"{name}("), Edit(end, end, ")")]
    else:
        line = site.file.source.text.rfind("\n", 0, start) + 1
        indent = site.file.source.text[line : start - 1]
        edits = [Edit(start - 1, start - 1, f"@{name}\n{indent}")]
    return site.fix(Safety.UNSAFE, f"write {name} around it", [*edits, *imports], why)
