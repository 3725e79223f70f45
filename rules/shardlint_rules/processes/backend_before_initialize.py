"""SL803."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from shardlint.model.values import Api, Function, Place, options
from shardlint.rules_api.rule import Calls, Finding, Harm, Rule, Statements
from shardlint.rules_api.site import Site
from shardlint_rules.processes.starting import caught, started_before, told

_INITIALIZE = "jax.distributed.initialize"
_PARTS = ("init", "setup", "set_up", "connect", "distributed", "configure", "launch", "start", "join")
_DEPTH = 2


class BackendBeforeInitialize(Rule):
    """Something has started the backend before `jax.distributed.initialize` is called.

    ## What it does
    Reports calls of `jax.distributed.initialize`, and of functions and methods of the project that call it, where an
    earlier statement starts the backend: `jax.devices()`, `jax.process_index()`, a key, an array. It follows what
    surely runs before: statements, functions and constructors they call, modules they import with their constants,
    defaults, class bodies and decorators. Branches and loops do not count.

    ## Why it hurts
    It raises `RuntimeError: jax.distributed.initialize() must be called before any JAX calls that might initialise the
    XLA backend`. Older releases went on, and each process was a cluster of its own.

    ## Evidence
    Run on jax 0.12 with each of the calls that it takes for a start. Reported for jax itself (issue 12258), flashbax
    and MaxText.
    """

    code = "SL803"
    name = "backend-before-initialize"
    harm = Harm.CRASH
    triggers = (Calls(_INITIALIZE), Statements(*_PARTS), Statements(*_PARTS, or_scripts=True))
    project_says = ("distributed.initialize", "jax.distributed", "import distributed", "distributed as")
    fixes = "none"
    forms = ("call", "statement")

    def check(self, site: Site) -> Iterator[Finding]:
        """One finding for a call."""
        place = Place(site.file, site.call)
        if site.form == "statement" and not self._leads(site):
            return
        if caught(site):
            return
        started = started_before(site, place)
        if started is None:
            return
        through = "" if site.form == "call" else f" that `{site.text(site.call.func)}` makes"
        yield site.finding(
            site.call,
            "the backend has started",
            f"The call of jax.distributed.initialize{through} raises RuntimeError: the backend was started by "
            f"{told(site, started)}.",
            help="call jax.distributed.initialize first, and ask for devices, processes and arrays after it",
        )

    def _leads(self, site: Site) -> bool:
        """Whether a function of the project calls it, and nothing that surely runs in there comes before."""
        if isinstance(site.call.func, ast.Attribute) and site.call.func.attr == "__init__":
            return False  # of the class above
        if not (site.anywhere("distributed.initialize") or site.anywhere("jax.distributed")):
            return False
        for option in options(site.value(site.call.func)):
            found = _inside(site, option, 0)
            if found is not None:
                return started_before(site, found) is None
        return False


def _inside(site: Site, value: object, depth: int) -> Place | None:
    """The call of initialize in a function or what it calls."""
    if not isinstance(value, Function) or isinstance(value.node, ast.Lambda) or depth > _DEPTH:
        return None
    if depth == _DEPTH and not value.place.file.says("distributed"):
        return None
    question = "leads to initialize", value.node, depth
    return site.program.of_node(question, lambda: _looked_into(site, value, depth))


def _looked_into(site: Site, value: Function, depth: int) -> Place | None:
    file = value.place.file
    for scope in (file.walked(file.scope(value.node)),):
        for call in scope.calls:
            for option in options(site.program.value(file, call.func)):
                if isinstance(option, Api) and option.name == _INITIALIZE:
                    return Place(file, call)
                if isinstance(option, Function):
                    found = _inside(site, option, depth + 1)
                    if found is not None:
                        return found
    return None
