"""SL245."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from shardlint.model.values import Api, Place, options
from shardlint.rules_api.rule import Calls, Certainty, Finding, Harm, Rule
from shardlint.rules_api.site import Site
from shardlint.syntax.nodes import walk
from shardlint_rules.processes.differing import Differing, differing
from shardlint_rules.processes.starting import at, short

_TRACED = ("always", "sometimes")
_KEYS = ("jax.random.PRNGKey", "jax.random.key", "jax.random.fold_in", "flax.nnx.Rngs")
_SAYS = ("time.", "datetime", "random.rand", "random.choice", "random.getrandbits", "uuid", "urandom", "secrets")
_DRAWN = ("random", "randint", "randrange", "choice", "getrandbits", "rand", "randn", "integers", "random_integers")


class KeyFrozenByTrace(Rule):
    """A random key is made of the time, or of a number that Python draws, in code that is compiled.

    ## What it does
    Reports `jax.random.PRNGKey`, `key`, `fold_in` and `nnx.Rngs` in traced code (jit, pmap,
    grad below them, scan, modules that a traced step applies), where what they are given is read from a clock, a uuid,
    `random` or `np.random` there: itself, through names, helpers and f-strings.

    ## Why it hurts
    A trace runs the function once. What the clock said then is a constant of the compiled program: every later call
    drops the same units, adds the same noise and picks the same samples, until something compiles it anew. The loss
    still falls, and nothing says so.

    ## Use instead
    A key that comes in as an argument, split by the caller for each step, or one folded with a step that is an array:
    `jax.random.fold_in(key, state.step)`.

    ## Evidence
    Run on jax 0.4.38 to 0.12: two calls two seconds apart draw the same numbers.
    """

    code = "SL245"
    name = "key-frozen-by-trace"
    harm = Harm.SILENT
    certainty = Certainty.POSSIBLE
    likely = ("key",)
    triggers = (Calls(*_KEYS, file_says=_SAYS),)
    forms = ("call",)
    in_tests = False
    fixes = "none"

    def check(self, site: Site) -> Iterator[Finding]:
        """One finding for a key."""
        given = [*site.call.args, *(one.value for one in site.call.keywords if one.arg is not None)]
        read = next(((node, one) for node in given if (one := _read(site, node)) is not None), None)
        if read is None:
            return
        node, found = read
        region = site.region
        if region.traced not in _TRACED:
            return
        if site.program.region(found.place.file, found.place.node).traced not in _TRACED:
            return  # read by Python, and handed in
        where = at(found.place, site.file, node)
        yield site.finding(
            node,
            f"{region.describe(site.file)}: {found.what}, read once",
            f"`{short(found.place)}`{where} is read when this is traced, and is a constant of the compiled program: "
            "every later call draws the same numbers.",
            help="take the key as an argument, and split it for each call: key, sub = jax.random.split(key)",
            form="key",
            why="it is traced " + ("always" if region.proven else "on this way"),
        )


def _read(site: Site, node: ast.expr) -> Differing | None:
    """What a seed is read from that each run of Python answers anew."""
    found = differing(site.program, Place(site.file, node))
    if found is not None:
        return found
    for call in walk(node):
        if isinstance(call, ast.Call):
            for one in options(site.value(call.func)):
                drawn = isinstance(one, Api) and one.name.startswith(("random.", "numpy.random."))
                if isinstance(one, Api) and drawn and one.name.rpartition(".")[2] in _DRAWN:
                    return Differing(Place(site.file, call), "a random number")
    return None
