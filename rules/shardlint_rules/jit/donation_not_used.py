"""SL223."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from shardlint.model.lifetime.donation import PMAP
from shardlint.model.shapes import shape_of
from shardlint.model.signatures import DONATE_SETTINGS, JITS, Jitted, names, positions, wrappings
from shardlint.model.values import Function, Place
from shardlint.rules_api.rule import Calls, Certainty, Finding, Harm, Keywords, Rule
from shardlint.rules_api.site import Site
from shardlint_rules.jit._donated_named import WEIGHTS, Named, by_wrapper, named
from shardlint_rules.jit.donated import donation_of
from shardlint_rules.jit.no_output import sliced, why_none
from shardlint_rules.jit.results import results as counted
from shardlint_rules.jit.results import returned_by


class DonationNotUsed(Rule):
    """A donated buffer that no output can take.

    ## What it does
    Reports arguments donated to `jax.jit`, `pjit` and `pmap` of which every result has surely another shape: the
    function returns only sums, means and the like, comparisons, or slices of the argument; or does not use the
    argument. Also where it runs a model on it (`model.apply({"params": params}, x)`) and returns what that computes.
    And more donated arguments than there are results: one `jax.tree.map(f, caches, slices)` has an array for each of
    the caches, so none is left for the slices. And, by its name, data, a random key or a learning rate of which the
    function returns no new one, also where a decorator of the project is told to donate it (likely).
    A possible finding where shapes are not known from the text (`shardlint verify` tells from the compiled program),
    likely where it is weights or a state by its name; proven where a call gives an array of known shape and only
    slices of it return.

    ## Why it hurts
    XLA takes a donated buffer only for an output of the same shape, type and sharding. Otherwise nothing is freed, and
    two copies live at a time. jax warns of it ("Some donated buffers were not usable") on one device, and on a mesh
    with Auto axes often not at all.

    ## Use instead
    Delete the array when it is no longer needed (`del x`), or donate an argument that has the shape of a result.

    ## Evidence
    Run on jax 0.4.38 to 0.12: bytes of donated arguments against the
    alias bytes of the compiled program. Results are counted where the text shows every one of them: displays,
    `tree.map` with a function that returns one array, `optax.apply_updates`, arithmetic and array functions. With
    `keep_unused=True` an argument that is not used is handed over and its buffer taken: left alone.
    `eqx.filter_jit(donate="all")` donates whatever it can and means no harm: it is left alone.
    """

    code = "SL223"
    name = "donation-not-used"
    bound = True
    harm = Harm.COST
    likely = ("count", "named", "weights")
    triggers = (
        Calls(*JITS, PMAP, file_says=DONATE_SETTINGS),
        Keywords("donate_argnums", file_says=(r"(?m)^\s*@.*donate_argnums", "partial(")),
    )

    def check(self, site: Site) -> Iterator[Finding]:
        """One finding for a wrapper."""
        if site.form == "keyword":
            wrapped = by_wrapper(site) if site.wants("named") else None
            if wrapped is not None:
                yield from self._named(
                    site, wrapped.keyword, named(site.file, wrapped.function, wrapped.donated)
                )
            return
        keyword = next((one for one in site.call.keywords if (one.arg or "").startswith("donate_arg")), None)
        if keyword is None:
            return
        functions = list(wrappings(site.program, site.file, site.call, site.form, (*JITS, PMAP)))
        if len(functions) != 1:
            return
        donated = _donated(site, functions[0])
        lost = [(name, why) for name in donated if (why := why_none(site, functions[0], name))]
        if not lost:
            too_many = list(self._too_many(site, keyword, functions[0], donated))
            yield from too_many
            inner = functions[0].inner
            if not too_many and isinstance(inner, Function) and isinstance(inner.node, ast.FunctionDef):
                yield from self._named(site, keyword, named(inner.place.file, inner.node, donated))
            return
        shown = ", ".join(f"`{name}`" for name, _ in lost)
        proven = all(_proven(site, functions[0], name) for name, _ in lost)
        weights = next((name for name, _ in lost if WEIGHTS.search(name)), None)
        yield site.finding(
            keyword,
            f"On {site.release('jax')} donating {shown} frees nothing: a buffer becomes only an output of its own "
            "shape, type and sharding.",
            label=f"no result can take the buffer of {shown}: {lost[0][1]}",
            help="do not donate it, and delete it when it is no longer needed",
            certainty=Certainty.PROVEN if proven else Certainty.POSSIBLE,
            form="" if proven else "weights" if weights is not None else "shape",
            why="" if proven or weights is None else f"by its name `{weights}` is needed by the caller again",
        )

    def _named(self, site: Site, keyword: ast.keyword, found: list[Named]) -> Iterator[Finding]:
        """Donated arguments that are no state by their names, and of which no new one is returned."""
        if not found or not site.wants("named"):
            return
        shown = ", ".join(f"`{one.name}`" for one in found)
        whats = " and ".join(dict.fromkeys(one.what for one in found))
        yield site.finding(
            keyword,
            f"On {site.release('jax')} a donated buffer is gone for the caller, and becomes only an output of its own "
            f"shape and type: the function returns no new {shown}.",
            label=f"donates {shown}: {whats}",
            help="donate what the function returns a new one of: the parameters, the state of the optimizer",
            certainty=Certainty.POSSIBLE,
            form="named",
            why="no result has its name",
        )

    def _too_many(
        self, site: Site, keyword: ast.keyword, function: Jitted, donated: list[str]
    ) -> Iterator[Finding]:
        """More donated arguments than there are results."""
        if not isinstance(function.inner, Function) or len(donated) < 2 or "self" in donated:
            return
        file, node = function.inner.place.file, function.inner.node
        found = counted(site.program.evaluator, file, returned_by(file, node))
        rest = found.left_over(donated) if found is not None else []
        if found is None or not rest:
            return
        others = ", ".join(f"`{name}`" for name in found.like)
        shown = ", ".join(f"`{name}`" for name in rest)
        if not found.arrays:
            why = f"no result is left for the buffer of {shown}" + (f" beside {others}" if others else "")
        else:
            many = "one array is" if found.arrays == 1 else f"{found.arrays} arrays are"
            why = f"{many} returned for the buffers of {shown}"
        yield site.finding(
            donation_of(keyword, rest[-1], _place(function, rest[-1])),
            f"On {site.release('jax')} one donation more than there are results frees nothing: a buffer becomes only "
            "an output of its own shape, type and sharding, and an output takes one.",
            label=why,
            help="donate as many arguments as there are results of their shape, and delete the others",
            certainty=Certainty.POSSIBLE,
            form="count",
            why="every result that the function returns is in its text",
        )


def _proven(site: Site, function: Jitted, name: str) -> bool:
    """Whether some call gives an array of known shape, and every result is a slice of it that leaves something out."""
    parameters = function.parameters
    if not isinstance(function.inner, Function) or parameters is None or site.form != "call":
        return False
    file, node = function.inner.place.file, function.inner.node
    results = returned_by(file, node)
    if not results or not all(isinstance(one, ast.Subscript) and sliced(one, name) for one in results):
        return False
    evaluator = site.program.evaluator
    for end in site.program.flow.calls(Place(site.file, site.call)).found:
        if end.kind != "called" or end.wrappers or not isinstance(end.place.node, ast.Call):
            continue
        given = evaluator.arguments(end.place)
        index = parameters.positional.index(name) if name in parameters.positional else None
        if index is None or given.open_positional or index >= len(given.positional):
            continue
        if (shape := shape_of(evaluator, given.positional[index])) and all(shape):
            return True
    return False


def _place(function: Jitted, name: str) -> int | None:
    positional = function.parameters.positional if function.parameters is not None else ()
    return positional.index(name) if name in positional else None


def _donated(site: Site, function: Jitted) -> list[str]:
    parameters, evaluator = function.parameters, site.program.evaluator
    found = positions(function, "donate", evaluator)
    by_name = names(function.setting("donate_argnames"), function.settings, evaluator)
    if parameters is None or found is None or by_name is None:
        return []
    chosen = [parameters.positional[index] for index in sorted(found) if index < len(parameters.positional)]
    return [*chosen, *(name for name in by_name if name in parameters.keyword_only)]
