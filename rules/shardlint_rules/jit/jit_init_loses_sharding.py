"""SL204."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from typing import ClassVar

from shardlint.rules_api.rule import Calls, Certainty, Finding, Fix, Harm, Rule, Safety, Uses
from shardlint.rules_api.site import Site
from shardlint.syntax.nodes import walk
from shardlint_rules.jit._shardings_known import shardings_after, shardings_before, shardings_named
from shardlint_rules.jit.fresh import BESIDE, makes_fresh
from shardlint_rules.jit.placed import PLACED_WORDS, placed_around, placed_later
from shardlint_rules.jit.reads import calls_of
from shardlint_rules.mesh.axis_types import makes_explicit_meshes

_JITS = ("jax.jit", "equinox.filter_jit")
# The arrays may be placed in another file than the one that says what is made like them.
_SAYS = (*PLACED_WORDS, ".init", "zeros", "_like", "TrainState")
_PLACING = ("out_shardings", "out_axis_resources", "device", "backend")


_WHY = {
    "mesh-given": "no mesh that is made here has Explicit axes",
    "optimizer-by-name": "its name says that it is an optimizer",
}


class JitInitLosesSharding(Rule):
    """Zeros made inside jit do not follow the sharding of what they are made like.

    ## What it does
    Reports `jax.jit(optimizer.init)(params)`, `jax.jit(jnp.zeros_like)(x)` and functions that do no more than that,
    without `out_shardings`, called with arrays that are sharded. Also `TrainState.create`, whose moments come back
    whole on every device beside the parameters. Possible: of what only its name calls an optimizer. Likely: any jitted
    function without `out_shardings` of whose result the code computes the shardings, by `jax.eval_shape` before or from
    the arrays afterwards, and places it nowhere.

    ## Why it hurts
    The zeros depend on shapes only, so the compiled program reads none of its arguments and knows nothing of their
    sharding. The moments of the optimizer, twice the size of the model, come back whole on the first device (under
    `jax.set_mesh` with Auto axes whole on every device). Nothing is raised; it runs out of memory where the model
    itself would have fitted.

    ## Use instead
    Outside of jit `zeros_like` keeps the sharding. Or keep the jit and give it `out_shardings`.

    ## Fix safety
    Unsafe: without the jit the state is made array by array, and small counters stay on one device.

    ## Evidence
    Run on jax 0.4.38 to 0.12. With Explicit axes the
    sharding is part of the type and is kept: left alone (where the mesh is handed in, no mesh of the program may have
    them), as are optimizers without such a state (plain `sgd`) and
    a result that is placed on the spot. Making arrays inside jit on purpose, with `out_shardings`, is right.
    """

    code = "SL204"
    name = "jit-init-loses-sharding"
    harm = Harm.SILENT
    releases: ClassVar[Mapping[str, str]] = {"jax": ">=0.4.38"}
    likely = ("mesh-given", "shardings-after", "shardings-before", "shardings-named")
    assumes = True
    project_says = PLACED_WORDS
    triggers = (Calls(*_JITS, file_says=_SAYS), Uses(*_JITS, file_says=_SAYS))
    fixes = "unsafe"

    def check(self, site: Site) -> Iterator[Finding]:
        """One finding for a jit whose result is fresh, called with what is sharded."""
        function, calls = _compiled(site)
        if function is None:
            return
        words, form = makes_fresh(site, function), ""
        if words is None and site.wants("optimizer-by-name"):
            words, form = makes_fresh(site, function, by_name=True), "optimizer-by-name"
        if words is None:
            yield from self._computed(site, function, calls)
            return
        calls = [call for call in calls if not _placed(site, call)]
        known = [call for call in calls if _given_sharded(site, call, auto=True)]
        if not known and not makes_explicit_meshes(site):
            known = [call for call in calls if _given_sharded(site, call, auto=False)]
            form = form or "mesh-given"
        if not known:
            yield from self._computed(site, function, calls)
            return
        yield site.finding(
            site.syntax,
            f"On {site.release('jax')} {words} comes back whole on "
            + (
                "every device."
                if words == BESIDE
                else "one device, or under jax.set_mesh whole on every one."
            ),
            label=(
                "the moments depend on no array, so they take no sharding from one"
                if words == BESIDE
                else "the result depends on no array, so it takes no sharding from one"
            ),
            help="call it outside of jit, where zeros_like keeps the sharding, or give the jit out_shardings",
            fix=self._fix(site, known[0]) if form != "optimizer-by-name" else None,
            certainty=Certainty.POSSIBLE if form else Certainty.PROVEN,
            form=form,
            why=_WHY.get(form, ""),
        )

    def _computed(
        self, site: Site, function: ast.expr | ast.FunctionDef, calls: list[ast.Call]
    ) -> Iterator[Finding]:
        """What is made whole, of which the code computes the shardings: before, or only from the arrays."""
        if not site.wants("shardings-after") or site.program.project.is_test(site.file.path):
            return
        if makes_explicit_meshes(site):
            return
        for call in calls:
            before: ast.expr | ast.Assign | None = shardings_before(site, function, call)
            named = shardings_named(site, function, call) if before is None else None
            after = shardings_after(site, function, call) if before is None and named is None else None
            known = before or named or after
            if known is None:
                continue
            told = "computed" if before else "bound" if named else "computed afterwards"
            yield site.finding(
                site.syntax,
                f"On {site.release('jax')} what jit makes with no out_shardings comes back on one device, or on each "
                "device of the mesh that its arguments lie on: there must be room for all of it.",
                label=f"the result comes back whole: its shardings are {told} in line {known.lineno}, and not given",
                help="give jit these out_shardings"
                if after is None
                else "compute them from jax.eval_shape of the function, and give jit out_shardings",
                certainty=Certainty.POSSIBLE,
                form="shardings-before" if before else "shardings-named" if named else "shardings-after",
                why=f"`{' '.join(site.text(known).split())}`",
            )
            return

    def _fix(self, site: Site, call: ast.Call) -> Fix | None:
        """The call without the jit, where both are one expression."""
        if site.form != "call":
            return None
        function = site.call.args[0]
        plain = (
            isinstance(function, ast.Name | ast.Attribute)
            and len(site.call.args) == 1
            and not site.call.keywords
        )
        if call.func is not site.call or not plain:
            return None
        text = site.text(function)
        return site.fix(
            Safety.UNSAFE,
            f"write: {text}({', '.join(site.text(part) for part in call.args)})",
            [site.replace(site.call, text)],
            "the arrays are made one by one, and counters stay on one device",
            drops=[part.id for part in walk(site.call.func) if isinstance(part, ast.Name)],
        )


def _compiled(site: Site) -> tuple[ast.expr | ast.FunctionDef | None, list[ast.Call]]:
    """The function that is compiled without a word of where its result goes, and its calls in this file."""
    decorated = site.decorated
    if site.form == "name" and isinstance(decorated, ast.FunctionDef) and len(decorated.decorator_list) == 1:
        ends = site.program.flow.ends(site.file, decorated).found
        places = [end.place for end in ends if end.kind == "called" and end.place.file is site.file]
        return decorated, [place.node for place in places if isinstance(place.node, ast.Call)]
    if site.form != "call" or not site.call.args or site.arguments.open_keywords:
        return None, []
    if any(site.keyword(name) is not None for name in _PLACING):
        return None, []
    return site.call.args[0], list(calls_of(site.file, site.call))


def _placed(site: Site, call: ast.Call) -> bool:
    return placed_around(site, call) or placed_later(site, call)


def _given_sharded(site: Site, call: ast.Call, auto: bool) -> bool:
    """Whether the arrays the result is made like are spread over a mesh; `auto`: surely with Auto axes."""
    return len(call.args) >= 1 and site.shardings.spread(
        site.program.followed(site.value(call.args[0])), auto=auto
    )
